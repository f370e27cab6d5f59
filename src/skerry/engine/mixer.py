"""D2D mixing of X by W, island by island, in place."""

import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from skerry.engine.ranks.assignment import CutIsland
from skerry.engine.ranks.group import RankGroup
from skerry.kernels import fused
from skerry.network.fleet import Fleet, MixingBlock

SPARSE = 0.15  # on a CPU, a W with fewer entries than this is quicker as a sparse matrix
PRODUCT_BYTES = 2**28  # bytes of models that a GPU mixes by one product
COLUMNS = 2**13  # columns of an island that are mixed at once on a CPU: they stay in the cache


@dataclass(frozen=True)
class Piece:
    """Neighbouring islands of the same size with dense weights, or one island with sparse ones."""

    start: int
    size: int
    weights: list[Tensor]

    @property
    def rows(self) -> slice:
        """The rows of X."""
        return slice(self.start, self.start + self.size * len(self.weights))

    def can_append(self, start: int, W: Tensor) -> bool:
        """Whether the island of these weights can be the next one of this piece."""
        last = self.weights[-1]
        same_kind = W.shape == last.shape and W.layout == last.layout == torch.strided
        return same_kind and start == self.rows.stop

    @cached_property
    def stacked(self) -> Tensor:
        """The weights [islands, size, size], contiguous; only one where all links are the same."""
        first, *others = self.weights
        alike = all(W is first for W in others)
        return first.contiguous().unsqueeze(0) if alike else torch.stack(self.weights)


class Mixer:
    """Mixes by the W(t) of one fleet on the compute device, for the local devices."""

    def __init__(
        self, fleet: Fleet, device: torch.device, dtype: torch.dtype, ranks: RankGroup | None = None
    ):
        self.fleet, self._device, self._dtype = fleet, device, dtype
        self.ranks = ranks or RankGroup()
        self._pieces_of_round = lru_cache(maxsize=1)(self._pieces)
        self._cut_in_round = lru_cache(maxsize=1)(self._cut)

    def mix(self, X_nld: Tensor, t: int) -> None:
        """x_i <- sum_j W[j, i] x_j for every lane of the view (the paper's X W)."""
        X, t = X_nld.view(len(X_nld), -1), 0 if self.fleet.fixed else t
        if self.ranks.cuts:
            self._mix_cut(X, t)
        for piece in self._pieces_of_round(t):
            if piece.weights[0].layout == torch.strided and fused.mixes(X, piece.size):
                from skerry.kernels.mixing import mix_in_place

                mix_in_place(X[piece.rows], piece.stacked)
            else:
                self._mix_by_torch(X, piece)

    def mix_and_collect(self, X_nld: Tensor, t: int, Z_nld: Tensor, scale_l1: Tensor) -> None:
        """Mix X, and add (X before - X after) times the scale of its lane to Z."""
        X, Z = X_nld.view(len(X_nld), -1), Z_nld.view(len(Z_nld), -1)
        for piece in self._pieces_of_round(0 if self.fleet.fixed else t):
            rows = piece.rows
            if piece.weights[0].layout == torch.strided and fused.mixes(X, piece.size):
                from skerry.kernels.mixing import mix_and_collect

                mix_and_collect(X[rows], piece.stacked, Z[rows], scale_l1.flatten().contiguous())
                continue
            before_nld = X_nld[rows].clone()
            self._mix_by_torch(X, piece)
            Z_nld[rows].addcmul_(before_nld.sub_(X_nld[rows]), scale_l1)

    def _mix_by_torch(self, X: Tensor, piece: Piece) -> None:
        count, models = len(piece.weights), X[piece.rows].view(len(piece.weights), piece.size, -1)
        if not X.is_cuda or count == 1:
            step = COLUMNS if self._device.type == "cpu" else X.shape[1]
            for rows, W in zip(models, piece.weights, strict=True):
                for part in rows.split(step, dim=1):
                    part.copy_(W @ part)
            return
        # Few products for many islands: on a GPU a product for each would cost a launch.
        W_css = piece.stacked
        some = max(1, PRODUCT_BYTES // models[0].nbytes)
        for first in range(0, count, some):
            part = models[first : first + some]
            W = W_css[first : first + some] if len(W_css) > 1 else W_css.expand(len(part), -1, -1)
            part.copy_(torch.bmm(W, part))

    def _mix_cut(self, X: Tensor, t: int) -> None:
        """Mix the islands of which other ranks hold a part."""
        cut = self._cut_in_round(t)
        received = self.ranks.exchange_rows(X, [island for island, _ in cut])
        for island, W in cut:
            before = [received[other] for other in island.receives if other < self.ranks.rank]
            after = [received[other] for other in island.receives if other > self.ranks.rank]
            X[island.rows] = W @ torch.cat([*before, X[island.rows], *after])

    def _cut(self, t: int) -> list[tuple[CutIsland, Tensor]]:
        islands = self.ranks.cut_islands(self.fleet.blocks(t, self.ranks.islands))
        return [(island, self._sparse(island.W)) for island in islands]

    def _pieces(self, t: int) -> list[Piece]:
        shared: dict[int, Tensor] = {}  # islands with the same links share one W
        pieces: list[Piece] = []
        for start, block in self.ranks.whole_islands(self.fleet.blocks(t, self.ranks.islands)):
            if block.size == 1:
                continue
            if id(block.W) not in shared:
                shared[id(block.W)] = self._tensor(block)
            W = shared[id(block.W)]
            if pieces and pieces[-1].can_append(start, W):
                pieces[-1].weights.append(W)
            else:
                pieces.append(Piece(start, block.size, [W]))
        return pieces

    def _tensor(self, block: MixingBlock) -> Tensor:
        """W transposed, because devices are rows of X here and columns in the paper."""
        W = block.W.T
        if isinstance(W, np.ndarray):
            mostly_zero = np.count_nonzero(W) < SPARSE * W.size
            if not (mostly_zero and self._device.type == "cpu"):
                return torch.tensor(W, dtype=self._dtype, device=self._device)
        return self._sparse(sparse.csr_array(W))

    def _sparse(self, csr: sparse.csr_array) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # CSR tensors are called beta
            return torch.sparse_csr_tensor(
                torch.from_numpy(csr.indptr.astype(np.int64)),
                torch.from_numpy(csr.indices.astype(np.int64)),
                torch.from_numpy(csr.data),
                size=csr.shape,
                dtype=self._dtype,
                device=self._device,
                check_invariants=False,  # scipy built it
            )
