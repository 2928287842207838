"""Read the verdicts that a stage records for the ledger."""

from typing import Any

import numpy as np

from penstock import DocumentBatch, ProcessingStage
from penstock.core.verdicts import Verdicts


def with_ledger(stage: ProcessingStage[Any, Any], batch: DocumentBatch) -> tuple[DocumentBatch, list[Verdicts]]:
    """Run a stage as a worker does that keeps a ledger."""
    batch.source_rows = np.arange(batch.num_items) * 10
    stage._keeps_ledger = True
    kept = stage.process(batch)
    assert isinstance(kept, DocumentBatch)
    return kept, stage.take_verdicts()
