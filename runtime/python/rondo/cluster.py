"""Which cluster this process is in, and what its place there is.

    from rondo import cluster

    found = cluster.find()                          # TF_CONFIG, torchrun, Slurm, Kubernetes, ...
    print(found.source, found.rank, found.size, found.coordinator)
    jax.distributed.initialize(found.coordinator, found.size, found.rank)

    resolver = cluster.Resolver("kubernetes", job_to_label_mapping={"worker": ["job-name=train"]})
    resolver.cluster_spec(), resolver.master("worker", 0), resolver.num_accelerators()

`find` is what to go by, and `detect` what became of every source; `Resolver` asks one of them, anew with
every call, as TensorFlow's ClusterResolver does. Nothing is kept and nothing is changed. Sources, resolvers
and their settings are those of `rondo cluster` (docs/cluster.md). Calls let other threads run, and Ctrl-C
ends them.

What is refused is a RondoError whose `fault` says of which kind it is: not_present, malformed, conflict,
placement_unknown, not_ready, unreachable, forbidden, no_such_task, too_large or unsupported.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rondo import _rondo, errors
from rondo.errors import RondoError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Cluster", "ClusterSpec", "Detection", "Resolver", "Source", "detect", "find"]

#: Jobs with their tasks' addresses: a list, or where indices have holes, by index as a text.
ClusterSpec: TypeAlias = dict[str, list[str] | dict[str, str]]

_CLASSES: dict[str, type[RondoError]] = {
    "not_present": errors.NotFound,
    "malformed": errors.InvalidArgument,
    "conflict": errors.FailedPrecondition,
    "placement_unknown": errors.FailedPrecondition,
    "not_ready": errors.Unavailable,
    "unreachable": errors.Unavailable,
    "forbidden": errors.PermissionDenied,
    "no_such_task": errors.NotFound,
    "too_large": errors.ResourceExhausted,
    "unsupported": errors.Unimplemented,
}


@dataclasses.dataclass(frozen=True)
class Source:
    """A source of clusters and what became of it."""

    #: Such as "tf_config" or "slurm".
    name: str
    #: The first that is there is chosen, others are shadowed; one that makes no sense is broken. Those that
    #: cost requests are not asked where another one is there.
    verdict: Literal["chosen", "shadowed", "absent", "not_asked", "broken"]
    #: What is missing or wrong, for people; None of one that is there.
    why: str | None
    #: Of which kind that is.
    fault: str | None
    #: What it tells, as `rondo cluster --format json` has it; None of one that is not there.
    finding: dict[str, Any] | None


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What the chosen source tells. What it does not tell is None."""

    #: The source's name.
    source: str
    #: All jobs with their tasks.
    spec: ClusterSpec | None
    #: This process's job, and its index there.
    task_type: str | None
    task_id: int | None
    #: What stands before addresses as `LAYER://`.
    rpc_layer: str | None
    #: The address of this process's session master.
    master: str | None
    #: Where process 0 listens, "host:port".
    coordinator: str | None
    #: Processes, and which of them this is.
    size: int | None
    rank: int | None
    #: Processes of this host, and which of them this is.
    local_size: int | None
    local_rank: int | None
    #: Hosts, which of them this is, and how many processes are started on each.
    nodes: int | None
    node_rank: int | None
    per_node: int | None
    #: GPUs that are this process's own, as CUDA_VISIBLE_DEVICES names them.
    gpus: list[str] | None
    #: What is odd about the source.
    notes: list[str]
    #: How many accelerators this process has, by type; None where nobody can tell.
    accelerators: dict[str, int] | None
    _answers: dict[str, Any] = dataclasses.field(repr=False, compare=False)

    @property
    def server(self) -> str:
        """Where Rondo's server is: the first task of a job `rondo` or `dispatcher` of the spec, else the host
        of the coordinator. NotFound where that is not told."""
        return str(_found(self._answers["server"]))

    @property
    def task(self) -> int:
        """This process's number among all, as Rondo counts them: its rank. NotFound where it is not told."""
        return int(_found(self._answers["task"]))

    @property
    def tasks(self) -> int:
        """How many tasks there are, the server's not counted. NotFound where that is not told."""
        return int(_found(self._answers["tasks"]))

    def tf_config(self) -> str:
        """The value of TF_CONFIG. NotFound where there is no spec."""
        return str(_found(self._answers["as_tf_config"])).rstrip("\n")

    def jax(self) -> dict[str, str]:
        """Variables of JAX. NotFound where coordinator, rank or size is not told."""
        return self._variables("as_jax")

    def torchrun(self) -> dict[str, str]:
        """Variables of `env://`, and PET_ ones of torchrun where the node is told. NotFound as for jax()."""
        return self._variables("as_torchrun")

    def env(self) -> dict[str, str]:
        """All that is known, as variables of Rondo's own."""
        return self._variables("as_env")

    def _variables(self, form: str) -> dict[str, str]:
        # As a shell reads them: a value may have lines of its own.
        words = shlex.split(str(_found(self._answers[form])))
        pairs = (word.split("=", 1) for word in words if word != "export")
        return {name: value for name, value in pairs}


