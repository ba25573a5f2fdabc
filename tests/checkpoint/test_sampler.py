"""Each sample of an epoch is seen exactly once, however the world changes in the middle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader

from elaunch.checkpoint.state.sampler import ElasticSampler, Tail
from elaunch.errors import StateError
from tests.checkpoint.roundtrip import restore, save

pytestmark = pytest.mark.torch


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A data set whose samples are their own places."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> int:
        return place


def world_of(size: int, length: int, state: dict[str, Any] | None, **options: Any) -> list[ElasticSampler]:
    samplers = [ElasticSampler(length, rank=rank, world=size, **options) for rank in range(size)]
    for sampler in samplers:
        if state is not None:
            sampler.load_state_dict(state)
    return samplers


def batches(sampler: ElasticSampler, batch: int, how: str) -> Any:
    if how == "plain":
        return iter(DataLoader(Numbers(sampler.length), batch_size=batch, sampler=sampler))
    if how == "tracked":
        return iter(sampler.track(DataLoader(Numbers(sampler.length), batch_size=batch, sampler=sampler)))
    return iter(sampler.track(DataLoader(Numbers(sampler.length), batch_sampler=BatchSampler(sampler, batch, False))))


def step(loaders: list[Any], seen: Counter[int]) -> bool:
    """One step of all ranks; a rank without a batch goes without. False: no rank had one."""
    got = [next(loader, None) for loader in loaders]
    for found in got:
        seen.update([] if found is None else found.tolist())
    return any(found is not None for found in got)


@settings(max_examples=150, deadline=None)
@given(
    length=st.integers(0, 60),
    lives=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 6)), max_size=5),
    last=st.tuples(st.integers(1, 6), st.integers(1, 5)),
    how=st.sampled_from(["plain", "tracked", "batch sampler"]),
    seed=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_every_sample_exactly_once(
    length: int, lives: list[tuple[int, int, int]], last: tuple[int, int], how: str, seed: int, shuffle: bool
) -> None:
    """Each life: a world size, a batch size, and the number of steps until the world changes; the last has no end."""
    seen: Counter[int] = Counter()
    state: dict[str, Any] | None = None
    for size, batch, steps in [*lives, (*last, length + 1)]:
        samplers = world_of(size, length, state, seed=seed, shuffle=shuffle)
        for sampler in samplers:
            sampler.set_epoch(0)
        loaders = [batches(sampler, batch, how) for sampler in samplers]
        for _ in range(steps):
            going = step(loaders, seen)
            states = [sampler.state_dict() for sampler in samplers]
            assert all(other == states[0] for other in states), states
            state = states[0]
            assert state["consumed"] == len(seen)
            if not going:
                break
    assert seen == Counter(range(length))
    assert state is not None
    assert state["consumed"] == length


@pytest.mark.parametrize("length", [1, 3, 10, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_tails_give_all_ranks_as_many(tail: Tail, size: int, length: int) -> None:
    for consumed in range(length + 1):
        state = {**ElasticSampler(length).state_dict(), "consumed": consumed}
        samplers = world_of(size, length, state, tail=tail)
        for sampler in samplers:
            sampler.set_epoch(0)  # by hand, so that a complete epoch stays so
        promised = {len(sampler) for sampler in samplers}
        shares = [list(sampler) for sampler in samplers]
        assert {len(share) for share in shares} == promised
        assert len(promised) == 1
        seen = Counter(sample for share in shares for sample in share)
        rest = set(list(ElasticSampler(length, rank=0, world=1))[consumed:])
        if tail == "pad":
            assert rest <= seen.keys()
            assert seen.total() - len(rest) < size
        else:
            assert seen.keys() <= rest
            assert seen.total() == len(seen) > len(rest) - size
        assert {sampler.state_dict()["consumed"] for sampler in samplers} == {length}


@pytest.mark.parametrize("size", [1, 3, 4])
def test_exact_lengths_are_told(size: int) -> None:
    for consumed in range(11):
        state = {**ElasticSampler(10).state_dict(), "consumed": consumed}
        for sampler in world_of(size, 10, state):
            sampler.set_epoch(0)
            promised = len(sampler)
            assert promised == len(list(sampler))


def test_epochs_differ_and_seeds_do_too() -> None:
    orders = set()
    for seed in (0, 1):
        sampler = ElasticSampler(50, seed=seed)
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            orders.add(tuple(sampler))
    assert len(orders) == 4
    assert list(ElasticSampler(5, shuffle=False)) == [0, 1, 2, 3, 4]
    assert list(ElasticSampler(Numbers(50))) == list(ElasticSampler(50))


def test_without_set_epoch_each_iteration_is_the_next_epoch() -> None:
    sampler, by_hand = ElasticSampler(20), ElasticSampler(20)
    for epoch in range(3):
        by_hand.set_epoch(epoch)
        assert len(sampler) == 20
        assert list(sampler) == list(by_hand)
        assert sampler.state_dict() == by_hand.state_dict()
    restored = ElasticSampler(20)
    restored.load_state_dict(sampler.state_dict())
    by_hand.set_epoch(3)
    assert list(restored) == list(by_hand)


def test_a_restored_epoch_is_gone_on_with_and_not_begun_again() -> None:
    whole = list(ElasticSampler(10))
    sampler = ElasticSampler(10)
    sampler.load_state_dict({**sampler.state_dict(), "consumed": 4})
    sampler.set_epoch(0)
    sampler.set_epoch(0)  # by the program, and by a framework of its
    assert list(sampler) == whole[4:]
    sampler.set_epoch(0)
    assert list(sampler) == whole  # once iterated, it is an epoch as any other
    sampler.load_state_dict({**sampler.state_dict(), "consumed": 10})
    sampler.set_epoch(0)
    assert list(sampler) == []
    sampler.load_state_dict({**sampler.state_dict(), "consumed": 4})
    sampler.set_epoch(1)
    assert len(list(sampler)) == 10


def test_an_iteration_that_was_left_is_gone_on_with() -> None:
    whole = list(ElasticSampler(10))
    sampler = ElasticSampler(10)
    first = iter(sampler)
    assert [next(first) for _ in range(3)] == whole[:3]
    second = iter(sampler)
    assert next(second) == whole[3]
    next(first)  # the old one counts no more
    assert sampler.state_dict()["consumed"] == 4
    assert list(second) == whole[4:]


@pytest.mark.slow
def test_workers_that_fetch_ahead_do_not_count() -> None:
    data = Numbers(40)
    sampler = ElasticSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, prefetch_factor=4)
    used: list[int] = []
    for number, batch in enumerate(sampler.track(loader), 1):
        used += batch.tolist()
        assert sampler.state_dict()["consumed"] == 4 * number == len(used)
        if number == 3:
            break
    resumed = ElasticSampler(data)
    resumed.load_state_dict(sampler.state_dict())
    assert Counter(used + list(resumed)) == Counter(range(40))
    for _ in DataLoader(data, batch_size=4, sampler=sampler, num_workers=1):
        with pytest.raises(StateError, match=r"iterate sampler\.track\(loader\)"):
            sampler.state_dict()
        break
    assert len(list(sampler.track(loader))) > 0
    assert sampler.state_dict()["consumed"] == 40


def test_what_cannot_be_tracked_is_refused() -> None:
    data = Numbers(10)
    sampler = ElasticSampler(data)
    for loader, said in [
        (DataLoader(data), "not the sampler of the loader"),
        (DataLoader(data, sampler=sampler, in_order=False), "in_order"),
        (DataLoader(data, batch_sampler=[[1], [2]]), "not the sampler"),
    ]:
        with pytest.raises(StateError, match=said):
            list(sampler.track(loader))
    batches = DataLoader(data, batch_sampler=BatchSampler(sampler, 2, False))
    del batches.batch_sampler.batch_size
    with pytest.raises(StateError, match="no batch_size"):
        list(sampler.track(batches))
    assert len(list(sampler.track(DataLoader(data, batch_size=None, sampler=sampler)))) == 10


def test_states_that_do_not_fit_are_refused() -> None:
    state = ElasticSampler(10).state_dict()
    with pytest.raises(StateError, match="has 9 samples, and had 10"):
        ElasticSampler(9).load_state_dict(state)
    for wrong in ({}, {"epoch": 1}, None):
        with pytest.raises(StateError, match="not the state of an ElasticSampler"):
            ElasticSampler(10).load_state_dict(wrong)  # type: ignore[arg-type]


def test_a_restore_while_iterating_is_an_error() -> None:
    data = Numbers(10)
    sampler = ElasticSampler(data)
    tracked = sampler.track(DataLoader(data, sampler=sampler))
    next(tracked)
    sampler.load_state_dict(sampler.state_dict())
    with pytest.raises(StateError, match="while its loader was being iterated"):
        next(tracked)


def test_the_world_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert list(ElasticSampler(8, shuffle=False)) == [1, 5]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 1])
def test_inside_stateful_data_loader(workers: int, tmp_path: Path) -> None:
    """Its state is taken when batches are sent for, and given out with the batch that training has."""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    data = Numbers(24)

    def make() -> Any:
        sampler = ElasticSampler(data, rank=0, world=1)
        return sampler, torchdata.StatefulDataLoader(data, batch_size=4, sampler=sampler, num_workers=workers)

    sampler, loader = make()
    used: list[int] = []
    for batch in loader:
        used += batch.tolist()
        if len(used) == 12:
            break
    if workers:
        with pytest.raises(StateError, match=r"iterate sampler\.track\(loader\)"):
            sampler.state_dict()
    else:
        assert sampler.state_dict()["consumed"] == 12
    save({"data": loader}, tmp_path)
    _, resumed = make()
    restore({"data": resumed}, tmp_path)
    used += [sample for batch in resumed for sample in batch.tolist()]
    assert Counter(used) == Counter(range(24))
    assert Counter(sample for batch in resumed for sample in batch.tolist()) == Counter(range(24))
    with pytest.raises(StateError, match="'data' is per rank and was saved at 1 ranks, now there are 2"):
        restore({"data": make()[1]}, tmp_path, world=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_tracked_stateful_data_loader_has_two_states(workers: int) -> None:
    """The sampler's, for any world, and its own, for the same one."""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    data = Numbers(24)
    sampler = ElasticSampler(data, rank=0, world=1)
    loader = torchdata.StatefulDataLoader(data, batch_size=4, sampler=sampler, num_workers=workers)
    used: list[int] = []
    for batch in sampler.track(loader):
        used += batch.tolist()
        assert sampler.state_dict()["consumed"] == len(used)
        if len(used) == 12:
            break
    samplers = [ElasticSampler(data, rank=rank, world=2) for rank in range(2)]
    for one in samplers:
        one.load_state_dict(sampler.state_dict())
    assert Counter([*used, *samplers[0], *samplers[1]]) == Counter(range(24))
    again = ElasticSampler(data, rank=0, world=1)
    resumed = torchdata.StatefulDataLoader(data, batch_size=4, sampler=again, num_workers=workers)
    resumed.load_state_dict(loader.state_dict())
    assert Counter(used + [sample for batch in resumed for sample in batch.tolist()]) == Counter(range(24))


