"""Joining a Ray cluster that is there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def join(address: str, **settings: Any) -> None:  # noqa: ANN401 - settings of Ray's
    """Join the cluster at an address, as quietly as Ray can."""
    import ray

    with suppress(ImportError):  # releases that know no tokens need no help
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        # ``ray start`` asks for a token when the user has one; who joins it has to decide the same way, and does not
        # by himself in some releases.
        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)
