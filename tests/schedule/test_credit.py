"""Bytes in flight stay within the budget, and all credit is released."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.schedule.credit import Charge, Credits

modest = settings(max_examples=100, deadline=None, derandomize=True)

steps = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "reserve", "shared", "learn", "release"]), st.integers(0, 2), st.integers(0, 60)
    ),
    max_size=60,
)


@modest
@given(st.integers(0, 200), st.lists(st.integers(1, 4), min_size=3, max_size=3), steps)
def test_the_budget_is_never_exceeded_and_release_restores_exactly(
    budget: int, batch_sizes: list[int], asked: list[tuple[str, int, int]]
) -> None:
    account = Credits(budget, batch_sizes)
    held: list[Charge] = []
    for what, edge, size in asked:
        before = account.held
        match what:
            case "acquire" | "shared":
                charge = account.acquire(edge, size, shared_only=what == "shared")
                if charge is not None:
                    assert charge.total == size
                    assert what == "acquire" or charge.private == 0
                    held.append(charge)
            case "reserve":
                held.append(account.reserve(edge, size))
                assert held[-1].total <= size
            case "learn":
                account.learn(edge, size)
            case "release":
                if held:
                    account.release(held.pop(size % len(held)))
        assert account.held == sum(charge.total for charge in held)
        assert account.held <= budget
        assert account.peak <= budget
        assert what == "release" or account.held >= before
    for charge in held:
        account.release(charge)
    assert account.held == 0
    assert all(edge.held_private == edge.held_shared == 0 for edge in account.edges)


@modest
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_a_charge_splits_without_loss(shared: int, private: int, forced: int, size: int) -> None:
    charge = Charge(0, shared, private, forced)
    first, rest = charge.split(size)
    assert first.plus(rest) == charge
    assert first.total == min(size, charge.total)
    assert rest.forced == 0 or first.forced > 0 or first.total == size


def test_every_edge_keeps_enough_for_a_batch_of_its_largest_item() -> None:
    account = Credits(1000, [1, 5])
    account.learn(0, 10)
    account.learn(1, 50)
    assert [edge.private for edge in account.edges] == [10, 250]
    taken = account.acquire(0, 740)  # the whole shared part
    assert taken is not None
    assert account.acquire(0, 11) is None
    assert account.acquire(1, 250) is not None, "the private credit of an edge is available to that edge only"


def test_an_edge_upstream_of_a_barrier_leaves_the_shared_part_to_other_edges() -> None:
    """The batch of the barrier is its whole input; outputs that do not fit are spilled, so no credit is kept for them."""
    account = Credits(1000, [10**9, 1], spills=[True, False])
    account.learn(0, 10)
    account.learn(1, 50)
    assert [edge.private for edge in account.edges] == [10, 50]
    assert account.shared_free == 940


def test_an_edge_grows_later_when_the_shared_part_has_room() -> None:
    account = Credits(100, [1, 1])
    charge = account.acquire(0, 75)
    assert charge is not None
    account.learn(1, 60)
    assert account.edges[1].private < 60
    account.release(charge)
    account.acquire(1, 0)
    assert account.edges[1].private == 60


def test_bytes_stored_without_credit_are_counted_and_released() -> None:
    account = Credits(100, [1])
    charge = account.force(0, 150)
    assert (charge.total, charge.forced, account.held, account.peak) == (150, 50, 150, 150)
    account.release(charge)
    assert (account.held, account.forced) == (0, 0)


def test_a_run_of_one_pool_has_no_edges() -> None:
    assert Credits(100, []).shared_free == 100
