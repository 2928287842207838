"""Read documents from files and write them."""
