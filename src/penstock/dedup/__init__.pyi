"""Find duplicate documents (exact, fuzzy, by URL, by line) and remove them."""

from penstock.dedup.duplicate_table import DuplicateAlarmError
from penstock.dedup.exact_workflow import ExactDeduplicationWorkflow
from penstock.dedup.fuzzy import FuzzyDeduplicationWorkflow
from penstock.dedup.line_workflow import LineDeduplicationWorkflow
from penstock.dedup.removal_workflow import TextDuplicatesRemovalWorkflow
from penstock.dedup.url_workflow import UrlDeduplicationWorkflow

__all__ = [
    "DuplicateAlarmError",
    "ExactDeduplicationWorkflow",
    "FuzzyDeduplicationWorkflow",
    "LineDeduplicationWorkflow",
    "TextDuplicatesRemovalWorkflow",
    "UrlDeduplicationWorkflow",
]
