"""Replays of a trace, also with policies that are written in Python."""

import collections
import random

import pytest

import highwater

pytest.importorskip("pandas", reason="pandas is not installed")


class Fifo:
    def __init__(self, capacity):
        self.capacity, self.queue = capacity, collections.deque()

    def requested(self, objects, hits):
        assert objects.format == "I" and hits.format == "?" and len(objects) == len(hits)
        self.queue.extend(it for it, hit in zip(objects, hits) if not hit)

    def evict(self, count):
        assert len(self.queue) == self.capacity
        return [self.queue.popleft() for _ in range(count)]


@pytest.fixture
def trace(tmp_path):
    """A thousand keys, some of them asked for often."""
    draw = random.Random(1)
    path = tmp_path / "keys.txt"
    path.write_text("".join(f"{min(draw.randrange(1000), draw.randrange(1000))}\n" for _ in range(20_000)))
    return path


def test_a_policy_in_python_misses_what_the_same_policy_of_the_package_misses(trace):
    frame = highwater.replay(trace, ["fifo", Fifo], ["5%", 200], victims=1)
    assert list(frame.columns)[:6] == ["policy", "size", "capacity", "requests", "misses", "miss_ratio"]
    assert list(frame.policy) == ["fifo", "fifo", "Fifo", "Fifo"] and list(frame["size"]) == ["5%", "200"] * 2
    known, own = frame[frame.policy == "fifo"], frame[frame.policy == "Fifo"]
    assert list(known.misses) == list(own.misses) and list(known.capacity) == list(own.capacity)
    assert (known.requests == 20_000).all()


def test_a_cache_that_frees_a_batch_at_a_time_misses_a_little_more(trace):
    exact, batched = (highwater.replay(trace, Fifo, 200, victims=victims).misses[0] for victims in (1, 20))
    assert exact < batched < exact * 1.1


def test_a_warm_up_is_not_counted(trace):
    frame = highwater.replay(trace, ["lru", Fifo], "50%", warm_up="10%")
    assert list(frame.requests) == [18_000, 18_000]


def test_errors_of_a_policy_and_wrong_victims_reach_the_caller(trace):
    class Wrong(Fifo):
        def evict(self, count):
            return [5_000_000]

    class Broken(Fifo):
        def evict(self, count):
            raise ValueError("no idea")

    with pytest.raises(highwater.Error, match="object 5000000, which is not in the cache"):
        highwater.replay(trace, Wrong, 100)
    with pytest.raises(ValueError, match="no idea"):
        highwater.replay(trace, Broken, 100)
    for wrong in [{"policies": "lrv"}, {"sizes": "5x"}, {"victims": 0}, {"warm_up": "100%"}, {"policies": [3]}, {"sizes": []}]:
        with pytest.raises(highwater.InputError):
            highwater.replay(trace, **wrong)
    with pytest.raises(highwater.InputError, match="no-such-file"):
        highwater.replay("no-such-file")
