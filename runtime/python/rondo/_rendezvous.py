"""The state of a rendezvous and its changes: no I/O, no clock.

Nodes have numbers, given in the order in which they come. A round gathers members, and settles: then each
has its rank, the oldest node the first. Who comes later waits for the next round, which begins as soon as a
member comes for it; the other members are expected then, and nobody settles without them while they live.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rondo.errors import ResourceExhausted

if TYPE_CHECKING:
    from collections.abc import Collection

#: Nodes that a rendezvous knows at most, those that wait among them.
NODES_MAX = 4096
_VERSION = 1


class Malformed(ValueError):
    """What is under the rendezvous's key is no state of one."""


@dataclass(frozen=True)
class Bounds:
    """How many nodes a round has."""

    min_nodes: int
    max_nodes: int


@dataclass(frozen=True)
class State:
    """A rendezvous as all nodes see it."""

    #: Counted from 1; 0 before the first.
    round: int = 0
    #: Whether the round's members have their ranks.
    settled: bool = False
    #: Whether the run is over.
    closed: bool = False
    #: Of the round; once it is settled, by rank.
    members: tuple[int, ...] = ()
    #: Members of the round before that are to come.
    expected: tuple[int, ...] = ()
    #: Who waits for the next round, in the order in which they came.
    waiting: tuple[int, ...] = ()
    #: Members that have ended since it is closed.
    left: tuple[int, ...] = ()

    def encode(self) -> str:
        """As it is kept."""
        return json.dumps({"version": _VERSION, **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def decode(text: bytes) -> State:
        """From what is kept."""
        try:
            fields: dict[str, Any] = json.loads(text)
            version = fields.pop("version")
            if version != _VERSION:
                raise Malformed(f"it has version {version!r}: {_VERSION} is known")
            lists = {name: it if isinstance(it, bool | int) else tuple(it) for name, it in fields.items()}
            return State(**lists)  # type: ignore[arg-type]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Malformed(f"{text[:200]!r} is no state of a rendezvous: {error}") from error


def joined(state: State, me: int, after: int, bounds: Bounds, lost: Collection[int]) -> State:
    """The state once this node has asked for a round later than `after`: the same if it has already.

    Those who are lost are asked for nothing.
    """
    state = _without(state, lost)
    if state.closed or (me in state.members and (not state.settled or state.round > after)):
        return state
    if not state.settled and state.round > 0:
        return _gathered(state, me, bounds)
    others = tuple(node for node in state.members if node != me and node not in lost)
    # Who comes late waits for a member to begin the next round, if there is one left.
    if state.round == 0 or me in state.members or not others:
        begun = State(state.round + 1, expected=others, waiting=state.waiting)
        return _gathered(begun, me, bounds)
    return _waiting(state, me)


def _gathered(state: State, me: int, bounds: Bounds) -> State:
    expected = tuple(node for node in state.expected if node != me)
    # Members of the round before have their places.
    if len(state.members) + len(expected) >= bounds.max_nodes:
        return _waiting(state, me)
    waiting = tuple(node for node in state.waiting if node != me)
    state = replace(state, members=(*state.members, me), expected=expected, waiting=waiting)
    return settled(state) if len(state.members) == bounds.max_nodes else state


def _waiting(state: State, me: int) -> State:
    if me in state.waiting:
        return state
    if len(state.members) + len(state.waiting) >= NODES_MAX:
        raise ResourceExhausted(f"the rendezvous knows {NODES_MAX} nodes, which is the bound")
    return replace(state, waiting=(*state.waiting, me))


def can_settle(state: State, bounds: Bounds) -> bool:
    """Whether the round has who it needs: it may be settled when nobody else has come for a while."""
    return (
        not state.settled
        and not state.closed
        and not state.expected
        and bounds.min_nodes <= len(state.members)
    )


def settled(state: State) -> State:
    """The state with ranks: the oldest node has the first."""
    return replace(state, settled=True, members=tuple(sorted(state.members)), expected=())


def stepped_back(state: State, me: int) -> State:
    """The state once this node waits for no round any more."""
    return _without(state, {me})


def _without(state: State, lost: Collection[int]) -> State:
    """The state without these nodes. A settled round keeps its members: its ranks stay."""

    def kept(nodes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(node for node in nodes if node not in lost)

    members = state.members if state.settled else kept(state.members)
    expected, waiting = kept(state.expected), kept(state.waiting)
    return replace(state, members=members, expected=expected, waiting=waiting)


def closed(state: State, me: int) -> State:
    """The state once this node has ended the run."""
    left = state.left if me in state.left else (*state.left, me)
    return replace(state, closed=True, left=left)


def is_over(state: State) -> bool:
    """Whether all members have ended."""
    return state.closed and set(state.members) <= set(state.left)


def wanting(state: State, round: int, lost: Collection[int], bounds: Bounds) -> int:
    """How many nodes make another round worth while, to a member of this round: 0 for none."""
    if state.closed:
        return 0
    if state.round != round:
        return 1
    gone = sum(node in lost for node in state.members)
    room = bounds.max_nodes - len(state.members) + gone
    waiting = sum(node not in lost for node in state.waiting)
    return gone + min(waiting, room)
