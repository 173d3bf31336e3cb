"""torchrun over Rondo's coordination service. Importing this imports torch.

    rondo serve --listen 10.0.0.7:5050 --insecure
    torchrun --rdzv-backend=rondo --rdzv-endpoint=10.0.0.7:5050 --rdzv-id=RUN --nnodes=1:3 ... train.py

torchrun finds the backend by its entry point. No process of the job hosts it: any node may die, the server
may be killed and started again, and the others go on. `--rdzv-conf` takes (seconds, unless it says otherwise)

- `join_timeout` (600): how long a node waits until a round has settled with it.
- `last_call_timeout` (30): how long a round with at least the lowest number of nodes waits for more.
- `close_timeout` (30): how long a node that ends tries to say so.
- `keep_alive_interval` (5), `keep_alive_max_attempt` (3, a number): a node is lost when it has not shown
  that it lives while another has done so more than so many times.
- `connect_timeout` (60): how long the server may take to answer at first.
- `server_timeout` (600, 3600 at most): how long the server may be away until what needs it fails. Workers run
  on meanwhile.
- `store_timeout` (300): how long a get of the round's store waits.

A program may use the store by itself: `init_process_group(store=Store("10.0.0.7:5050", "RUN"), ...)`, or
after importing this, `init_method="rondo://10.0.0.7:5050/RUN?rank=0&world_size=2"`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from rondo import _rendezvous
from rondo._follower import Follower
from rondo._rendezvous import Bounds, Malformed, State
from rondo._rondo import KeyValueStore
from rondo._store import TIMEOUT, Store, run_directory
from rondo.errors import DeadlineExceeded, InvalidArgument, RondoError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DEFAULT_PORT", "Handler", "Settings", "Store", "create"]

#: Of an endpoint that names none: that of `rondo serve`.
DEFAULT_PORT = 5050
#: What torchrun itself puts among the settings.
_OF_TORCHRUN = {"rank", "timeout"}
_log = logging.getLogger("rondo.torchrun")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What `--rdzv-conf` may say: see the module."""

    join_timeout: float = 600.0
    last_call_timeout: float = 30.0
    close_timeout: float = 30.0
    keep_alive_interval: float = 5.0
    keep_alive_max_attempt: int = 3
    connect_timeout: float = 60.0
    server_timeout: float = 600.0
    store_timeout: float = TIMEOUT.total_seconds()

    @staticmethod
    def of(given: dict[str, Any]) -> Settings:
        """From texts as torchrun gives them. ValueError for what is unknown, or no number above zero."""
        kinds: dict[str, type] = {name: type(it) for name, it in dataclasses.asdict(Settings()).items()}
        known: dict[str, Any] = {}
        for name in given.keys() - _OF_TORCHRUN:
            if name not in kinds:
                raise ValueError(f"--rdzv-conf {name}: rondo knows {', '.join(sorted(kinds))}")
            try:
                known[name] = kinds[name](given[name])
            except (TypeError, ValueError):
                known[name] = 0
            if not known[name] > 0:
                raise ValueError(f"--rdzv-conf {name}={given[name]}: a number above zero is wanted")
        return Settings(**known)


