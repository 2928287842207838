"""HTTP requests with retries: which responses are worth another attempt, and how long to wait."""

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
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
# Credentials are never sent to another server after a redirect.
_CREDENTIALS = frozenset(("authorization", "cookie", "proxy-authorization"))
_RETRIED_STATUSES = frozenset((408, 425, 429, 500, 502, 503, 504))
_HEADERS = {"User-Agent": "penstock (curates training data)", "Accept-Encoding": "identity"}


class TryAgain(Exception):  # noqa: N818 - never leaves this package
    """A temporary failure: an overloaded server, a lost connection, a truncated body."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        # The wait that the server requested.
        self.wait_s = wait_s


class Refused(Exception):  # noqa: N818 - never leaves this package
    """A permanent failure: no such file, no permission."""


@contextmanager
def get(url: str, headers: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> Iterator[Any]:
    """Request a URL and yield the response with its body unread; the type of an error says whether to retry."""
    urllib3 = require("urllib3", "extract", "Downloading")
    try:
        response = _follow(url, {**_HEADERS, **(headers or {})}, timeout_s)
        try:
            if response.status in _RETRIED_STATUSES:
                raise TryAgain(f"HTTP {response.status} {response.reason}", _asked_wait(response.headers))
            if response.status >= 300 and response.status != 416:
                raise Refused(f"HTTP {response.status} {response.reason}")
            yield response
        finally:
            response.close() if response.length_remaining else response.release_conn()
    except urllib3.exceptions.LocationValueError as error:
        raise Refused(f"not an address: {error}") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise TryAgain(_in_words(error)) from error


def _follow(url: str, headers: Mapping[str, str], timeout_s: float) -> Any:  # noqa: ANN401 - urllib3 is optional
    """Request a URL, follow redirects, and return the last response."""
    chain = [url]
    while True:
        response = _connections(_proxy_of(chain[-1])).request(
            "GET", chain[-1], headers=headers, preload_content=False, redirect=False, retries=False, timeout=timeout_s
        )
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            return response
        response.close()
        try:
            chain.append(urllib.parse.urljoin(chain[-1], location))
            same_server = _server(chain[-1]) == _server(chain[-2])
        except ValueError as error:
            raise Refused(f"redirected from {chain[-1]} to {location!r}, which is not an address: {error}") from error
        if urllib.parse.urlsplit(chain[-1]).scheme not in ("http", "https"):
            raise Refused(f"redirected to an address that is not http or https: {' -> '.join(chain)}")
        if len(chain) > _MOST_REDIRECTS + 1:
            raise Refused(f"redirected more than {_MOST_REDIRECTS} times: {' -> '.join(chain)}")
        if not same_server:
            headers = {name: value for name, value in headers.items() if name.lower() not in _CREDENTIALS}


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def get_bytes(
    url: str, headers: Mapping[str, str] | None = None, attempts: int = ATTEMPTS, first_wait_s: float = FIRST_WAIT_S
) -> bytes:
    """Return the body of a small file."""
    failures = 0
    while True:
        try:
            with get(url, headers) as response:
                body: bytes = response.read()
                return body
        except Refused as error:
            raise InputError(f"{url}: cannot be fetched: {error}.") from error
        except TryAgain as error:
            failures += 1
            if failures >= attempts:
                raise InputError(f"{url}: no answer in {attempts} attempts; the last error: {error}.") from error
            wait(failures, error.wait_s, first_wait_s)


def wait(failures: int, asked_s: float | None, first_wait_s: float) -> None:
    """Wait before a retry: as long as the server asked for, or twice as long each time, with random jitter."""
    if asked_s is None:
        asked_s = first_wait_s * 2 ** (failures - 1) * random.uniform(0.5, 1.0)
    time.sleep(min(asked_s, _LONGEST_WAIT_S))


@lru_cache
def _connections(proxy: str | None) -> Any:  # noqa: ANN401 - urllib3 is optional
    """Return the connection pool of this process, which keeps connections open between requests."""
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
