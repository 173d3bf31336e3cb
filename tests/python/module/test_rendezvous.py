"""The state of a rendezvous, and who lives: rules, without a server."""
import random
import types

import pytest

from rondo import _rendezvous
from rondo._follower import Beats
from rondo._rendezvous import Bounds, Malformed, State


def joined(state, *nodes, after=0, bounds=Bounds(2, 3), lost=()):
    for node in nodes:
        state = _rendezvous.joined(state, node, after, bounds, lost)
    return state


def test_a_round_settles_when_it_is_full_or_nobody_else_comes():
    state = joined(State(), 2)
    assert state.members == (2,) and not _rendezvous.can_settle(state, Bounds(2, 3))
    state = joined(state, 1)
    assert not state.settled and _rendezvous.can_settle(state, Bounds(2, 3))
    assert _rendezvous.settled(state).members == (1, 2)
    state = joined(state, 7, 9)
    assert state == State(1, True, members=(1, 2, 7), waiting=(9,))
    assert joined(state, 9, 7) == state


def test_who_comes_late_has_another_round_begin():
    bounds = Bounds(1, 3)
    state = _rendezvous.settled(joined(State(), 1, 2, bounds=bounds))
    assert _rendezvous.wanting(state, 1, set(), bounds) == 0
    state = joined(state, 3, bounds=bounds)
    assert state.waiting == (3,) and _rendezvous.wanting(state, 1, set(), bounds) == 1
    assert _rendezvous.wanting(state, 1, {3}, bounds) == 0
    state = joined(state, 2, after=1, bounds=bounds)
    assert state == State(2, members=(2,), expected=(1,), waiting=(3,))
    assert _rendezvous.wanting(state, 1, set(), bounds) == 1
    # It is not settled without who belongs to it and lives.
    state = joined(state, 3, bounds=bounds)
    assert not _rendezvous.can_settle(state, bounds) and state.members == (2, 3)
    assert _rendezvous.can_settle(joined(state, 3, lost={1}, bounds=bounds), bounds)
    assert joined(state, 1, after=1, bounds=bounds) == State(2, True, members=(1, 2, 3))


def test_spare_nodes_take_no_place_of_who_is_expected():
    bounds = Bounds(2, 2)
    state = joined(State(), 1, 2, 3, bounds=bounds)
    assert state.waiting == (3,) and _rendezvous.wanting(state, 1, set(), bounds) == 0
    state = joined(state, 1, after=1, bounds=bounds)
    assert joined(state, 3, bounds=bounds) == state
    state = joined(state, 3, lost={2}, bounds=bounds)
    assert state == State(2, True, members=(1, 3))
    # Nobody is left to begin the next round but who waits.
    assert joined(state, 4, lost={1}, bounds=bounds).waiting == (4,)
    state = joined(state, 4, lost={1, 3}, bounds=bounds)
    assert state == State(3, members=(4,)) and _rendezvous.stepped_back(state, 4) == State(3)


def test_a_run_that_is_over_stays_so():
    state = _rendezvous.closed(joined(State(), 1, 2, bounds=Bounds(2, 2)), 1)
    assert not _rendezvous.is_over(state) and joined(state, 5) == state
    assert _rendezvous.wanting(state, 0, {2}, Bounds(1, 9)) == 0
    assert _rendezvous.is_over(_rendezvous.closed(state, 2))


def test_it_is_kept_as_it_is_and_nothing_else_is_one():
    state = State(3, False, False, (1, 2), (3,), (4, 5), (6,))
    assert State.decode(state.encode().encode()) == state
    for text in (b"", b"[]", b"{}", b'{"version":2}', b'{"version":1,"rounds":3}', b"\xff"):
        with pytest.raises(Malformed, match="no state of a rendezvous"):
            State.decode(text)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_a_round_has_who_lives(seed):
    generator = random.Random(seed)
    least = generator.randrange(1, 4)
    bounds = Bounds(least, least + generator.randrange(0, 3))
    state, alive, dead, round_of, made = State(), set(), set(), {}, {}

    def step(node):
        nonlocal state
        before = state
        state = _rendezvous.joined(state, node, round_of.get(node, 0), bounds, dead)
        if _rendezvous.can_settle(state, bounds) and generator.random() < 0.3:
            state = _rendezvous.settled(state)
        assert state.round >= before.round
        groups = [*state.members, *state.expected, *state.waiting]
        assert len(groups) == len(set(groups)) and len(state.members) <= bounds.max_nodes
        if state.settled:
            assert list(state.members) == sorted(state.members) and len(state.members) >= bounds.min_nodes
            # A round has one set of members, whoever asks.
            assert made.setdefault(state.round, state.members) == state.members
            for member in state.members:
                if member in alive and generator.random() < 0.5:
                    round_of[member] = state.round

    for number in range(1, 120):
        chance = generator.random()
        if chance < 0.1 and len(alive) < 6:
            alive.add(number)
        elif chance < 0.15 and alive:
            gone = generator.choice(sorted(alive))
            alive.remove(gone)
            dead.add(gone)
        elif alive:
            node = generator.choice(sorted(alive))
            if round_of.get(node) != state.round or _rendezvous.wanting(state, state.round, dead, bounds):
                step(node)
    # Nothing else happens: then all who can be are in a round.
    alive |= {1000 + index for index in range(bounds.min_nodes)}
    for _ in range(30):
        for node in sorted(alive):
            in_it = state.settled and node in state.members
            if not in_it or _rendezvous.wanting(state, state.round, dead, bounds):
                round_of[node] = state.round if in_it else round_of.get(node, 0)
                step(node)
    if not state.settled:
        state = _rendezvous.settled(state)
    assert set(state.members) <= alive
    assert len(state.members) == min(len(alive), bounds.max_nodes)


def test_who_does_not_beat_while_another_does_is_lost():
    beats, revision = Beats(me=1, missed_max=3), iter(range(1, 1000))

    def beat(*nodes):
        for node in nodes:
            beats.beat(node, next(revision))

    beat(1, 2, 3)
    for _ in range(3):
        beat(1, 2)
        assert beats.lost([1, 2, 3]) == set()
    beat(2, 1)
    assert beats.lost([1, 2, 3]) == {3} and beats.silent() == [3]
    # Without a server nobody beats, and nobody is lost, however long it takes; who is back, is.
    beat(3)
    assert beats.lost([1, 2, 3, 4]) == {4}
    # What was told before says nothing.
    beats.beat(3, 1)
    beats.gone(2)
    assert beats.lost([1, 2, 3]) == {2} and beats.silent() == []
    beats.only({1})
    assert beats.lost([3]) == {3}


def test_torchrun_finds_it_by_its_entry_point():
    from importlib.metadata import entry_points

    (found,) = [point for point in entry_points(group="torchrun.handlers") if point.name == "rondo"]
    assert isinstance(found.load()(), types.FunctionType)
