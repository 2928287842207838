"""Text: read documents or extract them from archives, change and filter them, and write the result."""

from penstock.lazy import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
