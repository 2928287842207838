"""What-if with stored scores has the same result as another run with those thresholds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ledger_runs import filters, run, write_documents
from test_run_ledger import PandasFilter

from penstock import DocumentBatch, ProcessingStage
from penstock.core.verdicts import Verdicts
from penstock.errors import InputError
from penstock.ledger.query.ledger import Ledger
from penstock.ledger.query.source_texts import read_texts
from penstock.ledger.query.whatif import Outcome, parse_changes, what_if
from penstock.text import CommonEnglishWordsFilter, RepeatedLinesFilter, ScoreFilter, WordCountFilter


def tried(ledger: Ledger, *changes: str) -> Outcome:
    return what_if(ledger, parse_changes(ledger, changes))


def kept(ledger: Ledger) -> int:
    return sum(int((decisions.dropped < 0).sum()) for decisions in ledger.shards())


@pytest.mark.parametrize("threshold", [0, 3, 4, 10, 11])
def test_the_outcome_of_a_stricter_threshold_is_exact(tmp_path: Path, threshold: int) -> None:
    write_documents(tmp_path / "crawl", documents=20)
    outcome = tried(run(tmp_path, filters()), f"word_count.min_words={threshold}")
    stages = [ScoreFilter(WordCountFilter(min_words=threshold)), ScoreFilter(RepeatedLinesFilter())]
    truth = kept(run(tmp_path, stages))
    assert outcome.total.would_keep <= truth <= outcome.total.would_keep + outcome.total.unknown
    assert outcome.total.unknown == (2 * 2 if threshold == 0 else 0)


@pytest.mark.parametrize("threshold", [0, 1, 4])
def test_the_outcome_is_exact_for_filters_of_one_scan(tmp_path: Path, threshold: int) -> None:
    write_documents(tmp_path / "crawl", documents=20)
    scanned = [ScoreFilter(WordCountFilter(min_words=2)), ScoreFilter(RepeatedLinesFilter())]
    outcome = tried(run(tmp_path, scanned), f"word_count.min_words={threshold}")
    truth = kept(run(tmp_path, [ScoreFilter(WordCountFilter(min_words=threshold)), scanned[1]]))
    assert (outcome.total.would_keep, outcome.total.unknown) == (truth, 0)


def test_bytes_sources_and_stages_are_counted(tmp_path: Path) -> None:
    outcome = tried(run(tmp_path, filters()), "word_count.min_words=4")
    assert (outcome.total.kept, outcome.total.would_keep) == (4, 2)
    assert outcome.total.would_keep_bytes == 2 * len("word word word word")
    assert {name.rpartition("/")[2]: tally.would_keep for name, tally in outcome.sources.items()} == {
        "part-0.jsonl": 1,
        "part-1.jsonl": 1,
    }
    assert outcome.dropped == {"word_count": (4, 6), "repeated_lines": (4, 4)}


def test_examples_are_documents_whose_outcome_changes(tmp_path: Path) -> None:
    ledger = run(tmp_path, filters())
    outcome = tried(ledger, "repeated_lines.max_repeated_line_fraction=0.5", "word_count.min_words=4")
    assert {one.id for one in outcome.now_kept} <= {"0-2", "1-2", "0-5", "1-5"}
    assert {one.id for one in outcome.now_dropped} == {"0-3", "1-3"}
    assert read_texts(ledger, [outcome.now_dropped[0].place]) == ["word word word"]


def test_the_outcome_is_unknown_after_a_stage_without_verdicts(tmp_path: Path) -> None:
    ledger = run(tmp_path, [*filters()[:1], PandasFilter()])
    outcome = tried(ledger, "word_count.min_words=1")
    assert outcome.total.unknown == 2
    assert outcome.total.would_keep == outcome.total.kept


def test_a_known_verdict_of_a_later_stage_decides_the_outcome(tmp_path: Path) -> None:
    class Both(ProcessingStage[DocumentBatch, DocumentBatch]):
        """Records a verdict for every document that reaches it."""

        name = "both"

        def process(self, task: DocumentBatch) -> DocumentBatch:
            assert task.source_rows is not None
            words = np.array([len(text.split()) for text in task.column("text").to_pylist()], float)
            self.record(Verdicts("both", task.source_rows, words >= 2, words))
            return task.select(np.flatnonzero(words >= 2))

    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=3)), Both()])
    assert tried(ledger, "word_count.min_words=4").total.unknown == 0
    assert tried(ledger, "word_count.min_words=1").total.unknown == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("word_count.min_word=3", "Did you mean 'min_words'"),
        ("wordcount.min_words=3", "no filter 'wordcount' in this run.*Did you mean 'word_count'"),
        ("word_count.lang=de", "changes the score itself.*Its thresholds are min_words, max_words"),
        ("common_english_words.min_num_common_words=3", "changes the score itself"),
        ("min_words=3", "expected FILTER.PARAMETER=VALUE"),
    ],
)
def test_invalid_changes_raise_an_error_that_says_what_is_valid(tmp_path: Path, change: str, expected: str) -> None:
    ledger = run(tmp_path, [*filters(), ScoreFilter(CommonEnglishWordsFilter())])
    with pytest.raises(InputError, match=expected):
        parse_changes(ledger, [change])


class Moody(WordCountFilter):
    """Decides by more than the score: by a state that changes with every document."""

    name = "moody"

    def __init__(self, min_words: int = 2) -> None:
        super().__init__(min_words)
        self._mood = False

    def score_document(self, text: str) -> int:
        self._mood = not self._mood
        return super().score_document(text)

    def keep_document(self, score: float) -> bool:
        return score >= self.min_words and self._mood


def test_what_if_is_refused_when_scores_do_not_reproduce_the_verdicts(tmp_path: Path) -> None:
    ledger = run(tmp_path, [ScoreFilter(Moody())])
    with pytest.raises(InputError, match="stored scores do not reproduce its verdicts"):
        tried(ledger, "moody.min_words=3")


def test_an_inverted_filter_is_inverted_in_what_if(tmp_path: Path) -> None:
    ledger = run(tmp_path, [ScoreFilter(WordCountFilter(min_words=3), invert=True)])
    outcome = tried(ledger, "word_count.min_words=4")
    assert outcome.total.kept == 4
    assert outcome.total.would_keep == 6
