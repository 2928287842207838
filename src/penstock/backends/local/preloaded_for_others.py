"""What workers begin with that run other stages than deduplication's: all of text curation, and pandas if it is there.

Those of a user most likely need pandas, and it takes a fifth of a second.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from penstock.backends.local.preload import everything_of, for_good

with for_good():
    everything_of("penstock.text")
    with suppress(ImportError):
        import_module("pandas")
