"""What tests of kernels share: numbers where kernels run, and how far from float64 they may be.

They run on a GPU; without one, in Triton's interpreter, which a process must choose before Triton
is imported: tests/kernels/test_interpreter.py starts one for all. It knows no bfloat16.
"""

import os
from importlib.util import find_spec

import pytest
import torch

CUDA = torch.cuda.is_available()
HERE = CUDA or os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if CUDA else "cpu"
TOLERANCE = {"float32": 3e-6, "tf32": 2e-3, "bf16": 2e-2}
"""Of ||found - exact|| / ||exact||: 24, 11 and 8 bits of mantissa, with room for sums."""
PRECISIONS = list(TOLERANCE) if CUDA else ["float32"]

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
runs_kernels = pytest.mark.skipif(not HERE, reason="needs CUDA, or Triton's interpreter")


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE)


def distance(found, exact):
    exact = exact.to(found.device)
    return ((found.double() - exact).norm() / exact.norm()).item()


def weights(count, size):
    W = numbers(count, size, size, seed=1).abs()
    return W / W.sum(dim=2, keepdim=True)


class Noted:
    """A kernel that notes how it is started, and does nothing."""

    def __init__(self):
        self.grids, self.given, self.told = [], [], []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda *given, **more: (self.given.extend(given), self.told.append(more))