class Handler(RendezvousHandler):
    """A node's side of a rendezvous at Rondo's coordination service."""

    def __init__(
        self,
        server: str,
        run_id: str,
        bounds: Bounds,
        *,
        local_addr: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._run_id = run_id
        self._bounds = bounds
        self._address = local_addr or socket.getfqdn()
        #: The round that this node is, or was last, a member of.
        self._round = 0
        self._where = f"the run {run_id!r} at {server}"
        about = f"{self._address} {os.getpid()}"
        interval, attempts = self._settings.keep_alive_interval, self._settings.keep_alive_max_attempt
        with _rendezvous_errors():
            self._directory = run_directory(run_id)
            self._keys = KeyValueStore(
                server,
                connect_timeout=self._settings.connect_timeout,
                patience=self._settings.server_timeout,
            )
            self._follower = Follower(
                self._keys, f"{self._directory}/rendezvous", about, interval, attempts
            )

    def get_backend(self) -> str:
        return "rondo"

    @property
    def use_agent_store(self) -> bool:
        # The first worker hosts its own: so it dies with its node and no other's.
        return False

    def get_run_id(self) -> str:
        return self._run_id

    def next_rendezvous(self) -> RendezvousInfo:
        with _rendezvous_errors():
            try:
                state = self._join()
            except RondoError:
                # The server is away: it cannot be told either.
                raise
            except BaseException:
                self._in_time(self._step_back, "waits no more")
                raise
            rank = state.members.index(self._follower.me)
            self._round = state.round
            _log.info("round %d of %s has settled: this is node %d of %d, of the rank %d",
                      state.round, self._where, self._follower.me, len(state.members), rank)
            if rank == 0:
                self._forget_rounds_before(state.round)
            store = Store(
                self._keys,
                directory=f"{self._directory}/rounds/{state.round}",
                timeout=timedelta(seconds=self._settings.store_timeout),
            )
            bootstrap = RendezvousStoreInfo.build(rank, store, local_addr=self._address)
        return RendezvousInfo(store, rank, len(state.members), bootstrap)

    def is_closed(self) -> bool:
        with _rendezvous_errors():
            state, _, _ = self._follower.seen()
        return state is not None and state.closed

    def set_closed(self) -> None:
        with _rendezvous_errors():
            self._change(lambda state: _rendezvous.closed(state, self._follower.me))

    def num_nodes_waiting(self) -> int:
        # What is known is asked, and not the server: workers run on while that is away.
        with _rendezvous_errors():
            state, _, lost = self._follower.seen()
        if state is None:
            # Whoever has cleared the namespace has ended the round.
            return 1
        return _rendezvous.wanting(state, self._round, lost, self._bounds)

    def shutdown(self) -> bool:
        return self._in_time(self._end, "has ended")

    def _in_time(self, tell: Callable[[], None], what: str) -> bool:
        """Tells the server something within the time for it: if that is away, nothing waits for it."""
        told = threading.Event()

        def run() -> None:
            try:
                tell()
                told.set()
            except (RondoError, Malformed) as error:
                _log.warning("%s was not told that this node %s: %s", self._where, what, error)

        telling = threading.Thread(target=run, name="rondo-telling", daemon=True)
        telling.start()
        telling.join(self._settings.close_timeout)
        if telling.is_alive():
            seconds = self._settings.close_timeout
            _log.warning("%s was not told within %s s that this node %s", self._where, seconds, what)
        return told.is_set()

    def _end(self) -> None:
        state = self._change(lambda state: _rendezvous.closed(state, self._follower.me))
        self._follower.close()
        if _rendezvous.is_over(state):
            # That it is closed stays: whoever comes late must not begin it again.
            self._keys.delete(f"{self._directory}/rounds")
            self._keys.delete(f"{self._directory}/rendezvous/nodes")

    def _join(self) -> State:
        me, bounds, settings = self._follower.me, self._bounds, self._settings
        deadline = time.monotonic() + settings.join_timeout
        called: tuple[int, float] | None = None
        while True:
            known = self._follower.seen()
            state, revision, lost = known
            state = state or State()
            self._check_open(state, deadline)
            if state.settled and me in state.members and state.round > self._round:
                return state
            # A member of a round that was settled without this process knowing of it asks for the next.
            wanted = _rendezvous.joined(state, me, self._round, bounds, lost)
            until = deadline
            if _rendezvous.can_settle(wanted, bounds):
                called = called if called and called[0] == wanted.round else (wanted.round, time.monotonic())
                until = min(deadline, called[1] + settings.last_call_timeout)
                if time.monotonic() >= until:
                    wanted = _rendezvous.settled(wanted)
            else:
                called = None
            if wanted == state:
                self._follower.wait(known, max(0.0, until - time.monotonic()))
            else:
                self._follower.swap(revision, wanted)

    def _check_open(self, state: State, deadline: float) -> None:
        if state.closed:
            full = len(state.members) >= self._bounds.max_nodes
            if self._follower.me in state.waiting and full:
                raise RendezvousGracefulExitError(f"{self._where} ended while this node was to spare")
            raise RendezvousClosedError(
                f"{self._where} is closed: its job has ended. Give another job another --rdzv-id"
            )
        if time.monotonic() > deadline:
            raise RendezvousTimeoutError(
                f"{self._where} had no round for this node within {self._settings.join_timeout} s "
                f"(--rdzv-conf join_timeout): {len(state.members)} nodes have come, "
                f"{self._bounds.min_nodes} to {self._bounds.max_nodes} are wanted; "
                f"{len(state.expected)} of the round before are expected, {len(state.waiting)} wait"
            )

    def _step_back(self) -> None:
        """Whoever waits no more must not be waited for. If that cannot be said, the silence will."""
        state, _, _ = self._follower.seen()
        if state is not None and not state.closed:
            self._change(lambda state: _rendezvous.stepped_back(state, self._follower.me))

    def _change(self, change: Callable[[State], State]) -> State:
        """Makes a change to whatever state there is."""
        while True:
            state, revision, _ = self._follower.seen()
            wanted = change(state or State())
            if wanted == state or self._follower.swap(revision, wanted):
                return wanted

    def _forget_rounds_before(self, round: int) -> None:
        for path in self._keys.directory(f"{self._directory}/rounds"):
            before = path.removeprefix(f"{self._directory}/rounds/").split("/")[0]
            if before.isdecimal() and int(before) < round:
                self._keys.delete(f"{self._directory}/rounds/{before}")


@contextlib.contextmanager
def _rendezvous_errors() -> Iterator[None]:
    """What is refused, as torchrun knows it."""
    try:
        yield
    except Malformed as error:
        raise RendezvousStateError(str(error)) from error
    except (Unavailable, DeadlineExceeded, dist.DistNetworkError) as error:
        raise RendezvousConnectionError(str(error)) from error
    except RondoError as error:
        raise RendezvousError(str(error)) from error


def create(params: RendezvousParameters) -> Handler:
    """The handler that torchrun's settings ask for."""
    bounds = Bounds(params.min_nodes, params.max_nodes)
    settings = Settings.of(params.config)
    server = _server(params.endpoint)
    return Handler(server, params.run_id, bounds, local_addr=params.local_addr, settings=settings)


def _server(endpoint: str) -> str:
    """`HOST[:PORT]`, of IPv6 in brackets, with a port."""
    parts = urlsplit("//" + (endpoint.strip() or "localhost"))
    try:
        port = parts.port
    except ValueError:
        port = 0
    if not parts.hostname or port == 0 or parts.path:
        raise ValueError(f"--rdzv-endpoint={endpoint}: HOST or HOST:PORT is wanted, where rondo serve is")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port or DEFAULT_PORT}"


def _by_url(url: str, timeout: timedelta = TIMEOUT, **_given: Any) -> Iterator[tuple[Store, int, int]]:
    """What torch calls for `init_method="rondo://HOST:PORT/RUN?rank=R&world_size=N"`."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    run_id = unquote(parts.path.removeprefix("/"))
    wanted = "rondo://HOST:PORT/RUN?rank=R&world_size=N is wanted"
    if not parts.netloc or not run_id or not {"rank", "world_size"} <= query.keys():
        raise InvalidArgument(f"{url}: {wanted}")
    try:
        rank, size = int(query["rank"]), int(query["world_size"])
    except ValueError:
        raise InvalidArgument(f"{url}: {wanted}, R and N numbers") from None
    yield Store(_server(parts.netloc), run_id, timeout=timeout), rank, size
    raise RuntimeError(f"{url} names one group of processes: give another group another RUN")


dist.register_rendezvous_handler("rondo", _by_url)
