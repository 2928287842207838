"""What lies where, and what it was made from: enough to make again what was lost.

A record holds on to the records it was made from. Small tasks travel inside messages, so the driver has them anyway;
they stay as long as anything that descends from them is on its way. What lies in the object store goes when it was
consumed, and only the way back to its ancestors is kept.
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
    """One task, and those it came from."""

    key: str
    stored: StoredTask
    parents: tuple[Record, ...]

    @property
    def is_there(self) -> bool:
        """Whether the task can still be had, as far as anybody knows."""
        return not isinstance(self.stored.place, InStore) or self.stored.place.is_there


class Records:
    """All tasks that are on their way, and what is left of their ancestors."""

    def __init__(self, room: StoreSpace) -> None:
        self._room = room
        self._live: dict[str, Record] = {}
        # Those and all their ancestors; only since anybody has asked for one that was consumed, or something was lost.
        self._all: WeakValueDictionary[str, Record] | None = None
        # Those that were lost and have not come back.
        self._awaited: set[str] = set()
        # From what the last task was made.
        self._latest: tuple[Sequence[str], tuple[Record, ...]] = ((), ())

    def add(self, key: str, stored: StoredTask, made_from: Sequence[str] = ()) -> bool:
        """Take in a stored task; return True if it was there before and got lost."""
        if made_from is not self._latest[0]:  # several made from the same come one after another
            self._latest = made_from, tuple(self._find(parent) for parent in made_from)
        self._live[key] = record = Record(key, stored, self._latest[1])
        self._room.fill(stored)
        if self._all is None:
            return False
        self._all[key] = record
        was_lost = key in self._awaited
        self._awaited.discard(key)
        return was_lost

    def stored(self, key: str) -> StoredTask:
        """Return where a task lies; also one that was consumed, while something descends from it."""
        return self._find(key).stored

    def lacks(self, keys: Iterable[str]) -> bool:
        """Tell whether some of them are not to be had any more; if so, expect them to be made again."""
        return self._all is not None and bool(self.missing(keys))

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return those that are not to be had any more, and expect them to be made again."""
        every = self._with_ancestors()
        gone = [key for key in keys if (record := every.get(key)) is None or not record.is_there]
        self._awaited.update(gone)
        return gone

    def drop(self, keys: Iterable[str]) -> None:
        """Give up tasks that were consumed."""
        self._awaited.difference_update(keys)
        for key in keys:
            record = self._live.pop(key, None)
            if record is not None:
                self._room.empty(record.stored)
                record.stored.remove()

    def lose(self, node_id: str) -> list[str]:
        """Note that everything on a machine is gone; return the tasks on their way that lay there."""
        for record in list(self._with_ancestors().values()):
            place = record.stored.place
            if isinstance(place, InStore) and place.shelf.node == node_id:
                place.shelf.is_lost = True
        self._room.forget(node_id)
        return self.missing(list(self._live))

    def lose_object(self, reference_hex: str, keys: Iterable[str]) -> None:
        """Note that one object is gone; if it cannot be told which, all that these tasks lie in."""
        self._with_ancestors()
        places = [place for key in keys if isinstance(place := self.stored(key).place, InStore)]
        hit = [p for p in places if p.shelf.reference is not None and p.shelf.reference.hex() == reference_hex]
        for place in hit or places:
            place.shelf.is_lost = True

    def clear(self) -> None:
        """Forget everything."""
        self._live.clear()
        self._latest = ((), ())

    def _find(self, key: str) -> Record:
        return self._live.get(key) or self._with_ancestors()[key]

    def _with_ancestors(self) -> WeakValueDictionary[str, Record]:
        """Return all that are left, by name; from now on they are kept so, because more will be asked for."""
        if self._all is None:
            self._all = WeakValueDictionary()
            to_visit = list(self._live.values())
            while to_visit:
                record = to_visit.pop()
                if record.key not in self._all:
                    self._all[record.key] = record
                    to_visit += record.parents
        return self._all
