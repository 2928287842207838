"""Patterns of URLs and phrases of boilerplate."""

from __future__ import annotations

import re

URL = re.compile(r"https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~!*(),]|%[0-9A-Fa-f]{2})+")
URL_CHARACTER = re.compile(r"[A-Za-z0-9$\-_@.&+/:=?#~!*(),]")

LOREM_IPSUM = "lorem ipsum"
POLICY_PHRASES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
    # Beginnings, or unique phrases, of the notices of the most common cookie plug-in.
    "necessary cookies are absolutely essential for the website to function properly",
    "any cookies that may not be particularly necessary for the website to function",
    "without changing your cookie settings, you agree to this use",
)
