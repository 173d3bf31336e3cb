"""Rondo in Python: the coordination of a job, data that is read exactly once, and tensors exchanged.

    import rondo

    with rondo.Agent("10.0.0.7:5050", task=3) as agent:
        agent.set("hosts/3", "10.0.0.3:7000")
        agent.barrier("ready", timeout=60)
        for batch in rondo.Reader("10.0.0.7:5050", "quakes", job="train"):
            print(len(batch), batch["magnitude"].mean())

Whatever waits lets other threads run, and ends with KeyboardInterrupt on Ctrl-C. What is refused is raised
as a RondoError, of a class for each code (`rondo.errors`).
"""

from rondo import _variables, cluster
from rondo._rondo import (
    Agent,
    Changes,
    Element,
    Exchange,
    ExchangeScheduler,
    JobState,
    KeyChange,
    KeyValueStore,
    Progress,
    Reader,
    Records,
    TaskState,
    Unit,
    Watch,
    __version__,
    delete_position,
    restore_position,
    save_position,
    trace,
)
from rondo.errors import (
    AlreadyExists,
    Cancelled,
    Code,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PeerLost,
    RondoError,
    Unavailable,
)

__all__ = [
    "Agent",
    "AlreadyExists",
    "Cancelled",
    "Changes",
    "Code",
    "DeadlineExceeded",
    "Element",
    "Exchange",
    "ExchangeScheduler",
    "FailedPrecondition",
    "InvalidArgument",
    "JobState",
    "KeyChange",
    "KeyValueStore",
    "NotFound",
    "PeerLost",
    "Progress",
    "Reader",
    "Records",
    "RondoError",
    "TaskState",
    "Unavailable",
    "Unit",
    "Watch",
    "__version__",
    "cluster",
    "delete_position",
    "restore_position",
    "save_position",
    "trace",
]

_variables.warn()
