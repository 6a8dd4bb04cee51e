"""What needs this process and its own workers alone."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import files

import highwater
from highwater import _highwater

pytest.importorskip("pandas", reason="pandas is not installed")


def test_run_and_compare_give_frames_of_pandas_and_polars():
    rows = ["hit", "pages"]
    frame = highwater.run("randread", "highwater", scale="1/64", seed=3, rows=rows)
    assert list(frame.columns)[:5] == ["experiment", "machine", "scale", "kernel", "seed"]
    assert set(frame.seed) == {3} and set(frame.kernel) == {"highwater"} and frame.value.dtype.kind == "f"
    wide = highwater.compare("randread", ["highwater", "3.10-rc4-vanilla"], scale="1/64", seed=3, rows=rows)
    assert list(wide.columns) == ["group", "name", "unit", "highwater", "3.10-rc4-vanilla"]
    assert dict(zip(wide.name, wide.highwater)) == dict(zip(frame.name, frame.value))
    polars = pytest.importorskip("polars", reason="polars is not installed")
    other = highwater.compare("randread", ["highwater", "3.10-rc4-vanilla"], scale="1/64", seed=3, rows=rows, frame="polars")
    assert isinstance(other, polars.DataFrame) and other["highwater"].to_list() == wide.highwater.to_list()


def test_a_sweep_is_the_same_with_any_executor_and_done_once(grid, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    frame = highwater.sweep(grid, store=one, jobs=2)
    told = []
    with ThreadPoolExecutor(2) as pool:
        same = highwater.sweep(grid, store=other, executor=pool, progress=lambda *at: told.append(at))
    assert frame.equals(same) and files(one) == files(other)
    assert told[0] == (0, 8) and told[-1] == (8, 8)
    assert sorted(set(frame["lru.batch"])) == [3, 14], "values of keys are numbers"
    before = {name: os.stat(os.path.join(one, name)).st_mtime_ns for name in os.listdir(one)}
    again = highwater.sweep(grid, store=one, executor=lambda: pytest.fail("nothing is left to do"))
    assert again.equals(frame)
    assert before == {name: os.stat(os.path.join(one, name)).st_mtime_ns for name in os.listdir(one)}
    where = highwater.results(one, {"lru.batch": 14, "seed": [1, 2]}, rows="hit")
    assert set(where["lru.batch"]) == {14} and len(where) > 0


def test_an_interrupted_sweep_leaves_nothing_waiting_in_the_callers_executor(grid, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def interrupt(there, of):
        if there == 1:
            raise KeyboardInterrupt

    # The pool ends when all calls that were not cancelled are done.
    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        highwater.sweep({**grid, "runs": 10}, store=str(tmp_path), executor=pool, progress=interrupt)
    assert 1 <= len(files(tmp_path)) < 20, "of 40"


def test_a_grid_from_a_file_is_that_of_a_mapping(grid, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('experiments = "randread"\nkernels = "highwater"\nscales = "1/64"\n')
    small = {**grid, "kernels": "highwater", "runs": 1, "set": {}}
    assert highwater.sweep(path, jobs=1).equals(highwater.sweep(small, jobs=1))


def test_errors_are_those_of_the_program():
    with pytest.raises(highwater.InputError, match="no experiment is called `paralelio`: did you mean `parallelio`"):
        highwater.compare("paralelio")
    with pytest.raises(highwater.InputError, match="grid:2: .*did you mean `highwater`"):
        highwater.run("randread", "highwatr")
    with pytest.raises(highwater.InputError, match="expected one of 'pandas', 'polars', 'arrow'"):
        highwater.compare("randread", frame="excel")
    with pytest.raises(highwater.InputError, match="cannot read none.toml: No such file"):
        highwater.sweep("none.toml")
    with pytest.raises(highwater.Error, match="there is no such folder"):
        highwater.results("none")
    with pytest.raises(highwater.Error, match="a bug stopped it: frame 0x2 isolated twice"):
        _highwater.panic_for_test()


def test_a_damaged_file_is_named_and_left_alone(grid, tmp_path):
    store = str(tmp_path)
    highwater.sweep(grid, store=store, jobs=1)
    name = sorted(os.listdir(store))[0]
    path = os.path.join(store, name)
    open(path, "wb").write(b"PAR1")
    for call in (lambda: highwater.sweep(grid, store=store), lambda: highwater.results(store)):
        with pytest.raises(highwater.Error, match=name + ": damaged"):
            call()
    assert open(path, "rb").read() == b"PAR1"


def test_other_threads_of_python_go_on_while_it_simulates():
    counted, is_over = [0], threading.Event()

    def count():
        while not is_over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    highwater.run("randread", "highwater", scale="1/16", rows="hit")
    elapsed = time.monotonic() - began
    is_over.set()
    thread.join()
    assert counted[0] > 100 * elapsed, f"{counted[0]} in {elapsed:.2f} s"


@pytest.mark.parametrize("call", ['run("parallelio", "highwater")', 'compare("parallelio", jobs=2)'])
def test_ctrl_c_ends_a_run(call):
    # The imports come first, and the pause below lets the run begin, before the signal comes.
    script = f"import highwater, pandas, pyarrow\nprint('ready', flush=True)\nhighwater.{call}\n"
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < 10 and "KeyboardInterrupt" in said, said


def test_a_killed_process_of_the_pool_is_replaced(grid, tmp_path):
    script = tmp_path / "kill.py"
    script.write_text(textwrap.dedent("""
        import multiprocessing, os, signal, sys, threading, time
        import highwater

        def kill_one():
            while not os.path.isdir(sys.argv[1]) or not os.listdir(sys.argv[1]):
                time.sleep(0.01)
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

        if __name__ == "__main__":
            threading.Thread(target=kill_one, daemon=True).start()
            grid = {"experiments": "randread", "kernels": "highwater", "scales": "1/16", "runs": 6}
            print(len(set(highwater.sweep(grid, store=sys.argv[1], jobs=2).run)))
    """))
    run = subprocess.run([sys.executable, str(script), str(tmp_path / "runs")], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "6\n", run.stderr
