"""Workflow for fuzzy deduplication: find near-duplicates by MinHash, and verify every pair."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from penstock.core.executor import Executor
from penstock.core.stage import ProcessingStage
from penstock.core.task import Task
from penstock.core.workflow import WorkflowBase, WorkflowRunResult
from penstock.dedup.candidates import FindCandidates
from penstock.dedup.components import ConnectCandidates
from penstock.dedup.document_ids import FileTable
from penstock.dedup.duplicate_table import ListExactDuplicates, WriteDuplicateTable
from penstock.dedup.estimate import CompareSignatures, GatherSignatures
from penstock.dedup.exact import FindExactDuplicates
from penstock.dedup.index import BANDS, EXACT, INDEXED_FILES, SIGNATURES, AddToIndex, Index
from penstock.dedup.input_survey import InputSurvey
from penstock.dedup.inputs import Input
from penstock.dedup.keep_policy import parse_keep
from penstock.dedup.memory_plan import MemoryPlan
from penstock.dedup.ownership import TABLES, id_generator, take_output
from penstock.dedup.phases import LISTING, EachFile, Phase, Spread
from penstock.dedup.removal import RemoveDocuments
from penstock.dedup.run_workflow import run_stages, write_kept_documents
from penstock.dedup.signing import REMEMBERED_BYTES, Banding, SignTexts, round_name
from penstock.dedup.similarity import HELD_BYTES
from penstock.dedup.verify import CompareCandidates, GatherTexts
from penstock.dedup.work_folder import WorkFolder, memory_and_workers
from penstock.kernels.minhash import is_warm
from penstock.kernels.shingles import Shingling
from penstock.kernels.signing import choose_device
from penstock.kernels.text_hash import TEXT_HASH
from penstock.storage.folder_options import FolderOptions

Stage = ProcessingStage[Any, Any]
_VERIFY = ("shingles", "signature")


class FuzzyDeduplicationWorkflow(WorkflowBase):
    """Find near-duplicate documents; with ``perform_removal``, keep one of each and remove the others.

    Candidates are pairs that share a band of their MinHash signatures. A candidate is removed only if its exact
    Jaccard similarity with a kept document is at least ``similarity_threshold``. ``keep`` selects the document that is
    kept: "first", "longest", "best:COLUMN", or a list of parts of file names, the most trusted first. ``word_ngrams``
    makes shingles of words instead of ``char_ngrams`` characters. The run fails if a source (folder) of 1,000
    documents or more would lose a larger share than ``max_removed_share``.

    ``verify="signature"`` estimates similarities from whole signatures, which is faster; the table marks them as
    estimated. With ``index_path`` documents are also compared, by signature, with those kept by earlier runs with the
    same index, and the kept documents are added to it.

    Writes ``<output_path>/FuzzyDuplicateIds`` (id, kept id, similarity) and ``fuzzy_id_generator.json`` (the files
    that ids refer to); with ``perform_removal`` also ``deduplicated/``. Intermediate files in ``cache_path`` are
    removed at the end; after a crash the next run resumes from them.

    >>> import json, pathlib, tempfile
    >>> from penstock import InlineExecutor
    >>> text = "The river had been rising for two days when the mayor asked the people who lived near it to leave. "
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = [json.dumps({"text": text * 5 + ending}) for ending in ("They went.", "They stayed.")]
    ...     _ = pathlib.Path(folder, "in.jsonl").write_text(chr(10).join(lines))
    ...     workflow = FuzzyDeduplicationWorkflow(
    ...         f"{folder}/cache", f"{folder}/out", f"{folder}/in.jsonl", "jsonl", perform_removal=True
    ...     )
    ...     _ = workflow.run(InlineExecutor(show_progress=False))
    ...     kept = [path.read_text() for path in pathlib.Path(folder, "out/deduplicated").glob("*.jsonl")]
    >>> len("".join(kept).splitlines())
    1
    """

    def __init__(
        self,
        cache_path: str,
        output_path: str,
        input_path: str | Sequence[str] | None = None,
        input_filetype: str = "parquet",
        input_blocksize: int | str | None = None,
        input_file_extensions: Sequence[str] | None = None,
        read_kwargs: dict[str, Any] | None = None,
        write_kwargs: dict[str, Any] | None = None,
        text_field: str = "text",
        perform_removal: bool = False,
        seed: int = 42,
        char_ngrams: int = 24,
        num_bands: int = 20,
        minhashes_per_band: int = 13,
        use_64_bit_hash: bool = False,
        normalize_text: bool = False,
        bands_per_iteration: int | None = None,
        lsh_num_output_partitions: int | None = None,
        lsh_rmm_pool_size: int | str | None = None,
        lsh_spill_memory_limit: int | str | None = None,
        env_vars: dict[str, Any] | None = None,
        use_async_memory: bool = True,
        *,
        word_ngrams: int | None = None,
        similarity_threshold: float = 0.8,
        verify: str = "shingles",
        index_path: str | None = None,
        keep: str | Sequence[str] = "first",
        max_removed_share: float = 0.95,
        device: str = "auto",
        memory_budget: int | str | None = None,
        output_filetype: str | None = None,
        show_progress: bool = True,
        overwrite: bool = False,
    ) -> None:
        if not 0 < similarity_threshold <= 1:
            raise ValueError(f"similarity_threshold={similarity_threshold}; it is a share, above 0 and at most 1.")
        if verify not in _VERIFY:
            raise ValueError(f"verify={verify!r}; it is one of {', '.join(_VERIFY)}.")
        if bands_per_iteration is not None and not 1 <= bands_per_iteration <= num_bands:
            raise ValueError(f"bands_per_iteration={bands_per_iteration}; it is between 1 and num_bands={num_bands}.")
        self.cache_path = cache_path.rstrip("/")
        self.output_path = output_path.rstrip("/")
        self.input = Input(
            input_path,
            input_filetype,
            input_blocksize,
            input_file_extensions,
            read_kwargs,
            memory_budget=memory_budget,
        )
        self.write_kwargs = dict(write_kwargs or {})
        self.text_field = text_field
        self.perform_removal = perform_removal
        self.shingling = Shingling(word_ngrams, "word") if word_ngrams else Shingling(char_ngrams)
        bits = 64 if use_64_bit_hash else 32
        self.banding = Banding(num_bands, minhashes_per_band, bands_per_iteration or num_bands, seed, bits)
        self.bands_per_iteration = bands_per_iteration
        self.lsh_num_output_partitions = lsh_num_output_partitions
        self.normalize_text = normalize_text
        self.similarity_threshold = similarity_threshold
        self.verify = verify
        self.index_path = index_path
        self.keep = parse_keep(keep)
        self.max_removed_share = max_removed_share
        self.device = choose_device(device, self.shingling)
        self.memory_budget = memory_budget
        self.output_filetype = output_filetype or input_filetype
        self.show_progress = show_progress
        self.overwrite = overwrite
        # Settings for GPU memory and a Ray cluster: accepted for compatibility and not used.
        self.ignored = (lsh_rmm_pool_size, lsh_spill_memory_limit, env_vars, use_async_memory)

    def run(
        self, executor: Executor | None = None, initial_tasks: Sequence[Task[Any]] | None = None
    ) -> WorkflowRunResult:
        """Find the duplicates, and remove them if requested. ``initial_tasks`` replace ``input_path``."""
        started = time.monotonic()
        folders = [self.output_path, self.cache_path, *([self.index_path] if self.index_path else [])]
        folder_options = FolderOptions(folders, self.write_kwargs.get("storage_options"))
        folder_options.register()
        source = self.input.or_tasks(initial_tasks, type(self).__name__)
        survey = source.look(self.output_path, self.text_field, others=[self.cache_path, self.index_path])
        index, generation = self._index(survey)
        known = [part.name for part in index.generations] if index else None
        work_folder = WorkFolder(
            self.cache_path,
            {"files": survey.files, "index": known, **self._parameters()},
            folder_options,
            output_path=self.output_path,
            outputs=[f"{self.output_path}/{TABLES['fuzzy']}"],
            generation=f"{index.path}/{generation}" if index else None,
        )
        with work_folder:
            take_output(self.output_path, "fuzzy", survey.table, survey.marks, source.given, overwrite=self.overwrite)
            memory_plan = self._memory_plan(survey, work_folder, index)
            table = replace(survey.table, indexed=index.file_names if index else ())
            if self.show_progress:
                print(memory_plan.describe(), file=sys.stderr)
                if self.device == "cpu" and not is_warm():
                    print(
                        "Compiling the code that signs and compares texts: ten seconds, once on this machine.",
                        file=sys.stderr,
                    )
            stages = self._stages(work_folder.folder, memory_plan, table, source, index, generation)
            return run_stages(
                "fuzzy deduplication",
                stages,
                executor,
                work_folder,
                started,
                lambda: {**work_folder.outcome(), "id_generator_path": id_generator(self.output_path, "fuzzy")},
                (lambda: index.publish(generation, table, work_folder.folder)) if index is not None else None,
            )

    def _index(self, survey: InputSurvey) -> tuple[Index | None, str]:
        """Return the index as it was before this run, and the name of the generation that this run adds."""
        settings = {
            "kind": "fuzzy",
            "text_hash": TEXT_HASH,
            "shingling": asdict(self.shingling),
            "num_bands": self.banding.num_bands,
            "minhashes_per_band": self.banding.minhashes_per_band,
            "seed": self.banding.seed,
            "bits": self.banding.bits,
            "normalize_text": self.normalize_text,
        }
        return Index.for_run(self.index_path, settings, survey)

    def _memory_plan(self, survey: InputSurvey, work_folder: WorkFolder, index: Index | None) -> MemoryPlan:
        """Plan bands per round and partitions: as the user chose, as the interrupted run chose, or as memory allows."""
        budget, workers = memory_and_workers(self.memory_budget)
        memory_plan = MemoryPlan(
            self.banding,
            survey.documents,
            survey.text_bytes,
            budget,
            workers,
            index.documents if index else 0,
            self.lsh_num_output_partitions,
        )
        if self.bands_per_iteration is None:
            memory_plan = memory_plan.fitted()
        memory_plan.check()
        begun = work_folder.plan(
            {
                "bands": memory_plan.banding.bands_per_iteration,
                "partitions": memory_plan.partitions,
                "text_partitions": memory_plan.text_partitions,
            }
        )
        banding = replace(self.banding, bands_per_iteration=begun["bands"])
        return replace(
            memory_plan,
            banding=banding,
            chosen_partitions=begun["partitions"],
            chosen_text_partitions=begun["text_partitions"],
        )

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters that affect the result; a run with other parameters uses another work folder."""
        return {
            "shingling": asdict(self.shingling),
            "banding": {**asdict(self.banding), "bands_per_iteration": self.bands_per_iteration},
            "partitions": self.lsh_num_output_partitions,
            "text_field": self.text_field,
            "normalize_text": self.normalize_text,
            "keep": asdict(self.keep),
            "similarity_threshold": self.similarity_threshold,
            "verify": self.verify,
            "blocksize": self.input.blocksize,
        }

    def _stages(
        self,
        folder: str,
        memory_plan: MemoryPlan,
        table: FileTable,
        source: Input,
        index: Index | None,
        generation: str,
    ) -> list[Stage]:
        signed, exact, found = f"{folder}/signed", f"{folder}/exact", f"{folder}/candidates"
        connected, compared, removed = f"{folder}/connected", f"{folder}/compared", f"{folder}/removed.npy"
        duplicates = f"{self.output_path}/{TABLES['fuzzy']}"
        banding, parts, text_parts = memory_plan.banding, memory_plan.partitions, memory_plan.text_partitions
        rounds = [round_name(bands) for bands in banding.rounds()]
        settings: dict[str, Any] = {"normalize_text": self.normalize_text, "keep": self.keep}
        fields = [self.text_field, *([self.keep.column] if self.keep.column else [])]
        by_signature = self.verify == "signature"
        known_texts, known_bands, known_signatures = (
            index.runs(kind) if index else [] for kind in (EXACT, BANDS, SIGNATURES)
        )
        derived_from_signed = [exact, found, connected, compared, f"{folder}/signatures", f"{folder}/gathered"]
        stages: list[Stage] = [
            *source.stages(fields),
            SignTexts(
                signed,
                table,
                parts,
                self.shingling,
                banding,
                self.text_field,
                device=self.device,
                with_signatures=by_signature or index is not None,
                remembered_bytes=min(REMEMBERED_BYTES, memory_plan.per_worker // 2),
                **settings,
            ),
            Phase("all_signed", signed, parts, followers=derived_from_signed),
            FindExactDuplicates(exact, f"{signed}/exact", parts, known_texts),
            Phase("all_exact_found", exact, 1),
            ListExactDuplicates(f"{exact}/duplicates.npy"),
            Spread("all_exact_listed", f"{exact}/list", parts * len(rounds)),
            FindCandidates(signed, found, f"{exact}/duplicates.npy", rounds, parts, known_bands),
            Phase("all_candidates_found", found, 1),
            ConnectCandidates(connected, text_parts),
        ]
        pair_files = [f"{connected}/pairs/{number}.run" for number in range(parts * len(rounds))]
        if by_signature or index is not None:
            stages += [
                EachFile("each_signature_file", signed, known_signatures, below="signatures/"),
                GatherSignatures(connected, f"{folder}/signatures", text_parts, banding),
                Phase("all_signatures_gathered", f"{folder}/signatures", text_parts),
            ]
        if by_signature:
            stages.append(CompareSignatures(pair_files, compared, banding, self.similarity_threshold))
        else:
            signatures = f"{folder}/signatures/{LISTING}" if index is not None else None
            stages += [
                *source.again("gather", fields, at_once=index is None),
                GatherTexts(connected, f"{folder}/gathered", table, text_parts, self.text_field, **settings),
                Phase("all_gathered", f"{folder}/gathered", text_parts, followers=[compared]),
                CompareCandidates(
                    pair_files,
                    compared,
                    self.shingling,
                    self.similarity_threshold,
                    signatures,
                    banding,
                    held_bytes=min(HELD_BYTES, memory_plan.per_worker // 2),
                ),
            ]
        stages += [
            Phase("all_compared", compared, 1),
            WriteDuplicateTable(duplicates, removed, signed, table, self.max_removed_share, f"{exact}/{LISTING}"),
        ]
        if index is not None:
            stages += [
                EachFile("each_signed_file", signed, below="exact/"),
                AddToIndex(index, generation, signed, removed, parts, rounds),
                Phase("all_indexed", f"{folder}/{INDEXED_FILES}", 1),
            ]
        if self.perform_removal:
            decide = RemoveDocuments(removed, table, duplicates)
            stages += write_kept_documents(
                "removal", source, decide, self.output_filetype, self.output_path, self.write_kwargs
            )
        return stages
