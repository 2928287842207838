"""Joining a Ray cluster that is there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def join(address: str, **settings: Any) -> None:  # noqa: ANN401 - settings of Ray's
    """Join the cluster at an address, as quietly as Ray can."""
    import ray

    agree_on_authentication()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)


def agree_on_authentication() -> None:
    """Decide about tokens as ``ray start --head`` does: it asks for one when the user has one.

    In some releases whoever joins does not decide so by himself, and is refused.
    """
    with suppress(ImportError):  # releases that know no tokens need no help
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
