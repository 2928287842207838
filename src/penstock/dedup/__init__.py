"""Finding documents that are there more than once, and removing them."""

from penstock.lazy import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
