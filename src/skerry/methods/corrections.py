"""Methods that add something to every gradient: what mixing and the server took from a model, or
how far a device's gradient is from that of all."""

import torch
from torch import Tensor

from skerry.methods.method import Arrays, Lanes, Method, Mixing, ServerRound, Traffic, inverse

CENTRED_EVERY = 100
"""Rounds after which Z of carry is centred: its sum is 0 but for rounding, which would add up."""


class Carry(Method):
    """What mixing and the server take from a model goes back into its gradient. Experimental."""

    def repeats(self, t: int) -> bool:
        return (t + 1) % CENTRED_EVERY != 0

    def start(self, X_nld: Tensor) -> Arrays:
        return {"z": torch.zeros_like(X_nld)}

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        lanes.X_nld.addcmul_(lanes.own["z"], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        Z = lanes.own["z"]
        mix.collect(lanes.X_nld, Z, inverse(lanes.eta_l1) / lanes.local_steps)
        if (lanes.t + 1) % CENTRED_EVERY == 0:
            Z.sub_(Z.mean(dim=0))

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        scale_l1 = inverse(lanes.eta_l1) / (lanes.local_steps * lanes.period)
        reached = server.collect(lanes.X_nld, lanes.own["z"], scale_l1)
        return Traffic(len(server.sampled_k), reached)


class Mtgc(Method):
    """MTGC: Z corrects for what devices of an island differ in, anew after every server round; Y
    for what islands do."""

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {"y": torch.zeros_like(X_nld), "z": torch.zeros_like(X_nld)}

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        for name in ("y", "z"):
            lanes.X_nld.addcmul_(lanes.own[name], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix.collect(lanes.X_nld, lanes.own["z"], inverse(lanes.eta_l1) / lanes.local_steps)

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        taken = lanes.X_nld.clone()
        reached = server.deliver(lanes.X_nld)
        lanes.own["y"].addcmul_(taken.sub_(lanes.X_nld), inverse(server.walked_l1))
        lanes.own["z"].zero_()
        return Traffic(len(server.sampled_k), reached)


class Scaffold(Method):
    """SCAFFOLD, its option II: a device knows its own mean gradient c_i and that of all, c."""

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {
            "own": torch.zeros_like(X_nld),
            "all": torch.zeros_like(X_nld[0]),
            "x0": X_nld[0].clone(),
        }

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        lanes.X_nld.addcmul_(lanes.own["own"] - lanes.own["all"], lanes.eta_l1)

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        X, S, own = lanes.X_nld, server.sampled_k, lanes.own
        change = (own["x0"] - X[S]) * inverse(server.walked_l1) - own["all"]
        own["own"][S] += change
        own["all"] += change.sum(dim=0) / len(X)
        reached = server.deliver(X)
        own["x0"].copy_(X[0])
        return Traffic(2 * len(S), 2 * reached)


class FedProx(Method):
    """A pull back to the model that the device received last."""

    def __init__(self, *, mu: float):
        self.mu = mu

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {"received": X_nld.clone()}

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld - lanes.own["received"]

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        assert kept is not None
        lanes.X_nld.addcmul_(kept, lanes.eta_l1, value=-self.mu)

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        X, received = lanes.X_nld, lanes.own["received"]
        reached = server.deliver(X)
        if len(server.receivers) == len(X):
            received.copy_(X)
        else:
            received[server.receivers] = X[server.receivers]
        return Traffic(len(server.sampled_k), reached)
