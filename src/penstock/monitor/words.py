"""Describe a snapshot of a run in words: the headline, durations, rates, and a log line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.core.sizes import human_bytes
from penstock.core.snapshot import PoolSnapshot, RunSnapshot

# Below this share of busy time a pool counts as idle.
_IDLE_BUSY_SHARE = 0.02
# From this share of the memory budget on, an idle pool with a queue is waiting for memory.
_FULL_BUDGET_SHARE = 0.9
_UNITS = ("", "k", "M", "G")


def duration(seconds: float | None) -> str:
    """Format a duration for people, rounded to a sensible unit.

    >>> [duration(seconds) for seconds in (None, 0.2, 42, 200, 1500, 7500, 273_600)]
    ['unknown', 'under a second', '42 s', '3 min 20 s', '25 min', '2 h 05 min', '3 d 04 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return "under a second"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24:02} h"


def silence(seconds: float, reasons: Mapping[str, str]) -> str:
    """Describe how long no task has made progress, and what each pool waits for.

    >>> print(silence(60, {"cut": "waiting for 1.2 GB of credit", "caption": "batch 17 runs for 60 s"}))
    Nothing has moved for 1 min 00 s:
      cut: waiting for 1.2 GB of credit
      caption: batch 17 runs for 60 s
    """
    return "\n  ".join([f"Nothing has moved for {duration(seconds)}:", *(f"{k}: {v}" for k, v in reasons.items())])


def amount(number: float) -> str:
    """Format a number with two or three significant digits.

    >>> [amount(number) for number in (0, 0.0031, 0.25, 4, 12.3, 340, 1_234, 56_780, 9_999_999)]
    ['0', '0.0031', '0.25', '4.0', '12', '340', '1.2k', '57k', '10M']
    """
    if not math.isfinite(number):
        return "?"
    if number < 0.995:
        return f"{number:.2g}" if number >= 0.0001 else "0"
    unit = 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return (f"{number:.1f}" if number < 9.95 else f"{number:.0f}") + _UNITS[unit]


def rate(per_second: float) -> str:
    """Format a number of items per second.

    >>> rate(1234), rate(0.25)
    ('1.2k/s', '0.25/s')
    """
    return f"{amount(per_second)}/s"


def percent(share: float) -> str:
    """Format a share as a percentage, clipped to the range from 0 to 100.

    >>> percent(0.974), percent(1.0001)
    ('97 %', '100 %')
    """
    return f"{min(1.0, max(0.0, share)) * 100:.0f} %"


def held(snapshot: RunSnapshot) -> str:
    """Describe how many bytes are in flight, relative to the budget if there is one."""
    if snapshot.budget_bytes <= 0:
        return f"{human_bytes(snapshot.held_bytes)} in flight"
    return f"{human_bytes(snapshot.held_bytes)} of the {human_bytes(snapshot.budget_bytes)} budget in flight"


def headline(snapshot: RunSnapshot) -> str:
    """Describe in one line what limits the run or what it waits for."""
    pools = snapshot.pools
    if not any(pool.ready or pool.done for pool in pools):
        return "starting the workers"
    if all(pool.remaining <= 0 and pool.queue == 0 for pool in pools) and any(pool.done for pool in pools):
        return "finishing"
    slowest = next((pool for pool in pools if pool.name == snapshot.bottleneck), None)
    if slowest is not None and (reason := _why_it_waits(slowest, snapshot)):
        return reason
    if snapshot.bottleneck is not None:
        return _bound_by(snapshot)
    starting = next((pool for pool in pools if _is_starting(pool)), None)
    if starting is not None:
        return f"waiting for the workers of '{starting.name}' to start"
    if any(pool.done == 0 and pool.remaining > 0 for pool in pools):
        return "measuring the stages"
    return "no stage holds the others back"


def log_line(title: str, snapshot: RunSnapshot) -> str:
    """Return the state of a run as one line for a log."""
    parts = [f"{title}, {duration(snapshot.elapsed)}: {_progress(snapshot)}", headline(snapshot), held(snapshot)]
    if snapshot.failed:
        parts.append(f"{snapshot.failed:,} failed")
    parts.append(f"ETA {duration(snapshot.eta_seconds)}")
    return "; ".join(parts)


def _progress(snapshot: RunSnapshot) -> str:
    if not snapshot.pools:
        return "0 done"
    last = snapshot.pools[-1]
    # Without an ETA the total is unknown, too.
    known = snapshot.eta_seconds is not None and math.isfinite(last.remaining) and last.remaining > 0
    total = f" of about {last.done + round(last.remaining):,}" if known else ""
    return f"{last.done:,}{total} done, {rate(last.items_per_second)}"


def _bound_by(snapshot: RunSnapshot) -> str:
    what = f" on {snapshot.bound_by}" if snapshot.bound_by else ""
    share = f", {percent(snapshot.efficiency)} of what this machine can do" if snapshot.efficiency >= 0 else ""
    return f"bound by '{snapshot.bottleneck}'{what}{share}"


def _why_it_waits(pool: PoolSnapshot, snapshot: RunSnapshot) -> str:
    """Return why the bottleneck pool is not busy; empty if it works."""
    if _is_starting(pool):
        return f"waiting for the workers of '{pool.name}' to start"
    if pool.busy >= _IDLE_BUSY_SHARE or pool.remaining <= 0:
        return ""
    if pool.queue == 0:
        return f"'{pool.name}' is idle: nothing comes in"
    if 0 < snapshot.budget_bytes * _FULL_BUDGET_SHARE <= snapshot.held_bytes:
        return f"'{pool.name}' waits for memory: {held(snapshot)}"
    return ""


def _is_starting(pool: PoolSnapshot) -> bool:
    return pool.ready == 0 and pool.wanted > 0 and pool.remaining > 0
