"""`run`, `compare`, `sweep` and `results`."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import tempfile
from concurrent.futures import Executor, Future
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from . import _frames, _highwater, _worker
from ._grid import Grid, text_of
from ._highwater import Error

Path = Union[str, "os.PathLike[str]"]
Words = Union[str, Sequence[str]]


def run(
    experiment: str,
    kernel: str,
    *,
    seed: int = 1,
    runs: int = 1,
    scale: Union[str, float, None] = None,
    machine: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    rows: Words = (),
    store: Optional[Path] = None,
    jobs: Optional[int] = None,
    frame: str = "pandas",
) -> Any:
    """Runs an experiment with one kernel: a line for each figure of each seed.

    The arguments are those of `highwater run`. `set` changes values by key; where a key has a list of values, each
    combination is run. `store` is a folder that keeps what was found; what is there is not done again. `jobs` simulations
    run at a time, by default one on each CPU. `frame` is "pandas", "polars" or "arrow".
    """
    grid = _grid(experiment, [kernel], seed, runs, scale, machine, set)
    return _here(grid, rows, store, jobs, frame, lambda plan, folder, words: plan.frame(folder, words))


def compare(
    experiment: str,
    kernels: Words = (),
    *,
    seed: int = 1,
    runs: int = 1,
    scale: Union[str, float, None] = None,
    machine: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    rows: Words = (),
    store: Optional[Path] = None,
    jobs: Optional[int] = None,
    frame: str = "pandas",
) -> Any:
    """Runs an experiment with several kernels, by default its own: the table of `highwater compare`.

    A line for each row of the report (`group`, `name`, `unit`), a column for each kernel with each combination of `set`,
    the median over the seeds in it. The other arguments are those of `run`.
    """
    grid = _grid(experiment, kernels, seed, runs, scale, machine, set)
    return _here(grid, rows, store, jobs, frame, lambda plan, folder, words: plan.tables(folder, words)[0])


def sweep(
    grid: Grid,
    *,
    executor: Union[Executor, Callable[[], Executor], None] = None,
    store: Optional[Path] = None,
    rows: Words = (),
    retries: int = 3,
    jobs: Optional[int] = None,
    frame: str = "pandas",
    progress: Optional[Callable[[int, int], None]] = None,
) -> Any:
    """Runs a grid, cut by run: a line for each figure of each run, in the order of the grid.

    `grid` is the path of a sweep's file or a mapping with its keys. `executor` is any `concurrent.futures.Executor`, or
    what makes one; by default `jobs` processes (spawned, so that a script needs its `if __name__ == "__main__":`). A run
    whose worker is lost is done again, up to `retries` times; a run that fails is not, and an `Error` says which ones did
    once all others are done. With `store`, what is there is not done again, also after this process was killed. Where the
    sweep ends early, as by Ctrl-C, runs that wait for a worker are cancelled; jobs of Slurm go on.
    `progress` is called with how many runs are there, and of how many.
    """
    _frames.check(frame)
    text, name = text_of(grid)
    plan = _highwater.Sweep(text, name)
    with _folder(store) as folder:
        _complete(plan, text, name, folder, executor, retries, jobs, progress)
        return _frames.make(plan.frame(folder, _words(rows)), frame)


def results(store: Path, where: Optional[Mapping[str, Any]] = None, *, rows: Words = (), frame: str = "pandas") -> Any:
    """What a folder of runs holds: a line for each figure of each run.

    `where` chooses runs by `experiment`, `kernel`, `machine`, `scale`, `seed` or a key that was set: a value, or several.
    """
    _frames.check(frame)
    wanted = []
    for key, value in (where or {}).items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        wanted.append(f"{key}={','.join(map(str, values))}")
    return _frames.make(_highwater.stored(os.fspath(store), wanted, _words(rows)), frame)


def _words(words: Words) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


def _grid(
    experiment: str,
    kernels: Words,
    seed: int,
    runs: int,
    scale: Union[str, float, None],
    machine: Optional[str],
    set: Optional[Mapping[str, Any]],
) -> dict[str, Any]:
    kernels = _words(kernels)
    grid = {"experiments": experiment, "kernels": kernels or None, "machines": machine, "scales": scale}
    return {**grid, "seed": seed, "runs": runs, "set": set}


def _here(
    grid: Mapping[str, Any],
    rows: Words,
    store: Optional[Path],
    jobs: Optional[int],
    frame: str,
    columns: Callable[[_highwater.Sweep, str, list[str]], dict[str, list[Any]]],
) -> Any:
    """Runs a grid on threads of this process, which simulate without Python's lock."""
    _frames.check(frame)
    text, name = text_of(grid)
    plan = _highwater.Sweep(text, name)
    with _folder(store) as folder:
        missing = plan.missing(folder)
        if len(missing) == 1 or jobs == 1:
            # Runs on the caller's thread, because only this thread sees Ctrl-C.
            for number in missing:
                plan.run_one(number, folder)
        elif missing:
            stop = _highwater.Stop()
            with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
                futures = [pool.submit(plan.run_one, number, folder, stop) for number in missing]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    stop.stop()
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
        return _frames.make(columns(plan, folder, _words(rows)), frame)


