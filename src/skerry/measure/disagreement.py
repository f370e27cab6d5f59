"""Disagreement of the devices inside islands and between them, and the average model."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from skerry.engine.ranks.group import Rank
from skerry.kernels import fused

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

    D_intra = sum over devices of ||x_i - m_c||^2; D_inter = sum over islands of
    n_c ||m_c - xbar||^2, with m_c the mean of the island.
    """
    n, lanes, _ = X_nld.shape
    intra_l = X_nld.new_zeros(lanes)
    means = []
    start = 0
    for size in sizes:
        mean, away_l = _around_mean(X_nld[start : start + size])
        intra_l += away_l
        means.append(mean)
        start += size
    means_cld = torch.stack(means)
    sizes_c = _on_device(sizes, X_nld.device, X_nld.dtype)
    average_ld = torch.einsum("c,cld->ld", sizes_c / n, means_cld)
    away_cl = (means_cld - average_ld).square_().sum(dim=2)
    return Spread(intra_l / n, (sizes_c @ away_cl) / n, average_ld)


def spread_over_ranks(X_nld: Tensor, rank: Rank) -> Spread:
    """The spread where X holds the devices of one rank and other ranks hold the rest."""
    n, sizes = sum(rank.assignment.sizes), rank.assignment.sizes
    parts, rows = rank.parts, {part.island: part.rows for part in rank.parts}
    empty = slice(0, 0)
    cut_means = {c: rank.total(X_nld[rows.get(c, empty)]) / sizes[c] for c in rank.assignment.cut}
    found = [_around_mean(X_nld[part.rows], cut_means.get(part.island)) for part in parts]
    means_cld = torch.stack([mean for mean, _ in found])
    # An island on several ranks counts on the rank where it begins.
    sizes_c = X_nld.new_tensor([part.size if part.first else 0 for part in parts])
    average_ld = rank.total(means_cld * (sizes_c / n)[:, None, None])
    away_cl = (means_cld - average_ld).square_().sum(dim=2)
    intra_l = rank.total(torch.stack([away_l for _, away_l in found]))
    inter_l = rank.total(away_cl * sizes_c[:, None])
    return Spread(intra_l / n, inter_l / n, average_ld)


@lru_cache(maxsize=16)  # sending them anew would make a GPU wait
def _on_device(sizes: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(sizes, dtype=dtype, device=device)


def _around_mean(X_sld: Tensor, mean: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The mean [L, d] of an island, and the summed squared distance from it [L]. A mean is given
    where only some devices of the island are local."""
    if mean is None and fused.runs_on(X_sld):
        from skerry.kernels.mixing import island_spread

        return island_spread(X_sld)
    size, lanes, d = X_sld.shape
    mean, away_l = X_sld.mean(dim=0) if mean is None else mean, X_sld.new_zeros(lanes)
    step = max(1, TEMPORARY // (lanes * d))
    for first in range(0, size, step):
        away_l += (X_sld[first : first + step] - mean).square_().sum(dim=(0, 2))
    return mean, away_l


def squared_shift(before: Spread, after: Spread) -> Tensor:
    """||xbar^{t+1} - xbar^{t+2/3}||^2 for every lane: the squared shift of the average."""
    return (after.average_ld - before.average_ld).square().sum(dim=1)
