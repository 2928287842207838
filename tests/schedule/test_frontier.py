"""The frontier tells up to which position a queue is complete."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schedule.frontier import Frontier
from penstock.schedule.state import Item


def item(*order: int, pool: int = 0) -> Item:
    return Item("_".join(map(str, order)), order, pool)


def test_a_position_is_open_while_an_earlier_item_may_still_emit() -> None:
    frontier = Frontier()
    first, second = item(0, 0), item(0, 1)
    frontier.enter(first)
    frontier.enter(second)
    assert not frontier.passed((0, 0))
    frontier.leave(first)
    assert frontier.passed((0, 0, 7))
    assert not frontier.passed((0, 1))
    frontier.leave(second)
    assert frontier.passed((9, 9))


def test_emitted_outputs_advance_the_frontier() -> None:
    frontier = Frontier()
    source = item(0, 0)
    frontier.enter(source)
    frontier.advance(source, (0, 0, 3))
    assert frontier.passed((0, 0, 3))
    assert not frontier.passed((0, 0, 4))


def test_the_frontier_tells_which_item_is_awaited() -> None:
    frontier = Frontier()
    first, second = item(0, 0), item(0, 1)
    assert frontier.waits_for([second]), "if no item is awaited, every item is accepted"
    frontier.enter(second)
    frontier.enter(first)
    assert frontier.waits_for([second, first])
    assert not frontier.waits_for([second])
    frontier.leave(first)
    assert frontier.waits_for([second])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_queue_is_consumed_in_order_whatever_the_order_of_completion(fans: list[int], chance: object) -> None:
    """Items emit outputs one by one, interleaved at random; the queue is consumed in sorted order."""
    frontier = Frontier()
    sources = [item(0, i) for i in range(len(fans))]
    for source in sources:
        frontier.enter(source)
    left = {i: list(range(fan)) for i, fan in enumerate(fans)}
    arrived: list[tuple[int, ...]] = []
    released: list[tuple[int, ...]] = []
    while left:
        i = chance.choice(sorted(left))  # type: ignore[attr-defined]
        if left[i]:
            order: tuple[int, ...] = (0, i, left[i].pop(0))
            frontier.advance(sources[i], order)
            arrived.append(order)
        else:
            del left[i]
            frontier.leave(sources[i])
        for order in sorted(arrived):
            if frontier.passed(order):
                arrived.remove(order)
                released.append(order)
    assert not arrived
    assert released == sorted(released)
    assert len(released) == sum(fans)
