"""Warnings of environment variables that nearly have the name of a setting."""

from __future__ import annotations

import warnings

from rondo._rondo import _mistyped_variables

_has_warned = False


def warn() -> None:
    """Warns of each variable that looks mistyped, once per process, at the line that imports `rondo`."""
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    for text in _mistyped_variables():
        # This function, `rondo/__init__.py`, its importer. Python does not count the frames of an import.
        warnings.warn(text, UserWarning, stacklevel=3)
