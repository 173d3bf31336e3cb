"""Tensors on their way between the host's memory, where they are exchanged, and a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rondo.tensors import HostTensor


def _is_on_gpu(tensor: Any) -> bool:
    return bool(getattr(tensor, "is_cuda", False))


def sent(tensor: Any, after_stream: bool) -> Any:
    """What is sent of a tensor: itself, or a copy in pinned memory."""
    if not _is_on_gpu(tensor):
        return tensor
    import torch

    staged = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    if after_stream:
        staged.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream(tensor.device).synchronize()
        return staged
    # What the current stream still does to it is of no interest.
    stream = torch.cuda.Stream(tensor.device)
    with torch.cuda.stream(stream):
        staged.copy_(tensor, non_blocking=True)
    stream.synchronize()
    return staged


def landing(tensor: Any) -> Any:
    """Where what is received for a tensor lands: in itself, or in pinned memory."""
    if not _is_on_gpu(tensor):
        return tensor
    import torch

    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def parts(tensor: Any, count: int) -> list[Any]:
    """A tensor's bytes in equal parts."""
    import torch

    return list(tensor.view(-1).view(torch.uint8).chunk(count))


def received(tensor: HostTensor, slot: Any, device: str | None) -> Any:
    """What was received: in a registered part on a GPU, on the device, or where it lies."""
    if "torch" not in sys.modules:
        return tensor.numpy()
    landed = tensor.torch()
    if slot is not None:
        part = slot[: tensor.nbytes].view(landed.dtype).view(landed.shape)
        return part.copy_(landed)
    return landed if device is None else landed.to(device)
