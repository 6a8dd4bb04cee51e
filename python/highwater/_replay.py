"""`replay`: the misses of cache policies on a trace, without time."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Iterable, Optional, Protocol, Sequence, Union

from . import _frames, _highwater
from ._highwater import InputError

Path = Union[str, "os.PathLike[str]"]

POLICIES = ("lru", "arc", "s3-fifo", "sieve", "classic", "multigen", "highwater", "optimal")
SIZES = ("1%", "2%", "5%", "10%", "20%", "50%")


class Policy(Protocol):
    """A cache policy. Highwater keeps the contents of the cache, counts, and calls the policy for many requests at a time.

    Objects are numbers from 0 in the order of their first requests.
    """

    def requested(self, objects: memoryview, hits: memoryview) -> None:
        """Tells the requests since the last call, in order: the object of each (unsigned, 32 bits), and whether it was a hit
        (bool). An object that was missed is now in the cache. `numpy.frombuffer(objects, "u4")` is an array without a copy."""

    def evict(self, count: int) -> Iterable[int]:
        """Returns the objects that leave the full cache: at least one, at most `count`, each of them in the cache, none twice.
        All requests so far were told."""


def replay(
    trace: Path,
    policies: Union[str, Callable[[int], Policy], Sequence[Union[str, Callable[[int], Policy]]]] = POLICIES,
    sizes: Union[str, int, Sequence[Union[str, int]]] = SIZES,
    *,
    warm_up: Union[str, int] = 0,
    victims: Optional[int] = None,
    format: Optional[str] = None,
    frame: str = "pandas",
) -> Any:
    """Replays a trace in caches of several policies and sizes: a line for each, as `highwater replay` counts them.

    A policy is a name that `highwater replay` knows, or your own: a class, or any callable, that makes a `Policy` from the
    number of objects that its cache holds. `sizes` are shares of all objects ("5%"), numbers, or bytes ("64M"). The first
    requests, a share or a number (`warm_up`), are not counted. `victims` says how many objects a full cache of a policy of
    your own evicts in one call, by default a 64th of its size; with 1 it is asked at each miss. `format` is a format of
    `highwater trace convert --from help`, where the file does not show it. `frame` is "pandas", "polars" or "arrow".
    """
    _frames.check(frame)
    wanted = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
    asked = [str(size) for size in ([sizes] if isinstance(sizes, (str, int)) else sizes)]
    if not wanted or not asked:
        raise InputError("expected at least one policy and one size")
    if victims is not None and victims < 1:
        raise InputError(f"victims: expected a number from 1 on, found {victims}")
    requests = _highwater.Trace(os.fspath(trace), format)
    if requests.unparsed:
        warnings.warn(f"{os.fspath(trace)}: {requests.unparsed} lines or records are not understood", stacklevel=2)
    rows: list[tuple[Any, ...]] = []
    for policy in wanted:
        if isinstance(policy, str):
            rows += requests.replay([policy], asked, str(warm_up))
        elif callable(policy):
            rows += _own(requests, policy, asked, str(warm_up), victims)
        else:
            raise InputError(f"policies: expected names, or callables that make a policy, found {policy!r}")
    names = ("policy", "size", "capacity", "requests", "misses", "miss_ratio", "byte_miss_ratio")
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    if all(ratio is None for ratio in columns["byte_miss_ratio"]):
        del columns["byte_miss_ratio"]
    return _frames.make(columns, frame)


def _own(
    requests: _highwater.Trace,
    make: Callable[[int], Policy],
    sizes: list[str],
    warm_up: str,
    victims: Optional[int],
) -> list[tuple[Any, ...]]:
    """The lines of a policy that is written in Python."""
    name = getattr(make, "__name__", type(make).__name__)
    rows = []
    for size, capacity in requests.capacities(sizes):
        at_once = max(1, capacity // 64) if victims is None else victims
        counted, misses, bytes = requests.replay_with(make(capacity), capacity, at_once, warm_up)
        rows.append((name, size, capacity, counted, misses, misses / counted, bytes))
    return rows