@contextlib.contextmanager
def _folder(store: Optional[Path]) -> Iterator[str]:
    """The folder of a store, or one for the time of a call."""
    if store is not None:
        yield os.fspath(store)
        return
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        yield folder


def _processes(jobs: Optional[int]) -> Executor:
    return concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def _complete(
    plan: _highwater.Sweep,
    text: str,
    name: str,
    folder: str,
    executor: Union[Executor, Callable[[], Executor], None],
    retries: int,
    jobs: Optional[int],
    progress: Optional[Callable[[int, int], None]],
) -> None:
    """Does what the store lacks."""
    keys, titles, all_runs = plan.keys(), plan.titles(), len(plan)
    left = plan.missing(folder)
    tell = progress or (lambda there, of: None)
    there = all_runs - len(left)
    tell(there, all_runs)
    if not left:
        return
    make = executor if callable(executor) else ((lambda: _processes(jobs)) if executor is None else None)
    pool: Executor = make() if make else executor  # type: ignore[assignment]
    # Workers that can access the folder keep their runs there themselves, so that no run is lost
    # with this process.
    seen = os.path.abspath(folder)
    lost: collections.Counter[int] = collections.Counter()
    failures: dict[int, str] = {}
    breaks = 0
    numbers: dict[Future[bytes], int] = {}
    try:
        while left:
            futures = _submit(pool, [(text, name, number, seen) for number in left])
            numbers = dict(zip(futures, left))
            left, is_broken = [], False
            for future in concurrent.futures.as_completed(numbers):
                number = numbers[future]
                try:
                    key = _highwater.keep(folder, future.result())
                except Error as error:
                    # Ray wraps the error of the run in its own error.
                    failures[number] = str(getattr(error, "cause", None) or error)
                    continue
                except concurrent.futures.BrokenExecutor:
                    is_broken = True
                    left.append(number)
                    continue
                except (Exception, concurrent.futures.CancelledError) as error:
                    if "No module named 'highwater" in str(error):
                        raise Error("a worker has no package highwater: install it on each computer of the cluster") from error
                    # The worker of this run is gone; each executor reports this by another error.
                    lost[number] += 1
                    if lost[number] > retries:
                        raise Error(f"{titles[number]}: its worker was lost {lost[number]} times: {error}") from error
                    left.append(number)
                    continue
                if key != keys[number]:
                    raise Error(f"{titles[number]}: a worker has other files or another version of highwater")
                breaks = 0
                there += 1
                tell(there, all_runs)
            left.sort()
            if is_broken:
                breaks += 1
                if make is None or breaks > retries:
                    raise Error(
                        "the executor is broken: a worker died. Give what makes one (executor=lambda: …) to go on with a new "
                        "one; what was done is in the store"
                    )
                pool.shutdown(wait=False)
                pool = make()
                # A worker that died may have kept its run before.
                left = [number for number in plan.missing(folder) if number not in failures]
                there = all_runs - len(left) - len(failures)
    except BaseException:
        # An executor that the caller made would otherwise continue with these runs.
        for future in numbers:
            future.cancel()
        _end(pool, is_ours=make is not None)
        raise
    if make is not None:
        pool.shutdown()
    if failures:
        raise Error("\n".join(failures[number] for number in sorted(failures)))


def _end(pool: Executor, is_ours: bool) -> None:
    """Ends an executor of ours without waiting for what it runs."""
    if not is_ours:
        return
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _submit(pool: Executor, calls: list[tuple[str, str, int, str]]) -> list[Future[bytes]]:
    """A future for each call; all at once where an executor can, as arrays of Slurm."""
    submit_all = getattr(pool, "submit_all", None)
    if submit_all is not None:
        return list(submit_all(_worker.run_one, calls))
    futures: list[Future[bytes]] = []
    for call in calls:
        try:
            futures.append(pool.submit(_worker.run_one, *call))
        except concurrent.futures.BrokenExecutor as error:
            futures.append(Future())
            futures[-1].set_exception(error)
    return futures
