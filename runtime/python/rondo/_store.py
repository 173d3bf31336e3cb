"""A store of torch.distributed over Rondo's coordination service. `rondo.torchrun` shows it."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import torch.distributed as dist

from rondo._rondo import KeyValueStore
from rondo.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Under it are all keys of torch, by run.
ROOT = "torch"
#: How long a get or a wait takes at most, unless it is said: as TCPStore.
TIMEOUT = timedelta(seconds=300)
#: The name of the empty key: `quote` never makes it.
_EMPTY = "%"
#: Every store there is. C++ keeps of one that it was given no more than its own half, which can do nothing
#: when Python's is gone; and when C++ has done with it, it does not say.
_KEPT: list[Store] = []


def run_directory(run_id: str) -> str:
    """Where the keys of a run are."""
    if not run_id:
        raise InvalidArgument("the run id is empty: give one that no other run has (--rdzv-id)")
    return f"{ROOT}/{quote(run_id, safe='')}"


class Store(dist.Store):
    """A store whose keys are those of a directory of a namespace: `torch/<run id>/store`, or `directory`.

    It does what TCPStore does, without a process that hosts it: keys outlive a restart of the server, calls
    wait for it for `patience` seconds, and each happens once. `timeout` bounds what get and wait wait for.
    Values are of 256 MiB at most (`rondo serve --value-size-max`), keys of 4 KiB with their directory, each
    byte that is no letter, digit or one of `_.-~` counted as three.
    """

    def __init__(
        self,
        server: str | KeyValueStore,
        run_id: str = "",
        *,
        directory: str | None = None,
        timeout: timedelta = TIMEOUT,
        connect_timeout: float = 60.0,
        patience: float = 600.0,
    ) -> None:
        super().__init__()
        self.directory = directory if directory is not None else run_directory(run_id) + "/store"
        self.set_timeout(timeout)
        if isinstance(server, KeyValueStore):
            self.keys = server
        else:
            with _torch_errors():
                self.keys = KeyValueStore(server, connect_timeout=connect_timeout, patience=patience)
        _KEPT.append(self)

    def _path(self, key: str) -> str:
        # A key of torch is one name: what is under another key is not deleted with it.
        return f"{self.directory}/{quote(key, safe='') or _EMPTY}"

    def set(self, key: str, value: str | bytes) -> None:
        """Puts a key, there or not."""
        with _torch_errors():
            self.keys.set(self._path(key), _bytes(value))

    def get(self, key: str) -> bytes:
        """A key's value, waited for until it is there: DistStoreError after the timeout."""
        return self._awaited([key], self._timeout())[0]

    def add(self, key: str, amount: int) -> int:
        """Adds to a key's decimal number, 0 when it is not there, and returns the sum."""
        with _torch_errors():
            return self.keys.increment(self._path(key), amount)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now."""
        with _torch_errors():
            return all(self.keys.try_get(self._path(key)) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are there: DistStoreError after the timeout."""
        self._awaited(keys, self._timeout() if timeout is None else timeout)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Gives a key another value if it has the expected one, or is not there and none is expected.

        Returns what it has then; what was expected, if it is not there.
        """
        expected, desired, path = _bytes(expected_value), _bytes(desired_value), self._path(key)
        with _torch_errors():
            while True:
                found = self.keys.read(path)
                if found is None and expected:
                    return expected
                value, revision = found or (b"", 0)
                if revision and value != expected:
                    return value
                if self._swapped(path, revision, desired):
                    return desired

    def append(self, key: str, value: str | bytes) -> None:
        """Puts a value behind what the key has."""
        more, path = _bytes(value), self._path(key)
        with _torch_errors():
            while True:
                before, revision = self.keys.read(path) or (b"", 0)
                if self._swapped(path, revision, before + more):
                    return

    def _swapped(self, path: str, revision: int, value: bytes) -> bool:
        try:
            self.keys.compare_and_swap(path, revision, value)
        except FailedPrecondition:
            # Somebody else's change came first.
            return False
        return True

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The keys' values, waited for together: DistStoreError after the timeout."""
        return self._awaited(keys, self._timeout())

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Puts keys, one after the other."""
        if len(keys) != len(values):
            raise InvalidArgument(f"{len(keys)} keys and {len(values)} values: as many are wanted")
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """There are append, multi_get and multi_set."""
        return True

    def delete_key(self, key: str) -> bool:
        """Deletes a key, and says whether it was there."""
        path = self._path(key)
        with _torch_errors():
            was_there = self.keys.try_get(path) is not None
            self.keys.delete(path)
        return was_there

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self.list_keys())

    def list_keys(self) -> list[str]:
        """All keys."""
        with _torch_errors():
            names = [path.rsplit("/", 1)[1] for path in self.keys.directory(self.directory)]
        return ["" if name == _EMPTY else unquote(name) for name in names]

    # What C++ calls the two.
    deleteKey = delete_key
    getNumKeys = num_keys

    def clone(self) -> Store:
        """The same store, by the same connection."""
        return Store(self.keys, directory=self.directory, timeout=self._timeout())

    def _timeout(self) -> timedelta:
        # Torch's own, which its stubs do not have.
        timeout: timedelta = getattr(self, "timeout")
        return timeout

    def _awaited(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        deadline = time.monotonic() + timeout.total_seconds()
        values = []
        for key in keys:
            left = max(0.0, deadline - time.monotonic())
            try:
                with _torch_errors():
                    values.append(self.keys.get(self._path(key), timeout=left))
            except DeadlineExceeded as error:
                raise dist.DistStoreError(
                    f"wait timeout after {round(timeout.total_seconds() * 1000)}ms: the key {key!r} is not "
                    f"in {self.directory} of {self.keys.server}"
                ) from error
        return values


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


@contextlib.contextmanager
def _torch_errors() -> Iterator[None]:
    """A server that is not there is what torch has an error for."""
    try:
        yield
    except Unavailable as error:
        raise dist.DistNetworkError(str(error)) from error
