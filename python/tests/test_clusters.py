"""Ray, Dask and Slurm: each on this computer, each skipped where its package is missing."""

import os
import signal
import threading
import time

import pytest
from conftest import files

import highwater

pytest.importorskip("pandas", reason="pandas is not installed")


def in_one_process(grid, folder):
    """The same sweep in this process alone."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return highwater.sweep(grid, store=folder, executor=pool)


def test_dask(grid, tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask and distributed are not installed")
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    frame = in_one_process(grid, one)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            same = highwater.sweep(grid, store=other, executor=client.get_executor())
    assert frame.equals(same) and files(one) == files(other)


def test_slurm_by_submitit(grid, tmp_path):
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    from highwater.executors import SubmititExecutor

    grid = {**grid, "runs": 1}
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    frame = in_one_process(grid, one)
    local = submitit.LocalExecutor(folder=str(tmp_path / "logs"))
    local.update_parameters(timeout_min=5)
    same = highwater.sweep(grid, store=other, executor=SubmititExecutor(local, poll=0.2))
    assert frame.equals(same) and files(one) == files(other)


@pytest.mark.parametrize("runs", [int(os.environ.get("HIGHWATER_RAY_RUNS", "40"))])
def test_ray_of_two_nodes_with_a_worker_killed_half_way(runs, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    from highwater.executors import RayExecutor

    grid = {"experiments": "randread", "kernels": ["highwater", "3.10-rc4-vanilla"], "scales": "1/64"}
    grid["runs"] = runs // 2
    one, other, log = str(tmp_path / "one"), str(tmp_path / "other"), str(tmp_path / "log")
    os.mkdir(log)
    frame = in_one_process(grid, one)

    class Counting(RayExecutor):
        def submit(self, fn, *args):
            return super().submit(counted, log, *args)

    counted, killed, functions, remote = _counted(), [], [], ray.remote
    monkeypatch.setattr(ray, "remote", lambda **options: functions.append(options) or remote(**options))

    def marks(what):
        return {name.split(".", 1)[1] for name in os.listdir(log) if name.startswith(what)}

    def kill_half_way():
        while len(marks("ended")) < runs // 2:
            time.sleep(0.005)
        while not killed:
            for mark in sorted(marks("began") - marks("ended"))[:1]:
                os.kill(int(mark.split(".")[1]), signal.SIGKILL)
                # A run that ended in the meantime was not lost.
                killed.extend({mark} - marks("ended"))

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2
        thread = threading.Thread(target=kill_half_way)
        thread.start()
        same = highwater.sweep(grid, store=other, executor=Counting(num_cpus=1))
        thread.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert frame.equals(same) and files(one) == files(other), "complete, and the same to the last byte"
    # Ray itself makes further remote functions.
    assert len([ours for ours in functions if "max_retries" in ours]) == 1, "Ray schedules all runs as one kind of task"
    began = [mark.split(".")[0] for mark in marks("began")]
    lost = sorted(mark.split(".")[0] for mark in marks("began") - marks("ended"))
    twice = sorted({number for number in began if began.count(number) > 1})
    print(f"{len(set(began))} runs, begun {len(began)} times; lost with their worker: {lost}; begun twice: {twice}")
    assert len(set(began)) == runs and len(lost) >= 1, "a worker was killed in a run"
    assert twice == lost and len(began) == runs + len(lost), "nothing else was begun twice"


def test_ray_cancels_what_waits_and_a_worker_without_the_package_is_told(tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from highwater.executors import RayExecutor

    (tmp_path / "highwater.py").write_text("raise ModuleNotFoundError(\"No module named 'highwater'\")\n")
    ray.init(address="local", num_cpus=1, log_to_driver=False)
    try:
        executor = RayExecutor()
        # The call occupies the only worker until the file `go` exists.
        executor.submit(os.system, f"until [ -e '{tmp_path}/go' ]; do sleep 0.1; done")
        executor.submit(os.mkdir, str(tmp_path / "waiting")).cancel()
        (tmp_path / "go").touch()
        executor.submit(os.mkdir, str(tmp_path / "last")).result(timeout=120)
        assert not (tmp_path / "waiting").exists()
        without = RayExecutor(runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path)}})
        with pytest.raises(highwater.Error, match="^a worker has no package highwater: install it on each computer"):
            highwater.sweep({"experiments": "randread", "kernels": "highwater", "scales": "1/64"}, executor=without)
    finally:
        ray.shutdown()


def _counted():
    """As a worker does a run, with a file for each that begins and each that ends. Sent by value: no worker has this file."""

    def counted(log, text, name, number, store=None):
        import os
        import time

        from highwater import _worker

        mark = f"{number}.{os.getpid()}.{time.time_ns()}"
        open(os.path.join(log, f"began.{mark}"), "w").close()
        result = _worker.run_one(text, name, number, store)
        open(os.path.join(log, f"ended.{mark}"), "w").close()
        return result

    return counted
