"""Simulated runs of Linux page reclaim, old kernels and new ones, as DataFrames.

>>> import highwater
>>> highwater.compare("parallelio", scale="1/16", rows=["memcachetest"])  # doctest: +SKIP

`run` and `compare` run one experiment, `sweep` a grid, on any `concurrent.futures.Executor`; `results` reads a folder of
runs. `replay` runs a trace in caches of several policies, also of your own. Whatever fails is an `Error`; what was asked for wrongly an `InputError`, with the line of the grid where it has one.
"""

from ._api import compare, results, run, sweep
from ._highwater import Error, InputError, __version__
from ._replay import Policy, replay

__all__ = ["Error", "InputError", "Policy", "__version__", "compare", "replay", "results", "run", "sweep"]
