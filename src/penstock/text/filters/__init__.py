"""Filters: decide which documents to keep."""
