"""Stages of a deduplication open files with the storage options of their workflow, in every worker."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
from importlib import import_module
from typing import Any

import penstock.dedup
from penstock.core.stage import ProcessingStage
from penstock.dedup.document_ids import FileTable
from penstock.dedup.exact import FindExactDuplicates
from penstock.dedup.removal import RemoveDocuments
from penstock.dedup.stored_stage import StoredStage, use_folder_options
from penstock.storage.folder_options import FolderOptions, options_for


def test_storage_options_are_registered_in_setup_and_not_while_unpickling() -> None:
    folder, path = "s3://options/work", "s3://options/work/found/a.npy"
    stages: list[ProcessingStage[Any, Any]] = [
        FindExactDuplicates(f"{folder}/found", f"{folder}/hashed", 1),
        RemoveDocuments(f"{folder}/removed.npy", FileTable((), ())),  # has a setup of its own
    ]
    use_folder_options(stages, FolderOptions([folder], {"key": "k"}))
    for stage in pickle.loads(pickle.dumps(stages)):
        assert options_for(path) == {}
        stage.setup()
        assert options_for(path) == {"key": "k"}
        FolderOptions([folder], None).register()
        assert options_for(path) == {}


def test_every_deduplication_stage_takes_storage_options() -> None:
    modules = [
        import_module(f"penstock.dedup.{module.name}") for module in pkgutil.iter_modules(penstock.dedup.__path__)
    ]
    kinds = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)}
    own = {
        kind for kind in kinds if issubclass(kind, ProcessingStage) and kind.__module__.startswith("penstock.dedup.")
    }
    assert FindExactDuplicates in own
    assert {kind.__name__ for kind in own if not issubclass(kind, StoredStage)} == set()
