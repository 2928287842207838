"""What lies where, and what it was made from: enough to make again what was lost.

A record holds on to the records it was made from. Small tasks travel inside messages, so the driver has them anyway;
they stay as long as anything that descends from them is on its way. What lies in the object store goes when it was
consumed, and only the way back to its ancestors is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from penstock.backends.ray.payload import InStore
from penstock.runtime.transport import Stored


@dataclass(eq=False)
class Record:
    """One task, and those it came from."""

    stored: Stored
    parents: tuple[Record, ...]

    @property
    def is_there(self) -> bool:
        """Whether the task can still be had, as far as anybody knows."""
        return not isinstance(self.stored.place, InStore) or self.stored.place.is_there


class Records:
    """All tasks that are on their way, and what is left of their ancestors."""

    def __init__(self) -> None:
        self._live: dict[str, Record] = {}
        self._all: WeakValueDictionary[str, Record] = WeakValueDictionary()
        # Those that were lost and have not come back.
        self._awaited: set[str] = set()

    def add(self, key: str, stored: Stored, parents: tuple[Record, ...]) -> bool:
        """Take in a stored task; return True if it was there before and got lost."""
        self._live[key] = self._all[key] = Record(stored, parents)
        was_lost = key in self._awaited
        self._awaited.discard(key)
        return was_lost

    def find(self, key: str) -> Record:
        """Return what is known of a task; also of one that was consumed, while something descends from it."""
        return self._live.get(key) or self._all[key]

    def _get(self, key: str) -> Record | None:
        return self._live.get(key) or self._all.get(key)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return those that are not to be had any more, and expect them to be made again."""
        gone = [key for key in keys if (record := self._get(key)) is None or not record.is_there]
        self._awaited.update(gone)
        return gone

    def drop(self, key: str) -> Record | None:
        """Give up a task that was consumed."""
        self._awaited.discard(key)
        return self._live.pop(key, None)

    def lose(self, node: str) -> list[str]:
        """Note that everything on a machine is gone; return the tasks on their way that lay there."""
        for record in list(self._all.values()):
            place = record.stored.place
            if isinstance(place, InStore) and place.shelf.node == node:
                place.shelf.is_lost = True
        return self.missing(list(self._live))

    def lose_object(self, reference_hex: str, keys: Iterable[str]) -> None:
        """Note that one object is gone; if it cannot be told which, all that these tasks lie in."""
        places = [place for key in keys if isinstance(place := self.find(key).stored.place, InStore)]
        hit = [p for p in places if p.shelf.reference is not None and p.shelf.reference.hex() == reference_hex]
        for place in hit or places:
            place.shelf.is_lost = True

    def clear(self) -> None:
        """Forget everything."""
        self._live.clear()
