"""The text of a plan: pools, stages, resources, reasons for pool boundaries, expected bytes."""

from penstock import DocumentBatch, Resources, processing_stage
from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.files import SizedFile
from penstock.plan.explain import explain
from penstock.plan.planner import make_plan
from penstock.testing import make_batch
from penstock.text import JsonlReader, JsonlWriter, RepeatedLinesFilter, ScoreFilter, WordCountFilter

WORKSTATION = Cluster((Node("here", cpus=16, memory_gb=64, gpus=(Gpu(24), Gpu(24))),))


@processing_stage(name="classify", resources=Resources(cpus=1, gpus=0.5), batch_size=4)
def classify(task: DocumentBatch) -> DocumentBatch:
    return task


def test_the_full_text_of_a_plan() -> None:
    filters = [ScoreFilter(WordCountFilter()), ScoreFilter(RepeatedLinesFilter())]
    stages = [*JsonlReader("crawl").decompose(), *filters, classify, JsonlWriter("clean")]
    files = [SizedFile("crawl/a.jsonl", 3_000_000), SizedFile("crawl/b.jsonl", 1_000_000)]
    plan = make_plan("web", stages, WORKSTATION, listing={0: files})
    assert explain(plan).split("\n") == [
        "Plan of 'web' for 1 node, 16 CPUs, 64.0 GB memory, 2 GPUs",
        "Input: 2 files, 4.0 MB, in 2 tasks of at most 3.0 MB as stored",
        "",
        "Pool 1: file_partitioning",
        "  a worker       0.5 CPU",
        "  workers        1, fixed by the stage",
        "  expected       one listing, 2 tasks out",
        "    1. file_partitioning  reads crawl",
        "",
        "Pool 2: jsonl_reader_stage … repeated_lines",
        "  apart because  'file_partitioning' is the source: its tasks spread over workers",
        "  a worker       1 CPU",
        "  workers        as many as keep up",
        "  expected       2 tasks, at most 4.0 MB as stored",
        "    2. jsonl_reader_stage",
        "    3. word_count          ┐",
        "    4. repeated_lines      ┘ in one pass",
        "",
        "Pool 3: classify",
        "  apart because  a worker needs 1 CPU, 0.5 GPU from here on, 1 CPU before",
        "  a worker       1 CPU, 0.5 GPU, 4 tasks at a time",
        "  workers        as many as keep up",
        "  expected       2 tasks, at most 4.0 MB as stored",
        "    5. classify",
        "",
        "Pool 4: jsonl_writer",
        "  apart because  a worker needs 1 CPU from here on, 1 CPU, 0.5 GPU before",
        "  a worker       1 CPU",
        "  workers        as many as keep up",
        "  expected       2 tasks, at most 4.0 MB as stored",
        "    6. jsonl_writer  writes clean",
    ]


def test_merged_filters_are_bracketed_and_unknown_input_has_no_expected_size() -> None:
    filters = [ScoreFilter(WordCountFilter()).with_(name=name) for name in ("a", "bb", "c")]
    text = explain(make_plan("p", filters, WORKSTATION, initial_tasks=[make_batch(["x"])]))
    assert "expected" not in text
    assert text.split("\n")[-3:] == ["    1. a   ┐", "    2. bb  │", "    3. c   ┘ in one pass"]
