"""Pipelines written as YAML: read, overridden, and made into objects, with errors that name file and line."""
