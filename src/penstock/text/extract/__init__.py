"""From archives of pages, articles and papers to plain text."""
