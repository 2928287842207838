"""Up to where a queue is complete."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schedule.frontier import Frontier
from penstock.schedule.state import Item


def item(*order: int, pool: int = 0) -> Item:
    return Item("_".join(map(str, order)), order, pool)


def test_nothing_passes_an_item_that_may_still_give_something() -> None:
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


def test_what_an_item_has_given_lets_pass_what_stands_before_it() -> None:
    frontier = Frontier()
    source = item(0, 0)
    frontier.enter(source)
    frontier.advance(source, (0, 0, 3))
    assert frontier.passed((0, 0, 3))
    assert not frontier.passed((0, 0, 4))


def test_it_knows_who_is_awaited() -> None:
    frontier = Frontier()
    first, second = item(0, 0), item(0, 1)
    assert frontier.waits_for([second]), "where nobody is awaited, everybody is welcome"
    frontier.enter(second)
    frontier.enter(first)
    assert frontier.waits_for([second, first])
    assert not frontier.waits_for([second])
    frontier.leave(first)
    assert frontier.waits_for([second])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_in_whatever_order_items_finish_the_queue_comes_out_in_order(fans: list[int], chance: object) -> None:
    """Items give their outputs one by one, interleaved at random; what is let through is exactly the sorted whole."""
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
