"""Joining a Ray cluster that is there, within a bounded time."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from penstock.errors import ClusterError

_MODE = "RAY_AUTH_MODE"
# A cluster answers within a second or two; one that is busy, or starts at this moment, takes longer.
JOIN_TIMEOUT_S = 60.0
# With an environment Ray uploads what belongs to it before it returns.
JOIN_WITH_ENVIRONMENT_S = 600.0
_POLL_S = 0.1


def connect(address: str, timeout_s: float = JOIN_TIMEOUT_S, **settings: Any) -> None:  # noqa: ANN401 - settings of Ray's
    """Join the cluster at an address, as quietly as Ray can.

    Ray tries for many minutes to reach a cluster that is going down, inside of calls that no signal interrupts. So it
    does that in a thread of its own, which is left alone when its time is up or the user presses Ctrl-C.

    Raises ``ClusterError`` if the cluster does not answer in time, and what Ray raises if it refuses.
    """
    outcome: list[BaseException | None] = []
    thread = threading.Thread(target=_join, args=(address, settings, outcome), name="penstock-join", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout_s
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_POLL_S)  # in short steps: a signal is handled between two of them
    if not outcome:
        raise ClusterError(f"the Ray cluster at {described(address)} did not answer within {timeout_s:g} s.")
    if outcome[0] is not None:
        raise outcome[0]


def described(address: str) -> str:
    """Return an address as the user gave it, with the one that Ray finds behind ``auto``.

    >>> described("head:6379")
    'head:6379'
    """
    if address != "auto":
        return address
    services: Any = import_module("ray._private.services")
    with suppress(Exception):  # it is only to be named
        return f"'auto' ({services.canonicalize_bootstrap_address(address)})"
    return "'auto'"


def _join(address: str, settings: dict[str, Any], outcome: list[BaseException | None]) -> None:
    import ray

    try:
        if _asks_for_a_token(address):
            use_token_if_there_is_one()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)
        outcome.append(None)
    except BaseException as error:
        outcome.append(error)


def use_token_if_there_is_one() -> None:
    """Decide about tokens as ``ray start --head`` does: it asks for one when the user has one.

    In some releases whoever joins does not decide so by himself, and is refused. What the user has set stays.
    """
    with suppress(ImportError):  # releases that know no tokens need no help
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _asks_for_a_token(address: str) -> bool:
    """Tell whether a cluster refuses who comes without a token; Ray itself would try again for half a minute."""
    if _MODE in os.environ:
        return False
    try:
        from ray.exceptions import AuthenticationError
    except ImportError:
        return False
    try:
        import_module("ray._raylet").GcsClient(address=address)
    except AuthenticationError:
        return True
    except Exception:  # whatever else is wrong, joining will say
        return False
    return False
