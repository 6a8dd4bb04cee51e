"""Simulated runs of Linux page reclaim, old kernels and new ones, as DataFrames.

>>> import highwater
>>> highwater.compare("parallelio", scale="1/16", rows=["memcachetest"])  # doctest: +SKIP

`run` and `compare` run one experiment, `sweep` a grid, on any `concurrent.futures.Executor`; `results` reads a folder of
runs. Whatever fails is an `Error`; what was asked for wrongly an `InputError`, with the line of the grid where it has one.
"""

from ._api import compare, results, run, sweep
from ._highwater import Error, InputError, __version__

__all__ = ["Error", "InputError", "__version__", "compare", "results", "run", "sweep"]
