"""Find duplicate documents (exact, fuzzy, by URL, by line) and remove them."""

from penstock.lazy import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
