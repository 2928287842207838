"""Extract plain text from archives of pages, articles and papers."""
