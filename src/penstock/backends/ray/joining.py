"""Joining a Ray cluster that is there."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

_MODE = "RAY_AUTH_MODE"


def join(address: str, **settings: Any) -> None:  # noqa: ANN401 - settings of Ray's
    """Join the cluster at an address, as quietly as Ray can."""
    import ray

    if _asks_for_a_token(address):
        use_token_if_there_is_one()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)


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
