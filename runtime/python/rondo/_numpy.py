"""Arrays of NumPy that the library cannot make itself."""

from __future__ import annotations

from typing import Any

import numpy


def objects(values: list[Any], shape: list[int]) -> numpy.ndarray[Any, Any]:
    """An array of objects, such as texts."""
    array = numpy.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)
