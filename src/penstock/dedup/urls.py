"""Normalise URLs, so that URLs of the same page compare equal."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa

# Query parameters that track visitors and do not identify a page.
_TRACKING = frozenset({"fbclid", "gclid", "dclid", "msclkid", "mc_cid", "mc_eid", "igshid", "yclid", "ref_src"})
_PORTS = {"http": 80, "https": 443}


def normalised_url(url: str) -> str:
    """Return a URL without scheme, ``www.``, fragment and tracking parameters, with the other parameters sorted.

    >>> normalised_url("HTTPS://www.Example.org:443/a/?b=2&utm_source=x&a=1#top")
    'example.org/a?a=1&b=2'
    """
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").rstrip(".").removeprefix("www.")
        port = "" if parts.port in (None, _PORTS.get(parts.scheme.lower())) else f":{parts.port}"
    except ValueError:  # not a valid URL: equal only to itself
        return url.strip()
    if not host:
        return url.strip()
    wanted = [
        pair
        for pair in parse_qsl(parts.query, keep_blank_values=True)
        if not pair[0].lower().startswith("utm_") and pair[0].lower() not in _TRACKING
    ]
    query = f"?{urlencode(sorted(wanted))}" if wanted else ""
    return f"{host}{port}{unquote(parts.path).rstrip('/')}{query}"


def normalised_urls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Normalise a column of URLs; a document without a URL has an empty string."""
    return pa.chunked_array([[normalised_url(url) for url in column.to_pylist()]], pa.large_string())
