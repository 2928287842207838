"""Block files: what workers write is read back sorted, grouped and complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from ledger_runs import fates, filters, run, write_documents

from penstock import DocumentBatch, Resources
from penstock.core.stage import ProcessingStage
from penstock.ledger.query.ledger import find_ledger
from penstock.ledger.store.block_reader import find_blocks, group_by_rules, read_block
from penstock.ledger.store.block_writer import BlockWriter
from penstock.ledger.store.fragment import (
    ASKED,
    BYTES,
    DROPPED_BY,
    FAILED,
    ID,
    SCORE,
    Fragment,
    RuleColumn,
    pack,
    to_table,
)


def fragment(block: str, words: list[float], *, pool: int = 0) -> Fragment:
    scores = np.array(words, float)
    rules = {"words": RuleColumn(np.ones(len(words), bool), scores >= 2, scores)}
    dropped = np.where(scores < 2, 0, -1).astype(np.int16)
    about = {"task": block, "pool": pool, "count": len(words)}
    return Fragment(block, about, np.arange(len(words)), dropped, tuple(rules), *pack(rules, len(words)))


@pytest.mark.parametrize("where", ["", "memory://blocks"])
def test_blocks_are_read_sorted_by_name_and_repeated_blocks_once(tmp_path: Path, where: str) -> None:
    folder = f"{where or tmp_path}/{tmp_path.name}"
    given = [fragment(f"b{i}", [i, 3.5]) for i in range(5)]
    given[0].ids, given[1].sizes = pa.array(["x", None]), np.array([7, 8])
    for part in (given[:2], given[2:], given[3:]):  # the last blocks twice, as if their work was repeated
        writer = BlockWriter(folder)
        for one in part:
            writer.add(one, {"words": {"least": 2}})
        writer.close()
    found, parameters, _ = find_blocks(folder)
    assert [record.name for record in found] == sorted(one.name for one in given)
    assert parameters == {"words": {"least": 2}}
    [together] = group_by_rules(map(read_block, found))
    order = [one.block for one in together]
    table = to_table(together, ["words"], parameters).to_pydict()
    documents = {(table["block"][i], table["row"][i]): i for i in range(10)}
    assert order == sorted(order, key=lambda block: next(one.name for one in given if one.block == block))
    assert [table[SCORE + "words"][documents[f"b{i}", 0]] for i in range(5)] == [0, 1, 2, 3, 4]
    assert [table[DROPPED_BY][documents[f"b{i}", 0]] for i in range(5)] == ["words", "words", None, None, None]
    assert (table[ASKED + "0"], table[FAILED + "0"][documents["b0", 0]]) == ([1] * 10, 1)
    assert table[ID][documents["b0", 0]] == "x"
    assert table[BYTES][documents["b1", 1]] == 8
    assert table[BYTES][documents["b2", 1]] is None


def test_a_truncated_block_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    writer = BlockWriter(str(tmp_path))
    for number in range(3):
        writer.add(fragment(f"b{number}", [1, 2, 3]), {"words": {}})
    writer.close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert sorted(one.block for one in map(read_block, find_blocks(str(tmp_path))[0])) == ["b0", "b1"]


def test_blocks_of_different_pools_are_grouped_separately() -> None:
    parts = [fragment("a", [1]), fragment("b", [1], pool=1), fragment("c", [1])]
    assert [[one.block for one in part] for part in group_by_rules(parts)] == [["a", "c"], ["b"]]


class PassOn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Passes every document on unchanged."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def test_a_pool_without_decisions_writes_no_blocks(tmp_path: Path) -> None:
    apart = PassOn().with_(name="pass_on", resources=Resources(cpus=2))
    ledger = run(tmp_path, [*filters(), apart], inline=False, cpus=2)
    assert {part.pool for part in ledger.parts} == {1, 3}  # the reader and pass_on are pools 0 and 2
    assert set(fates(ledger).values()) == {"kept", "word_count", "repeated_lines"}


class AddIds(PassOn):
    """Passes every document on with a new id."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_columns({"doc_id": pa.array([f"new-{row}" for row in range(task.num_items)])})


def test_ids_added_by_a_later_pool_are_in_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.jsonl").write_text('{"text": "one two three"}\n{"text": "one"}\n')
    apart = AddIds().with_(name="add_ids", resources=Resources(cpus=2))
    ledger = run(tmp_path, [apart, *filters()], inline=False, cpus=2)
    assert fates(ledger) == {"new-0": "kept", "new-1": "word_count"}


def test_the_ledger_of_an_interrupted_run_can_be_read(tmp_path: Path) -> None:
    class Stop(PassOn):
        name = "stop"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            if "2-4" in task.column("id").to_pylist():
                raise KeyboardInterrupt
            return task

    write_documents(tmp_path / "crawl", files=4)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, [*filters(), Stop()])
    ledger = find_ledger(str(tmp_path / "clean"))
    assert {name[0] for name in fates(ledger)} == {"0", "1"}
    assert list(Path(ledger.folder).glob("*.notes"))
