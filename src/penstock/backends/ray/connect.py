"""Connect to an existing Ray cluster, with a timeout."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from penstock.errors import ClusterError

_MODE = "RAY_AUTH_MODE"
# A cluster usually answers within two seconds; one that is busy or starting takes longer.
JOIN_TIMEOUT_S = 60.0
# With a runtime environment, Ray uploads its files before it returns.
JOIN_WITH_ENVIRONMENT_S = 600.0
_POLL_INTERVAL_S = 0.1


def connect(address: str, timeout_s: float = JOIN_TIMEOUT_S, **settings: Any) -> None:  # noqa: ANN401 - settings of Ray's
    """Connect to the cluster at an address, with as little output as Ray allows.

    Ray tries for many minutes to reach a cluster that is shutting down, inside calls that no signal interrupts. So the
    call runs in a separate thread, which is abandoned after the timeout or when the user presses Ctrl-C.

    Raise ``ClusterError`` if the cluster does not answer in time, or Ray's exception if it refuses.
    """
    outcome: list[BaseException | None] = []
    thread = threading.Thread(target=_join, args=(address, settings, outcome), name="penstock-join", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout_s
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_POLL_INTERVAL_S)  # in short steps: a signal is handled between two of them
    if not outcome:
        raise ClusterError(f"the Ray cluster at {described(address)} did not answer within {timeout_s:g} s.")
    if outcome[0] is not None:
        raise outcome[0]


def described(address: str) -> str:
    """Return an address as the user set it; for ``auto``, with the address that Ray finds.

    >>> described("head:6379")
    'head:6379'
    """
    if address != "auto":
        return address
    services: Any = import_module("ray._private.services")
    with suppress(Exception):  # only needed for a message
        return f"'auto' ({services.canonicalize_bootstrap_address(address)})"
    return "'auto'"


def _join(address: str, settings: dict[str, Any], outcome: list[BaseException | None]) -> None:
    import ray

    try:
        if _requires_token(address):
            use_token_if_there_is_one()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)
        outcome.append(None)
    except BaseException as error:
        outcome.append(error)


def use_token_if_there_is_one() -> None:
    """Enable token authentication if the user has a token, as ``ray start --head`` does.

    In some releases ``ray.init`` does not do this and is refused. A setting of the user is not changed.
    """
    with suppress(ImportError):  # releases without tokens
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _requires_token(address: str) -> bool:
    """Tell whether a cluster refuses connections without a token; Ray itself would retry for half a minute."""
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
    except Exception:  # other errors are reported by the connection itself
        return False
    return False
