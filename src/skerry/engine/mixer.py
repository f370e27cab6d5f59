"""D2D mixing, component by component, in place."""

import warnings
from functools import lru_cache

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from skerry.network.fleet import Block, Fleet

SPARSE = 0.15  # on a CPU, a W with fewer entries than this is quicker as a sparse matrix
COLUMNS = 2**13  # a component's columns that are mixed at once on a CPU: they stay in the cache


class Mixer:
    """W(t) of one fleet on the compute device."""

    def __init__(self, fleet: Fleet, device: torch.device, dtype: torch.dtype):
        self.fleet, self._device, self._dtype = fleet, device, dtype
        self._of_round = lru_cache(maxsize=1)(self._tensors)

    def mix(self, X_nld: Tensor, t: int) -> None:
        """x_i <- sum_j W[j, i] x_j for every lane of the view (the paper's X W)."""
        X = X_nld.view(len(X_nld), -1)
        step = COLUMNS if self._device.type == "cpu" else X.shape[1]
        for start, size, W in self._of_round(0 if self.fleet.fixed else t):
            rows = X[start : start + size]
            for column in range(0, X.shape[1], step):
                part = rows[:, column : column + step]
                part.copy_(W @ part)

    def _tensors(self, t: int) -> list[tuple[int, int, Tensor]]:
        shared: dict[int, Tensor] = {}  # components with the same links share one W
        found = []
        for block in self.fleet.blocks(t):
            if block.size > 1:
                if id(block.W) not in shared:
                    shared[id(block.W)] = self._tensor(block)
                found.append((block.start, block.size, shared[id(block.W)]))
        return found

    def _tensor(self, block: Block) -> Tensor:
        """W transposed, because devices are rows of X here and columns in the paper."""
        W = block.W.T
        if isinstance(W, np.ndarray):
            mostly_zero = np.count_nonzero(W) < SPARSE * W.size
            if not (mostly_zero and self._device.type == "cpu"):
                return torch.tensor(W, dtype=self._dtype, device=self._device)
        csr = sparse.csr_array(W)
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
