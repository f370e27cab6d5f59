"""FedProx: a proximal term that pulls a device back to the model it received last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import ANY_COMPRESSION
from skerry.config.presets import OTHERS, server_only_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Traffic

if TYPE_CHECKING:
    from torch import Tensor


class FedProx(Method):
    """Add mu (X - the model that the device received last) to the gradient."""

    name = "fedprox"
    rule = "X <- X - eta (G + mu (X - the model that the device received last))."
    keeps = "the model received last: 1 array"
    sends = "as plain SGD"
    exact = "no: devices stay closer together, and move more slowly"
    citation = "Li et al., MLSys 2020"
    checked = f"{OTHERS}MTGC's"
    presets = (("fedprox", server_only_settings("fedprox"), ""),)
    link_compressions = ANY_COMPRESSION
    compresses_server = True
    is_repeatable = True

    def __init__(self, *, mu: float):
        self.mu = mu

    def start(self, X_nld: Tensor) -> Arrays:
        return {"received": X_nld.clone()}

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld - lanes.state["received"]

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        assert before is not None
        lanes.X_nld.addcmul_(before, lanes.eta_l1, value=-self.mu)

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        X, received = lanes.X_nld, lanes.state["received"]
        reached = server.deliver(X)
        if len(server.receivers) == len(X):
            received.copy_(X)
        else:
            received[server.receivers] = X[server.receivers]
        return Traffic(len(server.sampled_k), reached)
