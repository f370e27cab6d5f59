"""How far devices stand apart: disagreement inside and across components, and the average."""

from dataclasses import dataclass

import torch
from torch import Tensor

TEMPORARY = 2**24  # numbers in a temporary: the differences are taken a few devices at a time


@dataclass(frozen=True)
class Spread:
    """For every lane: D_intra/n and D_inter/n (theory: Xi), and the average model."""

    intra_l: Tensor
    inter_l: Tensor
    average_ld: Tensor

    @property
    def total_l(self) -> Tensor:
        return self.intra_l + self.inter_l


def spread(X_nld: Tensor, sizes: tuple[int, ...]) -> Spread:
    """Split D = ||X - Xbar||^2 into D_intra + D_inter (orthogonal), each divided by n.

    D_intra = sum over devices of ||x_i - m_c||^2; D_inter = sum over components of
    n_c ||m_c - xbar||^2, with m_c the mean of the component.
    """
    n, lanes, d = X_nld.shape
    intra_l = X_nld.new_zeros(lanes)
    means = []
    step = max(1, TEMPORARY // (lanes * d))
    start = 0
    for size in sizes:
        component = X_nld[start : start + size]
        mean = component.mean(dim=0)
        for first in range(0, size, step):
            intra_l += (component[first : first + step] - mean).square_().sum(dim=(0, 2))
        means.append(mean)
        start += size
    means_cld = torch.stack(means)
    sizes_c = torch.tensor(sizes, dtype=X_nld.dtype, device=X_nld.device)
    average_ld = torch.einsum("c,cld->ld", sizes_c / n, means_cld)
    away_cl = (means_cld - average_ld).square_().sum(dim=2)
    return Spread(intra_l / n, (sizes_c @ away_cl) / n, average_ld)


def bias(before: Spread, after: Spread) -> Tensor:
    """||xbar^{t+1} - xbar^{t+2/3}||^2 for every lane: how far the server moved the average."""
    return (after.average_ld - before.average_ld).square().sum(dim=1)
