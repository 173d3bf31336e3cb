"""Tensors of torch, NumPy and whatever knows DLPack, where they lie.

`describe` says what Rondo sees of a tensor, or why it cannot be exchanged; `zeros` makes memory of
Rondo's that NumPy and torch see without a copy.
"""

from rondo._rondo import CudaTensor, HostTensor, TensorInfo, describe, describe_all, tobytes, zeros

__all__ = ["CudaTensor", "HostTensor", "TensorInfo", "describe", "describe_all", "tobytes", "zeros"]
