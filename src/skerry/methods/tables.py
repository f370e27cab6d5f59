"""Methods whose server remembers what every device sent last."""

import torch
from torch import Tensor

from skerry.methods.method import Arrays, Lanes, Method, ServerRound, Traffic


class FedVarp(Method):
    """FedVARP: the sampled correct what is remembered of all. It takes away the error of sampling;
    what local steps drift apart, it does not."""

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {"table": torch.zeros_like(X_nld), "x0": X_nld[0].clone()}

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        X, S, own = lanes.X_nld, server.sampled_k, lanes.own
        went = own["x0"] - X[S]
        own["x0"] -= self._move(own["table"], went, server)
        X[:] = own["x0"]
        return Traffic(len(S), len(X))

    def _move(self, table: Tensor, went: Tensor, server: ServerRound) -> Tensor:
        S = server.sampled_k
        fresh = torch.einsum("k,kld->ld", server.weights_k, went - table[S])
        move = fresh + table.mean(dim=0)
        table[S] = went
        return move


class Mifa(FedVarp):
    """MIFA: the mean of what is remembered of all, from a table of zeros."""

    def _move(self, table: Tensor, went: Tensor, server: ServerRound) -> Tensor:
        table[server.sampled_k] = went
        return table.mean(dim=0)
