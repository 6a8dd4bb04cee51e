"""Executors for clusters: Ray and Slurm. Dask has its own, `client.get_executor()`.

Each is a `concurrent.futures.Executor`. Nothing is imported before one is made.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Executor, Future
from typing import Any, Callable, Sequence


class RayExecutor(Executor):
    """Runs calls as tasks of Ray, on the cluster that `ray.init` has joined.

    `options` are those of `ray.remote`, such as `num_cpus=1`. Ray itself does no task again (`max_retries=0`): `sweep`
    does, and counts.
    """

    def __init__(self, **options: Any) -> None:
        import ray

        def call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        self._ray = ray
        # One remote function for all calls, because each remote function is sent to the cluster,
        # and its tasks are scheduled apart from those of other functions.
        self._call = ray.remote(**{"num_cpus": 1, "max_retries": 0, **options})(call)
        if not ray.is_initialized():
            ray.init()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        task = self._call.remote(fn, *args, **kwargs)
        future: "Future[Any]" = task.future()
        # Without this, Ray would continue with a task whose future is cancelled.
        future.add_done_callback(lambda future: self._ray.cancel(task) if future.cancelled() else None)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The cluster stays: it is the caller's."""


class SubmititExecutor(Executor):
    """Runs calls as jobs of `submitit`: on Slurm as one array, or by its local executor as processes.

    `executor` is one of submitit's, with its parameters set; `poll` is how often jobs are looked at, in seconds.
    """

    def __init__(self, executor: Any, poll: float = 1.0) -> None:
        self._executor, self._poll = executor, poll

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        return self._watch([self._executor.submit(fn, *args, **kwargs)])[0]

    def submit_all(self, fn: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> "list[Future[Any]]":
        """Many calls of one function: an array of jobs."""
        return self._watch(self._executor.map_array(fn, *zip(*calls)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Jobs that were submitted stay: they keep what they find in the store."""

    def _watch(self, jobs: Sequence[Any]) -> "list[Future[Any]]":
        pairs: "list[tuple[Any, Future[Any]]]" = [(job, Future()) for job in jobs]
        for _, future in pairs:
            future.set_running_or_notify_cancel()

        def look() -> None:
            open_pairs = list(pairs)
            while open_pairs:
                time.sleep(self._poll)
                for pair in list(open_pairs):
                    job, future = pair
                    if not job.done():
                        continue
                    open_pairs.remove(pair)
                    try:
                        error = job.exception()
                        if error is None:
                            future.set_result(job.result())
                        else:
                            future.set_exception(_own(error))
                    except BaseException as error:  # noqa: BLE001
                        future.set_exception(error)

        threading.Thread(target=look, daemon=True).start()
        return [future for _, future in pairs]


def _own(error: BaseException) -> BaseException:
    """An error of highwater in the traceback that submitit makes of it."""
    from ._highwater import Error

    marker = "highwater.Error: "
    text = str(error)
    return Error(text.split(marker, 1)[1].strip()) if marker in text else error
