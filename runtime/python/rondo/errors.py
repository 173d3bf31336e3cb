"""What is refused, as exceptions: a class for each code, with the text that Rust has.

Each is a RondoError, and that a RuntimeError. Those that Python has a word for are that too:
DeadlineExceeded is a TimeoutError, InvalidArgument a ValueError, Unavailable a ConnectionError.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Code(enum.IntEnum):
    """The code of a refusal: gRPC's numbers."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RondoError(RuntimeError):
    """A refusal. `str` of it is the text; `code` says of which kind it is."""

    code: ClassVar[Code] = Code.UNKNOWN

    #: The task of the job that the refusal comes from, if it comes from one.
    task: int | None = None

    #: Of which kind it is where a cluster was looked for (`rondo.cluster`), such as "not_ready".
    fault: str | None = None


class Cancelled(RondoError):
    """The caller gave up, or the server shuts down."""

    code = Code.CANCELLED


class Unknown(RondoError):
    """Of unknown kind."""


class InvalidArgument(RondoError, ValueError):
    """The request is wrong whatever the state."""

    code = Code.INVALID_ARGUMENT


class DeadlineExceeded(RondoError, TimeoutError):
    """Not done in time."""

    code = Code.DEADLINE_EXCEEDED


class NotFound(RondoError):
    """What the request names does not exist."""

    code = Code.NOT_FOUND


class AlreadyExists(RondoError):
    """What the request would create exists."""

    code = Code.ALREADY_EXISTS


class PermissionDenied(RondoError):
    """Not allowed."""

    code = Code.PERMISSION_DENIED


class ResourceExhausted(RondoError):
    """A bound is reached."""

    code = Code.RESOURCE_EXHAUSTED


class FailedPrecondition(RondoError):
    """The request is wrong in the present state."""

    code = Code.FAILED_PRECONDITION


class Aborted(RondoError):
    """Given up because of a concurrent request; try again."""

    code = Code.ABORTED


class OutOfRange(RondoError):
    """Past the valid range."""

    code = Code.OUT_OF_RANGE


class Unimplemented(RondoError, NotImplementedError):
    """Not offered."""

    code = Code.UNIMPLEMENTED


class Internal(RondoError):
    """Broken on Rondo's side."""

    code = Code.INTERNAL


class Unavailable(RondoError, ConnectionError):
    """Not now; try again."""

    code = Code.UNAVAILABLE


class PeerLost(Unavailable):
    """Another process is gone: a `task` of the job, or one of the exchange with this `role` and `rank`."""

    role: str | None = None
    rank: int | None = None
    address: str | None = None


class DataLoss(RondoError):
    """Data is lost for good."""

    code = Code.DATA_LOSS


class Unauthenticated(RondoError):
    """Who asks is not known."""

    code = Code.UNAUTHENTICATED


_CLASSES: dict[int, type[RondoError]] = {
    kind.code: kind
    for kind in (
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    )
}


def _of(code: int, message: str, task: int | None) -> RondoError:
    """The exception of a refusal of the library."""
    kind = _CLASSES.get(code, Unknown)
    if kind is Unavailable and task is not None:
        kind = PeerLost
    error = kind(message)
    error.task = task
    return error


def _lost(message: str, role: str, rank: int, address: str) -> PeerLost:
    """The exception of a process of an exchange that is gone."""
    error = PeerLost(message)
    error.role, error.rank, error.address = role, rank, address or None
    return error


def _code_number(name: str) -> int:
    """The number of the code with this name."""
    try:
        return int(Code[name.upper()])
    except KeyError:
        names = ", ".join(code.name for code in Code)
        raise InvalidArgument(f"{name!r} is no code: one of {names} is wanted") from None
