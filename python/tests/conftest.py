import os
import sys

import pytest

# Test processes look for packages in the folder where they start, and `python -m pytest` in the
# folder where it was called. The folder of the source is removed from the path, because the package
# there has no compiled part.
_TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != os.path.dirname(_TESTS)]
os.chdir(_TESTS)

# A grid whose runs are small enough for hundreds of them in a test.
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
