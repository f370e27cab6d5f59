"""Methods whose server remembers what every device sent last."""

import torch
from torch import Tensor

from skerry.engine.method import Arrays, Lanes, Method, Traffic, Visit


class FedVarp(Method):
    """FedVARP: the sampled correct what is remembered of all. It takes away the error of sampling;
    what local steps drift apart, it does not."""

    def start(self, X_nld: Tensor) -> Arrays:
        return {"table": torch.zeros_like(X_nld), "x0": X_nld[0].clone()}

    def meet(self, lanes: Lanes, visit: Visit) -> Traffic:
        X, S, own = lanes.X_nld, visit.sampled_k, lanes.own
        went = own["x0"] - X[S]
        own["x0"] -= self._move(own["table"], went, visit)
        X[:] = own["x0"]
        return Traffic(len(S), len(X))

    def _move(self, table: Tensor, went: Tensor, visit: Visit) -> Tensor:
        S = visit.sampled_k
        fresh = torch.einsum("k,kld->ld", visit.weights_k, went - table[S])
        move = fresh + table.mean(dim=0)
        table[S] = went
        return move


class Mifa(FedVarp):
    """MIFA: the mean of what is remembered of all, from a table of zeros."""

    def _move(self, table: Tensor, went: Tensor, visit: Visit) -> Tensor:
        table[visit.sampled_k] = went
        return table.mean(dim=0)
