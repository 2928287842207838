"""Stages that read and write intermediate files with the storage options of their workflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.stage import ProcessingStage
from penstock.core.worker_info import WorkerMetadata
from penstock.storage.folder_options import FolderOptions


class StoredStage:
    """Mixin for stages that open files in the folders of a workflow; list it before ``ProcessingStage``."""

    # Private, so that credentials are not written into the record of a run.
    _folder_options: FolderOptions | None = None

    def use_folder_options(self, options: FolderOptions) -> None:
        """Set the storage options that every worker of this stage registers."""
        self._folder_options = options

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        """Register the storage options in this worker."""
        if self._folder_options is not None:
            self._folder_options.register()


def use_folder_options(stages: Iterable[ProcessingStage[Any, Any]], options: FolderOptions | None) -> None:
    """Set the storage options of all stages that open files in the folders of a workflow."""
    for stage in stages:
        if options is not None and isinstance(stage, StoredStage):
            stage.use_folder_options(options)
