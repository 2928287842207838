"""Corpora on which other implementations fail: they remove too much, do not finish, or run out of memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from corpora import edited, essay, ids, kept_by_removed, quiet, write_jsonl

from penstock.dedup import ExactDeduplicationWorkflow, FuzzyDeduplicationWorkflow
from penstock.errors import PenstockError

TEMPLATE = essay(1, 150)
LICENCE = essay(2, 400)


def fuzzy(folder: Path, **settings: Any) -> FuzzyDeduplicationWorkflow:
    return FuzzyDeduplicationWorkflow(
        str(folder / "cache"), str(folder / "out"), str(folder / "in"), "jsonl",
        perform_removal=True, show_progress=False, **settings,
    )  # fmt: skip


@pytest.mark.slow
def test_ten_thousand_pages_of_one_template_are_reduced_to_one(tmp_path: Path) -> None:
    """All pages are candidates of each other; the number of comparisons must not exceed the number of pages."""
    pages = [{"id": number, "text": f"{TEMPLATE} item {number}"} for number in range(10_000)]
    write_jsonl(tmp_path / "in/shop/a.jsonl", pages[:5000])
    write_jsonl(tmp_path / "in/shop/b.jsonl", pages[5000:])
    with pytest.raises(PenstockError, match=r"source 'in/shop' would lose 9,999 of its 10,000 documents \(100.0%\)"):
        fuzzy(tmp_path).run(quiet())
    fuzzy(tmp_path, max_removed_share=1).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == [0]


@pytest.mark.slow
def test_thousand_books_with_the_same_licence_are_all_kept(tmp_path: Path) -> None:
    books = [{"id": f"{number:04}", "text": f"{LICENCE} {essay(number + 10, 1600)}"} for number in range(1000)]
    write_jsonl(tmp_path / "in/a.jsonl", books)
    # Bands are so short that the licence alone makes most of the books candidates.
    result = fuzzy(tmp_path, num_bands=40, minhashes_per_band=2).run(quiet())
    assert result.get_metadata("num_duplicates") == 0
    assert len(ids(tmp_path / "out/deduplicated")) == 1000


def test_chain_of_versions_keeps_versions_that_differ_from_the_first(tmp_path: Path) -> None:
    """Each version is similar to the next; the last shares nothing with the first."""
    versions = [essay(5, 200).split()]
    for step in range(20):
        versions.append(versions[-1][8:] + essay(1000 + step, 8).split())
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": f"{n:02}", "text": " ".join(v)} for n, v in enumerate(versions)])
    fuzzy(tmp_path, word_ngrams=3, num_bands=50, minhashes_per_band=3).run(quiet())
    kept = ids(tmp_path / "out/deduplicated")
    assert 5 <= len(kept) < 21
    for gone, (kept_id, similarity) in kept_by_removed(tmp_path / "out").items():
        assert kept_id in kept
        a, b = ({tuple(versions[int(n)][i : i + 3]) for i in range(len(versions[int(n)]) - 2)} for n in (gone, kept_id))
        assert similarity == len(a & b) / len(a | b)
        assert similarity >= 0.8


@pytest.mark.slow
def test_million_empty_documents_are_reduced_to_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(b'{"text":""}\n' * 500_000)
    (tmp_path / "in/b.jsonl").write_bytes(b'{"text":null}\n' * 500_000 + b'{"text":"something"}\n')
    result = fuzzy(tmp_path, max_removed_share=1).run(quiet())
    assert result.get_metadata("num_documents") == 1_000_001
    assert result.get_metadata("num_duplicates") == 999_999
    [first, second] = sorted((tmp_path / "out/deduplicated").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    assert first.read_bytes() == b'{"text":""}\n'
    assert second.read_bytes() == b'{"text":"something"}\n'


@pytest.mark.parametrize("workflow", ["exact", "fuzzy"])
def test_input_with_a_single_text_is_reduced_to_one_document(tmp_path: Path, workflow: str) -> None:
    for name in ("a", "b", "c"):
        write_jsonl(tmp_path / f"in/{name}.jsonl", [{"id": f"{name}{n}", "text": TEMPLATE} for n in range(200)])
    if workflow == "exact":
        paths = str(tmp_path / "out"), str(tmp_path / "in"), "jsonl"
        ExactDeduplicationWorkflow(*paths, perform_removal=True, show_progress=False).run(quiet())
    else:
        fuzzy(tmp_path).run(quiet())
    assert ids(tmp_path / "out/deduplicated") == ["a0"]


@pytest.mark.slow
def test_memory_for_a_200_mb_document_is_a_small_multiple_of_its_size(tmp_path: Path) -> None:
    draw = random.Random(0)
    piece = " ".join(f"{draw.choice('bcdfg')}{draw.randint(0, 10**6)}" for _ in range(1_300_000))
    huge = " ".join([piece] * 20)
    assert len(huge) > 180e6
    write_jsonl(tmp_path / "in/a.jsonl", [{"id": "small", "text": TEMPLATE}, {"id": "huge", "text": huge}])
    write_jsonl(tmp_path / "in/b.jsonl", [{"id": "huge again", "text": huge + " more"}, {"id": "s", "text": TEMPLATE}])
    script = f"""
        import json, resource, sys
        from penstock import InlineExecutor
        from penstock.dedup import FuzzyDeduplicationWorkflow
        result = FuzzyDeduplicationWorkflow(
            r"{tmp_path}/cache", r"{tmp_path}/out", r"{tmp_path}/in", "jsonl", perform_removal=True, show_progress=False,
            num_bands=4, minhashes_per_band=4,
        ).run(InlineExecutor(show_progress=False))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([result.metadata["num_duplicates"], peak]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    duplicates, peak = json.loads(done.stdout)
    assert duplicates == 2
    assert peak < 12 * len(huge), "as read, decoded, gathered, compared; twice over, and the table of its shingles"


def test_edited_copies_are_found_among_many_other_documents(tmp_path: Path) -> None:
    originals = [{"id": f"o{n}", "text": essay(n)} for n in range(300)]
    versions = [{"id": f"v{n}", "text": edited(essay(n), n)} for n in range(0, 300, 3)]
    write_jsonl(tmp_path / "in/a.jsonl", originals)
    write_jsonl(tmp_path / "in/b.jsonl", versions)
    fuzzy(tmp_path).run(quiet())
    found = kept_by_removed(tmp_path / "out")
    assert {name: kept_id for name, (kept_id, _) in found.items()} == {f"v{n}": f"o{n}" for n in range(0, 300, 3)}
