"""StepMesh's environment variables."""

from __future__ import annotations

import dataclasses
import os
import socket
import struct
import sys
import warnings
from typing import Any

from rondo import InvalidArgument, Unavailable

_ROLES = ("worker", "server", "scheduler")
#: What names a way that is offered: all go over TCP, Unix sockets and shared memory.
_WAYS = ("", "0", "zmq", "tcp")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the environment says."""

    role: str
    workers: int
    servers: int
    group: int
    rank: int
    root_host: str
    root_port: int
    host: str
    port: int
    #: Whether to listen where other machines can reach it: there is no TLS.
    insecure: bool
    #: Where received tensors go, such as "cuda:0"; None for the host's memory.
    device: str | None
    spin: float
    bounds: dict[str, Any]


def settings() -> Settings:
    """Reads the environment."""
    role = os.environ.get("DMLC_ROLE", "server")
    if role not in _ROLES:
        raise InvalidArgument(f"DMLC_ROLE is {role!r}: one of {', '.join(_ROLES)} is wanted")
    way = os.environ.get("DMLC_ENABLE_RDMA", os.environ.get("DMLC_PS_VAN_TYPE", ""))
    if way.lower() not in _WAYS:
        warnings.warn(f"the transport {way!r} is not offered: TCP takes its place", stacklevel=3)
    group = _number("DMLC_GROUP_SIZE", 1, least=1)
    gpu = _number("STEPMESH_GPU", 0)
    root_host, root_port = _text("DMLC_PS_ROOT_URI"), _number("DMLC_PS_ROOT_PORT")
    return Settings(
        role=role,
        workers=_number("DMLC_NUM_WORKER", least=1),
        servers=_number("DMLC_NUM_SERVER", least=1),
        group=group,
        rank=_rank(role, group, gpu),
        root_host=root_host,
        root_port=root_port,
        host=_own_host(root_host, root_port),
        port=_number("DMLC_PORT", 0),
        insecure=_switch("RONDO_INSECURE"),
        device=_device(gpu),
        spin=_number("RONDO_SPIN_US", 0) / 1e6,
        bounds=_bounds(),
    )


def _text(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise InvalidArgument(f"{name} is not set: it is wanted")
    return value


def _number(name: str, default: int | None = None, *, least: int = 0) -> int:
    value = os.environ.get(name, "")
    if not value and default is not None:
        return default
    text = value or _text(name)
    if not text.isdecimal() or int(text) < least:
        raise InvalidArgument(f"{name} is {text!r}: a number from {least} on is wanted")
    return int(text)


def _switch(name: str) -> bool:
    value = os.environ.get(name, "")
    if value.lower() not in ("", "0", "1", "false", "true"):
        raise InvalidArgument(f"{name} is {value!r}: true or false is wanted")
    return value.lower() in ("1", "true")


def _rank(role: str, group: int, gpu: int) -> int:
    if role == "scheduler":
        return 0
    index = gpu + _number("DMLC_RANK_OFFSET", 0)
    rank = group * _number("DMLC_NODE_RANK", 0) + index
    instance = _number("DMLC_INSTANCE_ID", rank % group)
    if instance != rank % group:
        raise InvalidArgument(
            f"DMLC_INSTANCE_ID is {instance}, but STEPMESH_GPU and DMLC_RANK_OFFSET make this process "
            f"{rank % group} of its group of {group}"
        )
    return rank


def _own_host(root_host: str, root_port: int) -> str:
    """By which address others find this host."""
    named = os.environ.get("DMLC_NODE_HOST", "")
    if named:
        return named
    interface = os.environ.get("DMLC_INTERFACE", "auto")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            if interface not in ("", "auto"):
                return _address_of(asked, interface)
            # Sends nothing, and tells from where it would be sent.
            asked.connect((root_host, root_port))
            return str(asked.getsockname()[0])
        except OSError as error:
            raise Unavailable(
                f"no address of this host towards {root_host}:{root_port} (DMLC_INTERFACE {interface!r}): "
                f"{error}; DMLC_NODE_HOST can name one"
            ) from error


def _address_of(asked: socket.socket, interface: str) -> str:
    import fcntl

    get_address = 0x8915  # SIOCGIFADDR
    request = struct.pack("256s", interface.encode()[:15])
    return socket.inet_ntoa(fcntl.ioctl(asked.fileno(), get_address, request)[20:24])


def _device(gpu: int) -> str | None:
    """StepMesh reads the misspelt name."""
    backend = os.environ.get("STEPMESH_BAKCEND", "GPU").upper()
    if backend not in ("CPU", "GPU"):
        raise InvalidArgument(f"STEPMESH_BAKCEND is {backend!r}: CPU or GPU is wanted")
    torch = sys.modules.get("torch")
    if backend == "CPU" or torch is None or not torch.cuda.is_available():
        return None
    return f"cuda:{gpu}"


def _bounds() -> dict[str, Any]:
    """Heartbeats, where StepMesh's are switched on; else Rondo's own."""
    names = {"heartbeat_interval": "PS_HEARTBEAT_INTERVAL", "heartbeat_timeout": "PS_HEARTBEAT_TIMEOUT"}
    spans = {bound: _number(name, 0) for bound, name in names.items()}
    return {bound: float(span) for bound, span in spans.items() if span}
