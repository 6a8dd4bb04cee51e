"""What a worker of an executor calls, on whatever computer it is."""

from __future__ import annotations

import functools
from typing import Optional

from . import _highwater


@functools.lru_cache(maxsize=4)
def _sweep(text: str, name: str) -> _highwater.Sweep:
    return _highwater.Sweep(text, name)


def run_one(text: str, name: str, number: int, store: Optional[str] = None) -> bytes:
    """Does one run of a sweep and returns its file. A folder `store` that this worker sees, too, keeps it at once."""
    return _sweep(text, name).run_one(number, store)
