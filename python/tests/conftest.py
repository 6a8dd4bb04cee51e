import os

import pytest

# Processes of tests look for packages where they start: not beside the source, which has no compiled part.
os.chdir(os.path.dirname(os.path.abspath(__file__)))

# Small enough for hundreds of runs in a test.
GRID = {
    "experiments": "randread",
    "kernels": ["highwater", "3.10-rc4-vanilla"],
    "scales": "1/64",
    "runs": 2,
    "set": {"lru.batch": [3, 14]},
}


@pytest.fixture
def grid():
    return dict(GRID)


def files(folder):
    """The files of a folder with their bytes."""
    names = sorted(os.listdir(folder))
    return {name: open(os.path.join(folder, name), "rb").read() for name in names}
