"""Unit tests for deduplication: record files, document ids, keep policies, candidates, comparison, memory plan."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import DocumentBatch, FileGroupTask
from penstock.core.files import PLACE_BITS, SizedFile
from penstock.dedup.arrays import load_array
from penstock.dedup.candidates import candidate_pairs, without
from penstock.dedup.components import PAIR_RECORD, ConnectCandidates
from penstock.dedup.document_ids import FileTable
from penstock.dedup.duplicate_pairs import Removed, measured, read_removed, write_removed
from penstock.dedup.duplicate_table import with_exact
from penstock.dedup.exact import EXACT_RECORD, exact_duplicates, partition_of
from penstock.dedup.keep_policy import KeepPolicy, parse_keep
from penstock.dedup.memory_plan import MemoryPlan, chance_of_meeting
from penstock.dedup.normalise import normalised
from penstock.dedup.phases import Phase
from penstock.dedup.removal import is_among
from penstock.dedup.shuffle import read_records, read_tables, write_records, write_tables
from penstock.dedup.signing import BAND_RECORD, Banding, SeenTexts
from penstock.dedup.similarity import TextSimilarity
from penstock.dedup.texts import texts_of
from penstock.dedup.verify import CompareCandidates
from penstock.dedup.work_folder import WorkFolder
from penstock.errors import InputError, MissingColumnError, StageError
from penstock.kernels.jaccard import Comparing
from penstock.kernels.shingles import Shingling

HASHES = st.integers(0, 2**64 - 1)


# -- records in files ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.lists(HASHES, max_size=20), max_size=4), st.integers(1, 9))
def test_every_record_is_read_once_in_its_partition(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], partitions: int
) -> None:
    folder = tmp_path_factory.mktemp("shuffle")
    for number, hashes in enumerate(files):
        records = np.zeros(len(hashes), dtype=BAND_RECORD)
        records["hash"], records["document"] = hashes, np.arange(len(hashes))
        write_records(f"{folder}/{number}", records, partition_of(records["hash"], partitions), partitions)
    arrived = []
    for partition in range(partitions):
        read = read_records([f"{folder}/{number}" for number in range(len(files))], partition, BAND_RECORD)
        assert (partition_of(read["hash"], partitions) == partition).all()
        arrived += read["hash"].tolist()
    assert sorted(arrived) == sorted(itertools.chain(*files))


def test_tables_are_read_by_partition(tmp_path: Path) -> None:
    path = str(tmp_path / "tables")
    write_tables(path, [pa.table({"text": ["a", "b"]}), pa.table({"text": []}), pa.table({"text": ["c"]})])
    read = [[table["text"].to_pylist() for table in read_tables([path], number)] for number in range(3)]
    assert read == [[["a", "b"]], [], [["c"]]]


# -- document ids ----------------------------------------------------------------------------------------------


def batch_of(files: list[str], places: list[tuple[int, int]]) -> DocumentBatch:
    batch = DocumentBatch("d", pa.table({"text": ["x"] * len(places)}), _metadata={"source_files": files})
    batch.source_rows = np.array([(file << PLACE_BITS) + place for file, place in places], dtype=np.int64)
    return batch


def test_document_id_does_not_depend_on_the_batch() -> None:
    table = FileTable(("a/x.jsonl", "b/x.jsonl", "c/x.jsonl"), ("a/x.jsonl", "b/x.jsonl", "c/x.jsonl"))
    [alone] = table.ids(batch_of(["b/x.jsonl"], [(0, 77)])).tolist()
    together = table.ids(batch_of(["a/x.jsonl", "b/x.jsonl"], [(0, 77), (1, 0), (1, 77)])).tolist()
    assert together == [77, 1 << PLACE_BITS, alone]
    assert table.file_of(np.array(together)).tolist() == [0, 1, 1]


def test_batch_without_source_positions_is_rejected() -> None:
    with pytest.raises(StageError, match="an upstream stage has created new documents"):
        FileTable((), ()).ids(DocumentBatch("d", pa.table({"text": ["x"]})))


def sized(*paths: str, below: str = "/") -> list[SizedFile]:
    return [SizedFile(path, 1, path.removeprefix(below).strip("/")) for path in paths]


def test_moved_files_are_found_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "ids.json")
    FileTable.of(sized("/old/crawl/a.jsonl", "/old/crawl/b/a.jsonl", below="/old")).save(path)
    moved = FileTable.load(path, sized("/new/crawl/b/a.jsonl", "/new/crawl/a.jsonl", below="/new"))
    assert moved.paths == ("/new/crawl/a.jsonl", "/new/crawl/b/a.jsonl")
    renamed = FileTable.load(path, sized("/new/other/b/a.jsonl", "/new/other/a.jsonl", below="/new"))
    assert renamed.paths == ("/new/other/a.jsonl", "/new/other/b/a.jsonl")


def test_subset_of_files_is_accepted_and_unknown_file_is_rejected(tmp_path: Path) -> None:
    path = str(tmp_path / "ids.json")
    FileTable.of(sized("/d/a.jsonl", "/d/b.jsonl")).save(path)
    assert FileTable.load(path, sized("/d/b.jsonl")).paths == ("", "/d/b.jsonl")
    with pytest.raises(InputError, match=r"/d/c\.jsonl: not among the 2 files"):
        FileTable.load(path, sized("/d/c.jsonl"))


def test_moved_files_with_the_same_name_are_rejected(tmp_path: Path) -> None:
    path = str(tmp_path / "ids.json")
    FileTable.of([SizedFile("/a/x.jsonl", 1, "x.jsonl"), SizedFile("/b/x.jsonl", 1, "x.jsonl")]).save(path)
    with pytest.raises(InputError, match="they cannot be told apart"):
        FileTable.load(path, [SizedFile("/c/x.jsonl", 1, "x.jsonl")])
    with pytest.raises(InputError, match="not among"):
        FileTable.load(path, [SizedFile("/c/x.jsonl", 1, "x.jsonl"), SizedFile("/d/x.jsonl", 1, "x.jsonl")])


# -- keep policies ---------------------------------------------------------------------------------------------


def ranks(policy: KeepPolicy, texts: list[str | None], **columns: list[Any]) -> list[float]:
    batch = DocumentBatch("d", pa.table({"text": texts, **columns}), _metadata={"source_files": ["web/a", "wiki/b"]})
    batch.source_rows = np.array([(number % 2) << PLACE_BITS for number in range(len(texts))], dtype=np.int64)
    return [float(rank) for rank in policy.ranks(batch, texts_of(batch, "text"))]


def test_keep_policies_give_the_kept_document_the_lowest_rank() -> None:
    assert ranks(parse_keep("first"), ["a", "bb"]) == [0, 0]
    assert ranks(parse_keep("longest"), ["a", "bb", None]) == [-1, -2, 0]
    assert ranks(parse_keep("best:score"), ["a", "b", "c"], score=[1.0, None, math.nan]) == [-1, math.inf, math.inf]
    assert ranks(parse_keep(["wiki/", "web/"]), ["a", "b", "c"]) == [1, 0, 1]


def test_unknown_keep_policy_or_missing_column_is_rejected() -> None:
    with pytest.raises(ValueError, match="keep='newest': it is 'first', 'longest', 'best:COLUMN'"):
        parse_keep("newest")
    with pytest.raises(MissingColumnError, match="'score' is missing"):
        ranks(parse_keep("best:score"), ["a"])


@pytest.mark.parametrize(
    ("one", "other"), [("Caf\u00e9", "cafe\u0301"), ("a  b\n", " A\tb"), ("x\u3000y", "X y"), ("a\u00a0b", "a b")]
)
def test_texts_that_differ_only_in_form_are_equal_after_normalisation(one: str, other: str) -> None:
    texts = pa.chunked_array([[one, other]])
    assert len(set(normalised(texts).to_pylist())) == 1


# -- exact -----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=15))
def test_of_equal_texts_the_first_with_the_lowest_rank_is_kept(found: list[tuple[int, int, int]]) -> None:
    records = np.zeros(len(found), dtype=EXACT_RECORD)
    for number, (high, low, rank) in enumerate(found):
        records[number] = (low, high, rank, number)
    removed = exact_duplicates(records)
    stays = {
        key: min((r, n) for n, (h, lo, r) in enumerate(found) if (h, lo) == key)[1] for key in {f[:2] for f in found}
    }
    expected = {number: stays[entry[:2]] for number, entry in enumerate(found) if stays[entry[:2]] != number}
    assert dict(zip(removed.documents.tolist(), removed.kept.tolist(), strict=True)) == expected
    assert (removed.similarities == 1).all()


# -- candidates and components ---------------------------------------------------------------------------------


def bands(*records: tuple[int, float, int]) -> Any:
    return np.array(list(records), dtype=BAND_RECORD)


def test_each_document_of_a_bucket_is_paired_with_the_preferred_one() -> None:
    pairs = candidate_pairs(bands((7, 1.0, 1), (7, 0.0, 5), (7, 0.0, 9), (8, 0.0, 1), (9, 0.0, 5), (9, 0.0, 9)))
    assert pairs.tolist() == [[5, 1], [5, 9]]


def test_listed_documents_are_excluded_from_candidates() -> None:
    records = bands((7, 0.0, 1), (7, 0.0, 2), (7, 0.0, 3))
    assert without(records, np.array([2, 4]))["document"].tolist() == [1, 3]
    assert without(records, np.zeros(0, dtype=np.int64))["document"].tolist() == [1, 2, 3]


def test_components_span_files_and_share_a_partition(tmp_path: Path) -> None:
    from penstock.dedup.arrays import load_array, save_array

    files = [str(tmp_path / f"{number}.npy") for number in range(3)]
    for file, pairs in zip(files, ([[1, 2], [5, 6]], [[2, 3]], []), strict=True):
        save_array(file, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    [task] = Phase("all", str(tmp_path / "found"), 1).process_batch([FileGroupTask("d", [file]) for file in files])
    made = ConnectCandidates(str(tmp_path / "connected"), 3).process(task)
    documents, components = (load_array(f"{tmp_path}/connected/{name}.npy") for name in ("documents", "components"))
    assert documents.tolist() == [1, 2, 3, 5, 6]
    assert components.tolist() == [0, 0, 0, 3, 3]
    where = {
        int(record["component"]): partition
        for partition in range(3)
        for record in read_records(made.data, partition, PAIR_RECORD)
    }
    assert set(where) == {0, 3}
    together = read_records(made.data, where[0], PAIR_RECORD)
    assert {(r["better"], r["worse"]) for r in together if r["component"] == 0} == {(1, 2), (2, 3)}


# -- comparison ------------------------------------------------------------------------------------------------


def similarity(a: str, b: str, shingling: Shingling) -> float:
    comparing = Comparing(shingling)
    first, second = (np.frombuffer(text.encode(), dtype=np.uint8) for text in (a, b))
    return comparing.similarity(comparing.shingles(first), second)


def compare(
    texts: list[str], pairs: list[tuple[int, int]], threshold: float, ranks: list[float] | None = None
) -> Removed:
    stage = CompareCandidates([], "", Shingling(1, "word"), threshold)
    table = pa.table(
        {
            "component": np.zeros(len(texts), dtype=np.int64),
            "rank": ranks or [0.0] * len(texts),
            "document": np.arange(len(texts)) * 10,
            "text": pa.array(texts, pa.large_string()),
        }
    )
    records = np.array([(0, 10 * a, 10 * b) for a, b in pairs], dtype=PAIR_RECORD)
    return stage._removed(records, [table.slice(0, 2), table.slice(2)])


def test_chain_of_small_edits_removes_only_documents_close_to_a_kept_one() -> None:
    """Each document is similar to the next. The third is not similar to the first, and is kept."""
    words = [f"w{number}" for number in range(30)]
    chain = [" ".join(words[step : step + 20]) for step in range(0, 9, 3)]
    removed = compare(chain, [(0, 1), (1, 2)], 0.7)
    assert removed.documents.tolist() == [10]
    assert removed.kept.tolist() == [0]
    assert removed.similarities.tolist() == [17 / 23]


def test_preferred_document_is_kept_even_if_it_comes_later() -> None:
    removed = compare(["a b c", "a b c d", "x"], [(1, 0)], 0.7, [1.0, 0.0, 0.0])
    assert (removed.documents.tolist(), removed.kept.tolist()) == ([0], [10])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.4, 0.6, 0.8]))
def test_every_removed_document_was_compared_with_a_kept_document(seed: int, threshold: float) -> None:
    draw = random.Random(seed)
    texts = [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 8))) for _ in range(12)]
    pairs = [(a, b) for a, b in itertools.combinations(range(12), 2) if draw.random() < 0.4]
    if not pairs:
        return
    removed = compare(texts, pairs, threshold, [draw.choice([0.0, 1.0]) for _ in texts])
    gone = set(removed.documents.tolist())
    for document, kept, value, _ in zip(*(column.tolist() for column in removed), strict=True):
        assert kept not in gone
        assert value >= threshold
        assert value == similarity(texts[kept // 10], texts[document // 10], Shingling(1, "word"))


# -- table of duplicates ---------------------------------------------------------------------------------------


def test_copy_of_a_removed_document_refers_to_the_kept_document() -> None:
    fuzzy = measured(np.array([20, 30]), np.array([10, 10]), np.array([0.9, 0.8]))
    exact = measured(np.array([35, 45]), np.array([30, 40]), np.ones(2))
    documents, kept, similarities, _ = (column.tolist() for column in with_exact(fuzzy, exact))
    assert (documents, kept, similarities) == ([20, 30, 35, 45], [10, 10, 10, 40], [0.9, 0.8, 0.8, 1.0])


def test_removed_documents_are_sorted_and_read_back(tmp_path: Path) -> None:
    path = str(tmp_path / "part.0.npy")
    write_removed(path, measured(np.array([3, 1]), np.array([0, 0]), np.array([0.5, 1.0])))
    assert [column.tolist() for column in read_removed([path])] == [[1, 3], [0, 0], [1.0, 0.5], [False, False]]
    assert len(read_removed([]).documents) == 0


@given(st.lists(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_ids_are_found_in_a_sorted_list(ids: list[int], listed: set[int]) -> None:
    found = is_among(np.array(ids, dtype=np.int64), np.array(sorted(listed), dtype=np.int64))
    assert found.tolist() == [number in listed for number in ids]


# -- plan ------------------------------------------------------------------------------------------------

GB = 10**9


def test_memory_plan_uses_all_bands_in_one_round_if_they_fit() -> None:
    small = MemoryPlan(Banding(20, 13, 20), 1_000_000, 4 * GB, memory_budget=4 * GB, workers=2).fitted()
    assert small.banding.bands_per_iteration == 20
    assert small.held_bytes <= small.per_worker
    large = MemoryPlan(Banding(20, 13, 20), 2_000_000_000, 8_000 * GB, memory_budget=128 * GB, workers=64).fitted()
    assert large.banding.bands_per_iteration < 20
    assert large.held_bytes <= large.per_worker
    large.check()


@pytest.mark.parametrize(
    ("text_bytes", "budget", "workers", "partitions", "of_text"),
    [
        (1000, 8 * GB, 2, 2, 2),
        (1000, 8 * GB, 64, 64, 2),
        (20_000_000, 8 * GB, 2, 2, 4),
        (10 * GB, 800 * GB, 2, 2, 8),
        (10 * GB, 800 * GB, 64, 64, 256),
        (10 * GB, 8 * GB, 2, 2, 15),
    ],
)
def test_text_partitions_keep_all_workers_busy_if_there_is_enough_text(
    text_bytes: int, budget: int, workers: int, partitions: int, of_text: int
) -> None:
    plan = MemoryPlan(Banding(20, 13, 20), 1000, text_bytes, memory_budget=budget, workers=workers)
    assert (plan.partitions, plan.text_partitions) == (partitions, of_text)


def test_plan_that_does_not_fit_is_rejected_with_the_calculation() -> None:
    tight = MemoryPlan(Banding(20, 13, 5), 10_000_000, 40 * GB, GB, workers=2, chosen_partitions=8)
    with pytest.raises(
        InputError, match=r"10,000,000 documents x 24 bytes x 5 bands x 4 \(sorting\) / 8 partitions is 600"
    ):
        tight.check()
    with pytest.raises(InputError, match="Take bands_per_iteration="):
        MemoryPlan(Banding(20, 13, 20), 1_000_000_000, 4000 * GB, 50 * GB, workers=64).check()
    with pytest.raises(
        InputError, match=r"1,000,000,000 documents x 48 bytes .* is 48.0 GB, more than memory_budget=10.0 GB"
    ):
        MemoryPlan(Banding(20, 13, 1), 1_000_000_000, 4000 * GB, 10 * GB, workers=2).check()


def test_plan_description_contains_the_usual_formula_and_the_probabilities() -> None:
    words = MemoryPlan(Banding(20, 13, 5), 1_000_000, 4 * GB, 8 * GB, workers=2).describe()
    assert "8 bytes x 260 hashes x documents x 5/20 bands): 520.0 MB at once" in words
    assert "68% at 0.8" in words
    assert "memory_budget 8.0 GB for 2 workers" in words


def test_probability_curve_matches_the_share_of_simulated_pairs_that_share_a_band() -> None:
    """Compare with a simulation: each value of two signatures is equal with the probability of the similarity."""
    draw = np.random.default_rng(0)
    agree = draw.random((20_000, 20, 13)) < 0.8
    met = np.any(np.all(agree, axis=2), axis=1).mean()
    assert abs(met - chance_of_meeting(0.8, 20, 13)) < 0.02


def test_work_folder_resumes_with_its_stored_plan(tmp_path: Path) -> None:
    place = WorkFolder(str(tmp_path), {"seed": 1})
    assert place.plan({"partitions": 4}) == {"partitions": 4}
    assert WorkFolder(str(tmp_path), {"seed": 1}).plan({"partitions": 9}) == {"partitions": 4}
    assert WorkFolder(str(tmp_path), {"seed": 2}).plan({"partitions": 9}) == {"partitions": 9}
    place.clear()
    assert WorkFolder(str(tmp_path), {"seed": 1}).plan({"partitions": 9}) == {"partitions": 9}


def test_cache_of_signed_texts_is_bounded_by_bytes() -> None:
    seen = SeenTexts(bands=2, max_bytes=1000)
    for number in range(40):
        key = (number, 0)
        assert list(seen.new_among([key])) == [key]
        seen.learn([key], np.full((1, 2), number, np.uint64), np.ones(1, np.bool_))
        assert seen.recall([key])[0].tolist() == [[number, number]]
        assert len(seen._rows) <= 5  # of 216 bytes


def test_cache_of_shingle_sets_is_bounded_by_bytes() -> None:
    column = pa.chunked_array([[f"{number} " + "some words and more " * 50 for number in range(8)]], pa.large_string())
    plenty, little = TextSimilarity(column, Shingling()), TextSimilarity(column, Shingling(), max_bytes=1)
    pairs = [(first, second) for first in range(8) for second in range(8)]
    assert [little.similarity(*pair) for pair in pairs] == [plenty.similarity(*pair) for pair in pairs]
    assert (len(plenty._held), len(little._held)) == (8, 1)


class Harm:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_pickle_in_an_array_file_is_not_executed(tmp_path: Path) -> None:
    planted = tmp_path / "removed.npy"
    np.save(planted, np.array([Harm(tmp_path / "ran")], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"pickle|Python objects|magic string"):
        load_array(str(planted))
    planted.write_bytes(pickle.dumps(Harm(tmp_path / "ran")))
    with pytest.raises(ValueError, match=r"pickle|Python objects|magic string"):
        load_array(str(planted))
    assert not (tmp_path / "ran").exists()
