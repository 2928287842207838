"""Finding documents that are there more than once, and removing them."""
