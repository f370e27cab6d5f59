"""Without a GPU, all tests of kernels run in Triton's interpreter, so that changes are checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_laws import HERE, needs_triton

pytestmark = [
    needs_triton,
    pytest.mark.slow,
    pytest.mark.skipif(HERE, reason="they run by themselves"),
]
FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    "name", sorted(path.name for path in FOLDER.glob("test_*.py") if path != Path(__file__))
)
def test_kernels_hold_in_tritons_interpreter(name):
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", FOLDER / name],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "PASSED" in done.stdout