@dataclasses.dataclass(frozen=True)
class Detection:
    """All sources in order, and what the chosen one tells."""

    #: None where no source is there.
    chosen: Cluster | None
    sources: list[Source]
    #: Where sources do not agree with the chosen one, for people.
    contradictions: list[str]
    #: What comes nearest where no source is there, for people.
    hints: list[str]
    _settled: dict[str, Any] = dataclasses.field(repr=False, compare=False)

    def settled(self) -> Cluster:
        """What to go by: NotFound where no source is there, FailedPrecondition where two contradict each
        other, and the failure of one that is there and comes first."""
        _found(self._settled)
        if self.chosen is None:
            hints = f" ({'; '.join(self.hints)})" if self.hints else ""
            text = f"nothing tells of a cluster{hints}: `rondo cluster` shows what each source misses"
            raise _refused("not_present", text)
        return self.chosen


def detect(
    resolver: str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    port: int = 8470,
    server_port: int = 5050,
    api_server: str | None = None,
    namespace: str | None = None,
    all: bool = False,
    timeout: float = 10.0,
    request_timeout: float = 3.0,
    root: str = "/",
    environment: Mapping[str, str] | None = None,
) -> Detection:
    """Looks at all sources.

    - `resolver`, `settings`: takes this one, whatever the environment says.
    - `port`: where tasks listen, for sources that tell hosts only. `server_port`: where Rondo's server does.
    - `api_server`, `namespace`: of Kubernetes, instead of the pod's own.
    - `all`: asks sources that cost requests even where another one was found.
    - `timeout`: seconds, in all; what is not ready or does not answer is asked again until then.
      `request_timeout`: for one request, name or file.
    - `root`: files and devices are looked for below it. `environment`: instead of the process's own.
    """
    explicit = None if resolver is None else json.dumps({"resolver": resolver, **(settings or {})})
    sources = {
        "explicit": explicit,
        "port": port,
        "server_port": server_port,
        "api_server": api_server,
        "namespace": namespace,
        "asks_all": all,
    }
    looking = _looking(timeout, request_timeout, root, environment)
    document = _found(json.loads(_rondo._detect_cluster(sources, looking)))
    report = document["report"]
    members = [
        Source(it["source"], it["verdict"], it["why"], it["fault"], it["finding"])
        for it in report["sources"]
    ]
    findings = (source.finding for source in members if source.verdict == "chosen")
    finding = next(findings, None)
    chosen = None if finding is None else _cluster(finding, document)
    return Detection(
        chosen, members, report["contradictions"], report["hints"], document["settled"]
    )


def _cluster(finding: dict[str, Any], document: dict[str, Any]) -> Cluster:
    told = dict(finding, spec=finding["cluster_spec"])
    names = {field.name for field in dataclasses.fields(Cluster)} - {"accelerators", "_answers"}
    accelerators = document["accelerators"].get("found")
    known = {name: told[name] for name in names}
    return Cluster(accelerators=accelerators, _answers=document, **known)


