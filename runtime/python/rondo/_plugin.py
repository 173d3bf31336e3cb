"""What torchrun finds by its entry point. It imports no torch: torch's own import of its rendezvous loads
this, which may have begun with that of `rondo.torchrun`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def handler() -> Callable[[Any], Any]:
    """How the backend's handlers are made, as `torchrun.handlers` wants it."""
    return _create


def _create(params: Any) -> Any:
    from rondo import torchrun

    return torchrun.create(params)
