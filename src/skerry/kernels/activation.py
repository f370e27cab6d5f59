"""Activations inside the kernels, as numbers that choose among them when a kernel is compiled."""

import triton
import triton.language as tl

ACTIVATIONS = {"none": 0, "relu": 1, "elu": 2}


@triton.jit
def activate(z, KIND: tl.constexpr):
    if KIND == 1:
        z = tl.where(z <= 0, 0.0, z)  # NaN stays: a model that diverged must show it
    elif KIND == 2:
        z = tl.where(z <= 0, tl.exp(tl.minimum(z, 0.0)) - 1, z)
    return z


@triton.jit
def times_slope(g, value, KIND: tl.constexpr):
    """The gradient before the activation, from the one behind it and the value that it gave."""
    if KIND == 1:
        g = tl.where(value <= 0, 0.0, g)  # where the value is NaN, so is the gradient
    elif KIND == 2:
        g *= tl.where(value > 0, 1.0, value + 1)
    return g
