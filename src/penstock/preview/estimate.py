"""The result of a preview: expected effect of each stage, yield, speed and duration for a whole input."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.preview.clustered_share import Share


@dataclass
class StageYield:
    """The expected effect of a stage on the whole input."""

    stage: str
    seen: int
    dropped: int
    # The share that it drops of the documents that reach it.
    share: Share
    seconds: float


@dataclass
class Preview:
    """The estimates for a whole input, from a sample."""

    files: int
    bytes: int
    documents: int
    # Number of spots of the input from which the sample was drawn.
    places: int
    # Estimated number of documents in the input, from the size of those in the sample.
    expected_documents: int
    stages: list[StageYield]
    kept: Share
    kept_bytes: float
    bytes_per_core_second: float
    cores: float
    eta_seconds: float
    set_aside: int
    # Warnings, as sentences.
    suspicious: list[str] = field(default_factory=list)
