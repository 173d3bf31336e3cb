"""Records as pyarrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow

if TYPE_CHECKING:
    from rondo.tensors import HostTensor


def batch_of(stream: HostTensor) -> pyarrow.RecordBatch:
    """The one batch of an Arrow IPC stream, whose values stay where they are."""
    buffer = pyarrow.foreign_buffer(stream.pointer, stream.nbytes, stream)
    return pyarrow.ipc.open_stream(buffer).read_next_batch()
