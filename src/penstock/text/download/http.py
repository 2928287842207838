"""HTTP with patience: which answers are worth another try, how long to wait, and what to say when nothing helps."""

from __future__ import annotations

import random
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from penstock.errors import InputError
from penstock.extras import require

ATTEMPTS = 5
TIMEOUT_S = 60.0
FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 120.0
_WORTH_ANOTHER_TRY = frozenset((408, 425, 429, 500, 502, 503, 504))
_HEADERS = {"User-Agent": "penstock (curates training data)", "Accept-Encoding": "identity"}


class TryAgain(Exception):  # noqa: N818 - never leaves this package
    """Something that may go away: an overloaded server, a lost connection, a body that broke off."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        # How long the server asked us to wait.
        self.wait_s = wait_s


class Refused(Exception):  # noqa: N818 - never leaves this package
    """An answer that will not change: no such file, no permission."""


@contextmanager
def get(url: str, headers: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> Iterator[Any]:
    """Ask for a URL and give the response, its body still to be read; errors say whether to try again."""
    urllib3 = require("urllib3", "extract", "Downloading")
    try:
        response = _connections(_proxy_of(url)).request(
            "GET",
            url,
            headers={**_HEADERS, **(headers or {})},
            preload_content=False,
            retries=urllib3.Retry(0, redirect=5),
            timeout=timeout_s,
        )
        try:
            if response.status in _WORTH_ANOTHER_TRY:
                raise TryAgain(f"HTTP {response.status} {response.reason}", _asked_wait(response.headers))
            if response.status >= 400 and response.status != 416:
                raise Refused(f"HTTP {response.status} {response.reason}")
            yield response
        finally:
            response.close() if response.length_remaining else response.release_conn()
    except urllib3.exceptions.LocationValueError as error:
        raise Refused(f"not an address: {error}") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise TryAgain(_in_words(error)) from error


def get_bytes(
    url: str, headers: Mapping[str, str] | None = None, attempts: int = ATTEMPTS, first_wait_s: float = FIRST_WAIT_S
) -> bytes:
    """Return the whole body of a small file."""
    failures = 0
    while True:
        try:
            with get(url, headers) as response:
                body: bytes = response.read()
                return body
        except Refused as error:
            raise InputError(f"{url}: cannot be had: {error}.") from error
        except TryAgain as error:
            failures += 1
            if failures >= attempts:
                raise InputError(f"{url}: not answered in {attempts} attempts; the last: {error}.") from error
            wait(failures, error.wait_s, first_wait_s)


def wait(failures: int, asked_s: float | None, first_wait_s: float) -> None:
    """Wait before another try: what the server asked for, or twice as long every time, never all workers at once."""
    if asked_s is None:
        asked_s = first_wait_s * 2 ** (failures - 1) * random.uniform(0.5, 1.0)
    time.sleep(min(asked_s, _LONGEST_WAIT_S))


@lru_cache
def _connections(proxy: str | None) -> Any:  # noqa: ANN401 - urllib3 is optional
    """Return the connections of this process, which are kept open between requests."""
    urllib3 = require("urllib3", "extract", "Downloading")
    return urllib3.ProxyManager(proxy, maxsize=16) if proxy else urllib3.PoolManager(maxsize=16)


def _proxy_of(url: str) -> str | None:
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    asked = headers.get("Retry-After", "")
    if asked.isdigit():
        return float(asked)
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error.__cause__ or error
    return f"{type(reason).__name__}: {reason}"
