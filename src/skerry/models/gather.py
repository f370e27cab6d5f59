"""Samples of many minibatches, side by side."""

from torch import Tensor

from skerry.kernels import fused


def gather(inputs: Tensor, rows_nb: Tensor) -> Tensor:
    """`inputs[rows]`, [n, B, ...]."""
    if fused.runs_on(inputs) and inputs.is_contiguous() and inputs[0].numel() <= fused.SHORT:
        from skerry.kernels.gather import gather_rows

        return gather_rows(inputs, rows_nb)
    return inputs[rows_nb]
