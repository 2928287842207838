"""How often something must die before that is held against it.

A segmentation fault is a worker's own. ``SIGKILL`` may be an out-of-memory killer or an operator with another aim, and
says nothing yet. What dies that way is tried again until it has died so often in a row that chance does not explain it,
given how often everything else in its pool dies: three times where nothing else ever does, twenty where every other
worker is shot.
"""

from __future__ import annotations

from math import ceil, log

# Taken for poison by mistake: at most one in so many.
_MISTAKE = 1e-6
_MOST_ATTEMPTS = 24


def attempts_needed(max_attempts: int, deaths_elsewhere: int, survived: int) -> int:
    """Return after how many deaths in a row something is to blame for them.

    ``deaths_elsewhere`` and ``survived`` are what happened to everything else in the pool.

    >>> attempts_needed(3, deaths_elsewhere=0, survived=1000), attempts_needed(3, deaths_elsewhere=0, survived=10)
    (3, 6)
    >>> attempts_needed(3, deaths_elsewhere=50, survived=50)
    20
    """
    if max_attempts == 1:
        return 1  # the user wants nothing tried twice
    chance = (deaths_elsewhere + 1) / (deaths_elsewhere + survived + 2)
    return min(_MOST_ATTEMPTS, max(max_attempts, ceil(log(_MISTAKE) / log(chance))))
