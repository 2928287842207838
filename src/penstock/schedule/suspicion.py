"""Compute after how many deaths a batch counts as the cause.

A segmentation fault is caused by the batch. ``SIGKILL`` may come from the out-of-memory killer or from an operator, and
proves nothing yet. Such a batch is retried until it has died so often in a row that chance does not explain it, given
how often the other workers of its pool die: three times if no other worker dies, twenty times if every second one does.
"""

from __future__ import annotations

from math import ceil, log

# The probability that a batch is blamed by mistake.
_MAX_FALSE_BLAME = 1e-6
_MAX_ATTEMPTS = 24


def attempts_needed(max_attempts: int, deaths_elsewhere: int, survived: int) -> int:
    """Return after how many deaths in a row a batch, or a setup, counts as their cause.

    ``deaths_elsewhere`` and ``survived`` count what happened to the other batches of the pool.

    >>> attempts_needed(3, deaths_elsewhere=0, survived=1000), attempts_needed(3, deaths_elsewhere=0, survived=10)
    (3, 6)
    >>> attempts_needed(3, deaths_elsewhere=50, survived=50)
    20
    """
    if max_attempts == 1:
        return 1  # the user wants nothing tried twice
    chance = (deaths_elsewhere + 1) / (deaths_elsewhere + survived + 2)
    return min(_MAX_ATTEMPTS, max(max_attempts, ceil(log(_MAX_FALSE_BLAME) / log(chance))))
