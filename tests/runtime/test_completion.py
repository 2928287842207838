"""A source is complete when none of its descendants is in flight, for any order of events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import Task
from penstock.core.lineage import adopt_anew
from penstock.core.rejection import Rejection
from penstock.runtime.completion import Completion
from penstock.testing import make_batch


def task(name: str, *sources: str) -> Task[Any]:
    made = make_batch([])
    made.task_id, made._sources = name, sources
    return made


def test_source_is_complete_when_its_last_descendant_is_done() -> None:
    completion = Completion()
    source, left, right = task("s", "s"), task("l", "s"), task("r", "s")
    completion.enter([source])
    completion.enter([left, right])
    completion.leave([source])
    completion.finish([left])
    assert completion.take_complete() == {}
    completion.finish([right])
    assert [out.task_id for out in completion.take_complete()["s"].outputs] == ["l", "r"]
    assert completion.take_complete() == {}, "reported once"


def test_tasks_after_a_barrier_keep_all_sources_open_with_few_source_ids() -> None:
    completion = Completion()
    sources = [task(f"s{number}", f"s{number}") for number in range(100)]
    begun = [task("") for _ in range(100)]
    completion.enter(sources)
    adopt_anew("again", sources, begun)
    completion.enter(begun)
    completion.leave(sources)
    assert sum(len(each._sources) for each in begun) < 200
    completion.finish(begun[:99])
    assert completion.take_complete() == {}
    completion.finish(begun[99:])
    assert len(completion.take_complete()) == 100


def test_source_without_outputs_is_complete() -> None:
    completion = Completion()
    source = task("s", "s")
    completion.enter([source])
    completion.reject("s", [Rejection("reader", "bad line")])
    completion.leave([source])
    record = completion.take_complete()["s"]
    assert (record.outputs, [rejection.reason for rejection in record.rejections]) == ([], ["bad line"])


def test_sources_processed_together_are_complete_together() -> None:
    completion = Completion()
    one, two, rest, joint = task("1", "1"), task("2", "2"), task("2b", "2"), task("j", "1", "2")
    completion.enter([one, two, rest])
    completion.enter([joint])
    completion.leave([one, two])
    completion.finish([joint])
    assert completion.take_complete() == {}, "1 and 2 have a common output, and 2 is not complete"
    completion.leave([rest])
    taken = completion.take_complete()
    assert set(taken) == {"1", "2"}
    assert [out.task_id for record in taken.values() for out in record.outputs] == ["j"]


def groups(links: list[set[str]], sources: list[str]) -> dict[str, frozenset[str]]:
    """Return the group of each source, computed in a slow and obvious way."""
    found = {source: {source} for source in sources}
    for _ in sources:
        for link in links:
            for source in sources:
                if found[source] & link:
                    found[source] |= link
    return {source: frozenset(group) for source, group in found.items()}


@given(data=st.data(), count=st.integers(1, 5))
def test_any_interleaving_yields_every_output_once_and_never_too_early(data: st.DataObject, count: int) -> None:
    completion = Completion()
    names = [f"s{number}" for number in range(count)]
    on_the_way: list[Task[Any]] = [task(name, name) for name in names]
    completion.enter(on_the_way)
    links: list[set[str]] = []
    finished: list[str] = []
    told: dict[str, list[str]] = {}
    made = 0
    while on_the_way:
        chosen = data.draw(st.lists(st.sampled_from(range(len(on_the_way))), min_size=1, max_size=3, unique=True))
        parents = [on_the_way[position] for position in chosen]
        on_the_way = [other for position, other in enumerate(on_the_way) if position not in chosen]
        what = data.draw(st.sampled_from(["drop", "finish", "work"] if made < 12 else ["drop", "finish"]))
        if what == "drop":
            completion.leave(parents)
        elif what == "finish":
            completion.finish(parents)
            finished += [parent.task_id for parent in parents]
        else:
            sources = tuple(dict.fromkeys(source for parent in parents for source in parent._sources))
            children = [task(f"t{made + number}", *sources) for number in range(data.draw(st.integers(1, 2)))]
            made += len(children)
            links.append(set(sources))
            completion.enter(children)
            completion.leave(parents)
            on_the_way += children
        for source, record in completion.take_complete().items():
            assert source not in told
            told[source] = [out.task_id for out in record.outputs]
        pending = {source for other in on_the_way for source in other._sources}
        bound = groups(links, names)
        assert set(told) == {name for name in names if not bound[name] & pending}
    assert set(told) == set(names)
    assert sorted(name for outputs in told.values() for name in outputs) == sorted(finished)
