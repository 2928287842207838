"""Filters: which documents to keep."""
