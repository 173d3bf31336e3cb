"""Follows a rendezvous: its state, and which of its nodes live.

Every node puts a key of its own anew at an interval, its beat. Who is dead is judged by what the server says,
in the order in which it happened, and by no clock: a node that has not beaten while this one has so many
times. So neither clocks that differ nor a time without a server make a node dead.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rondo._rendezvous import Malformed, State
from rondo.errors import FailedPrecondition, RondoError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rondo._rondo import Changes, KeyChange, KeyValueStore, Watch

#: After a refusal it is tried again so much later.
_PAUSE_S = 1.0


class Beats:
    """Who lives, by the order of the beats."""

    def __init__(self, me: int, missed_max: int) -> None:
        self._me = me
        self._missed_max = missed_max
        #: Of each node the revision of its last beat, and how many of our own have come since.
        self._last: dict[int, int] = {}
        self._missed: dict[int, int] = {}

    def beat(self, node: int, revision: int) -> None:
        """A node has beaten."""
        if self._last.get(node, 0) >= revision:
            return
        self._last[node] = revision
        self._missed[node] = 0
        if node == self._me:
            self._missed = {other: missed + 1 for other, missed in self._missed.items()}
            self._missed[node] = 0

    def gone(self, node: int) -> None:
        """A node has left."""
        self._last.pop(node, None)
        self._missed.pop(node, None)

    def only(self, nodes: set[int]) -> None:
        """These are all there are."""
        for node in set(self._last) - nodes:
            self.gone(node)

    def lost(self, nodes: Iterable[int]) -> set[int]:
        """Who of these is dead or has left. A node puts its first beat before it takes part."""
        most = self._missed_max
        return {node for node in nodes if node != self._me and self._missed.get(node, most + 1) > most}

    def silent(self) -> list[int]:
        """Who is dead and has not left."""
        return sorted(self.lost(self._missed))


class Follower:
    """Follows the rendezvous in `directory`, on two threads, until it is closed."""

    def __init__(
        self, keys: KeyValueStore, directory: str, about: str, interval: float, missed_max: int
    ) -> None:
        self._keys = keys
        self.state_key = f"{directory}/state"
        self._nodes = f"{directory}/nodes"
        self._about = about
        self._interval = interval
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._state: State | None = None
        self._revision = 0
        self._failure: Exception | None = None
        # Nodes are counted, not named: their order is that in which they came.
        self.me = keys.increment(f"{directory}/count")
        self._beats = Beats(self.me, missed_max)
        self._beat(0)
        self._watch: Watch = keys.watch(directory)
        # All there is comes first.
        self._take(next(self._watch))
        for work, name in ((self._follow, "watch"), (self._live, "beat")):
            threading.Thread(target=work, name=f"rondo-{name}-{self.me}", daemon=True).start()

    # What is known.

    def seen(self) -> tuple[State | None, int, set[int]]:
        """The state with its revision, and who of its nodes is lost.

        Raises Malformed when the state is none, and whatever ended the watch for good.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure
            state = self._state
            nodes = () if state is None else (*state.members, *state.expected, *state.waiting)
            return state, self._revision, self._beats.lost(nodes)

    def wait(self, known: tuple[State | None, int, set[int]], seconds: float) -> None:
        """Waits until something is otherwise than known, or for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with self._changed:
                if self._failure is None and self._same(known):
                    self._changed.wait(left)
                    if self._same(known):
                        continue
            return

    def _same(self, known: tuple[State | None, int, set[int]]) -> bool:
        return self._failure is None and self.seen() == known

    def swap(self, revision: int, state: State) -> bool:
        """Puts another state in place of the one of this revision, and waits until it is seen."""
        try:
            now = self._keys.compare_and_swap(self.state_key, revision, state.encode())
        except FailedPrecondition:
            # Somebody else's change came first, and is about to be seen.
            self._wait_past(revision)
            return False
        self._wait_past(now - 1)
        return True

    def _wait_past(self, revision: int) -> None:
        # What is told comes within moments, unless the server goes away: then later, as all else does.
        with self._changed:
            self._changed.wait_for(
                lambda: self._revision > revision or self._failure is not None, self._interval
            )

    def close(self) -> None:
        """Ends it, and says that this node has left."""
        self._ended.set()
        self._watch.close()
        self._keys.delete(f"{self._nodes}/{self.me}")

    # What goes on.

    def _beat(self, count: int) -> None:
        self._keys.set(f"{self._nodes}/{self.me}", f"{count} {self._about}")

    def _live(self) -> None:
        count = 0
        while not self._ended.wait(self._interval):
            count += 1
            try:
                self._beat(count)
                self._bury()
            except RondoError:
                # A server that is away for longer than calls wait: who asks it for something is told.
                continue

    def _bury(self) -> None:
        """Forgets the beats of those who are dead: nobody waits for them any more."""
        with self._changed:
            state = self._state
            known = () if state is None else (*state.members, *state.expected, *state.waiting)
            silent = [node for node in self._beats.silent() if node not in known]
        for node in silent:
            self._keys.delete(f"{self._nodes}/{node}")

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for changes in self._watch:
                    self._take(changes)
            except RondoError:
                self._ended.wait(_PAUSE_S)
            if not self._ended.is_set():
                self._watch_again()

    def _watch_again(self) -> None:
        try:
            self._watch = self._keys.watch(self._watch.key)
        except RondoError:
            self._ended.wait(_PAUSE_S)

    def _take(self, changes: Changes) -> None:
        with self._changed:
            try:
                self._failure = None
                if changes.whole:
                    self._begin_anew(list(changes))
                for change in changes:
                    self._take_change(change)
            except Malformed as error:
                self._failure = error
            self._changed.notify_all()

    def _begin_anew(self, changes: list[KeyChange]) -> None:
        """All there is comes: what does not is gone."""
        numbers = {self._number(change.key) for change in changes}
        self._beats.only({number for number in numbers if number is not None})
        if self.state_key not in {change.key for change in changes}:
            self._state, self._revision = None, 0

    def _take_change(self, change: KeyChange) -> None:
        if change.value is None and self.state_key.startswith(change.key + "/"):
            # All of the rendezvous is gone.
            self._beats.only(set())
            self._state, self._revision = None, 0
            return
        if change.key == self.state_key:
            self._revision = change.revision if change.value is not None else 0
            self._state = State.decode(change.value) if change.value is not None else None
            return
        number = self._number(change.key)
        if number is None:
            return
        if change.value is None:
            self._beats.gone(number)
        else:
            self._beats.beat(number, change.revision)

    def _number(self, key: str) -> int | None:
        name = key.removeprefix(self._nodes + "/")
        return int(name) if name != key and name.isdecimal() else None
