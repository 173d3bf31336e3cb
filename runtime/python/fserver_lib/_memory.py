"""Where received tensors lie for the program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rondo.tensors import CudaTensor, HostTensor


def received(tensor: HostTensor | CudaTensor, device: str | None) -> Any:
    """What was received: on the device, in a registered buffer if there is one, or where it lies."""
    if "torch" not in sys.modules:
        return tensor.numpy()
    landed = tensor.torch()
    return landed if device is None or landed.is_cuda else landed.to(device)
