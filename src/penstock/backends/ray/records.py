"""Track where each task is stored and what it was made from, so that lost tasks can be made again.

A record references the records it was made from. Small tasks travel inside messages, so the driver has them anyway;
they are kept while any of their descendants is in flight. A task in the object store is removed when it was consumed,
and only the references to its ancestors are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from penstock.backends.ray.payload import InStore
from penstock.backends.ray.store_space import StoreSpace
from penstock.runtime.transport import StoredTask


@dataclass(eq=False, slots=True, weakref_slot=True)
class Record:
    """One task, and the tasks it was made from."""

    key: str
    stored: StoredTask
    parents: tuple[Record, ...]

    @property
    def is_available(self) -> bool:
        """Whether the task is still available, as far as is known."""
        return not isinstance(self.stored.place, InStore) or self.stored.place.is_available


class Records:
    """All tasks in flight, and the records of their ancestors."""

    def __init__(self, space: StoreSpace) -> None:
        self._space = space
        self._live: dict[str, Record] = {}
        # Those and all their ancestors; built on the first request for a consumed task, or the first loss.
        self._all: WeakValueDictionary[str, Record] | None = None
        # Tasks that were lost and have not been made again.
        self._awaited: set[str] = set()
        # The parents of the task that was added last.
        self._latest: tuple[Sequence[str], tuple[Record, ...]] = ((), ())

    def add(self, key: str, stored: StoredTask, made_from: Sequence[str] = ()) -> bool:
        """Add a stored task; return True if it replaces one that was lost."""
        if made_from is not self._latest[0]:  # tasks with the same parents are added in sequence
            self._latest = made_from, tuple(self._find(parent) for parent in made_from)
        self._live[key] = record = Record(key, stored, self._latest[1])
        self._space.fill(stored)
        if self._all is None:
            return False
        self._all[key] = record
        was_lost = key in self._awaited
        self._awaited.discard(key)
        return was_lost

    def stored(self, key: str) -> StoredTask:
        """Return a stored task; also a consumed one, while it has descendants in flight."""
        return self._find(key).stored

    def lacks(self, keys: Iterable[str]) -> bool:
        """Tell whether some of the tasks are lost; if so, expect them to be made again."""
        return self._all is not None and bool(self.missing(keys))

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the tasks that are lost, and expect them to be made again."""
        every = self._with_ancestors()
        gone = [key for key in keys if (record := every.get(key)) is None or not record.is_available]
        self._awaited.update(gone)
        return gone

    def drop(self, keys: Iterable[str]) -> None:
        """Remove tasks that were consumed."""
        self._awaited.difference_update(keys)
        for key in keys:
            record = self._live.pop(key, None)
            if record is not None:
                self._space.empty(record.stored)
                record.stored.remove()

    def lose(self, node_id: str) -> list[str]:
        """Mark everything on a machine as lost; return the tasks in flight that were stored there."""
        for record in list(self._with_ancestors().values()):
            place = record.stored.place
            if isinstance(place, InStore) and place.store_object.node == node_id:
                place.store_object.is_lost = True
        self._space.forget(node_id)
        return self.missing(list(self._live))

    def lose_object(self, reference_hex: str, keys: Iterable[str]) -> None:
        """Mark a lost object; if Ray does not name it, mark every object that holds these tasks."""
        self._with_ancestors()
        places = [place for key in keys if isinstance(place := self.stored(key).place, InStore)]
        lost = [place for place in places if _reference_hex(place) == reference_hex]
        for place in lost or places:
            place.store_object.is_lost = True

    def clear(self) -> None:
        """Forget everything."""
        self._live.clear()
        self._latest = ((), ())

    def _find(self, key: str) -> Record:
        return self._live.get(key) or self._with_ancestors()[key]

    def _with_ancestors(self) -> WeakValueDictionary[str, Record]:
        """Return all records by key, ancestors included; from the first call on the index is kept up to date."""
        if self._all is None:
            self._all = WeakValueDictionary()
            to_visit = list(self._live.values())
            while to_visit:
                record = to_visit.pop()
                if record.key not in self._all:
                    self._all[record.key] = record
                    to_visit += record.parents
        return self._all


def _reference_hex(place: InStore) -> str | None:
    reference = place.store_object.reference
    return reference.hex() if reference is not None else None