@pytest.mark.parametrize("used", [0, 3, 8])
def test_going_on_with_an_epoch_draws_no_random_number_more(used: int) -> None:
    """A loader draws one from torch's generator when it starts: an undisturbed run starts it once an epoch."""
    numbers = Numbers(16)

    def drawn(start: ElasticSampler, batches: int) -> tuple[torch.Tensor, dict[str, Any]]:
        loader = DataLoader(numbers, batch_size=2, sampler=start)
        left = batches
        while left:
            for _ in start.track(loader):
                left -= 1
                if not left:
                    break
        return torch.get_rng_state(), start.state_dict()

    torch.manual_seed(3)
    state, place = drawn(ElasticSampler(numbers, rank=0, world=1), used) if used else (torch.get_rng_state(), None)
    torch.manual_seed(3)
    undisturbed, _ = drawn(ElasticSampler(numbers, rank=0, world=1), used + 2)
    again = ElasticSampler(numbers, rank=0, world=1)
    if place is not None:
        again.load_state_dict(place)
    torch.set_rng_state(state)
    resumed, _ = drawn(again, 2)
    assert torch.equal(resumed, undisturbed)


@pytest.mark.parametrize(("length", "tail", "warned"), [(101, "exact", 1), (100, "exact", 0), (101, "pad", 0)])
def test_shares_that_are_not_equal_are_warned_of_once(
    length: int, tail: str, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = ElasticSampler(length, tail=tail, rank=0, world=2)  # type: ignore[arg-type]
    for epoch in range(2):
        sampler.set_epoch(epoch)
        list(sampler)
    assert [record.message[:36] for record in caplog.records] == ["101 samples are left for 2 ranks: so"] * warned