def find(
    resolver: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **how: Any,
) -> Cluster:
    """The cluster to go by, as `rondo cluster` finds it; `how` are the keywords of `detect`.

    NotFound where nothing tells of one, FailedPrecondition where two sources contradict each other, and what
    is wrong with a source that is there and comes first.
    """
    return detect(resolver, settings, **how).settled()


class Resolver:
    """A resolver, by its name and settings: `Resolver("slurm", port_base=7000)`. Every call asks anew.

    The interface is that of TensorFlow's ClusterResolver, with plain dicts in place of its ClusterSpec.
    """

    def __init__(
        self,
        name: str,
        *,
        look: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`look` has the keywords of `detect` that say how: timeout, request_timeout, root, environment."""
        self.name = name
        self._settings = json.dumps({**settings, "resolver": name})
        self._looking = _looking(**{"timeout": 10.0, "request_timeout": 3.0, "root": "/",
                                    "environment": None, **(look or {})})
        self._resolver = _rondo._Resolver()
        _found(json.loads(self._resolver.describe(self._settings)))

    def cluster_spec(self) -> ClusterSpec:
        """All jobs with their tasks, as they are now."""
        spec: ClusterSpec = self._ask("cluster_spec")
        return spec

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of the session's master: of this task, or of the process's own."""
        return str(self._ask("master", task_type=task_type, task_id=task_id, rpc_layer=rpc_layer))

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        device_count: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """How many accelerators a task has, by type; `device_count` is ConfigProto's: the most of each."""
        most = None if device_count is None else dict(device_count)
        counts: dict[str, int] = self._ask(
            "num_accelerators", task_type=task_type, task_id=task_id, device_count=most
        )
        return counts

    @property
    def task_type(self) -> str | None:
        """This process's job; Slurm's is known once the cluster spec was asked for, as TensorFlow has it.
        Where the resolver does not give it, it may be set: Unimplemented else."""
        task_type: str | None = self._ask("task_type")
        return task_type

    @task_type.setter
    def task_type(self, task_type: str) -> None:
        _found(json.loads(self._resolver.set_task(task_type=task_type)))

    @property
    def task_id(self) -> int | None:
        """Its index there. As task_type."""
        task_id: int | None = self._ask("task_id")
        return task_id

    @task_id.setter
    def task_id(self, task_id: int) -> None:
        _found(json.loads(self._resolver.set_task(task_id=task_id)))

    @property
    def rpc_layer(self) -> str | None:
        """What stands before addresses."""
        rpc_layer: str | None = self._ask("rpc_layer")
        return rpc_layer

    @property
    def environment(self) -> str | None:
        """The environment that the process runs in, such as "cloud"; usually empty."""
        environment: str | None = self._ask("environment")
        return environment

    def _ask(self, question: str, **of: Any) -> Any:
        none = {"task_type": None, "task_id": None, "rpc_layer": None, "device_count": None}
        asked = {"question": question, **none, **of}
        return _found(json.loads(self._resolver.ask(asked, self._looking)))

    def __repr__(self) -> str:
        return f"<rondo.cluster.Resolver {self._settings}>"


def _looking(
    timeout: float,
    request_timeout: float,
    root: str,
    environment: Mapping[str, str] | None,
) -> dict[str, Any]:
    given = None if environment is None else dict(environment)
    return {"timeout": timeout, "request_timeout": request_timeout, "root": root, "environment": given}


def _found(answer: dict[str, Any]) -> Any:
    if "fault" in answer:
        raise _refused(answer["fault"], answer["why"])
    return answer["found"]


def _refused(fault: str, why: str) -> RondoError:
    error = _CLASSES[fault](why)
    error.fault = fault
    return error


def _of(cluster: Cluster | str) -> Cluster:
    """The cluster that `cluster=` of an Agent or a Reader means."""
    if isinstance(cluster, Cluster):
        return cluster
    if not isinstance(cluster, str):
        wanted = '"auto", a resolver\'s name or a Cluster is wanted'
        raise errors.InvalidArgument(f"cluster={cluster!r}: {wanted}")
    return find(None if cluster == "auto" else cluster)
