"""SCAFFOLD, option II: control variates, one for each device and one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import (
    FIXED_PERIOD,
    SERVER_ONLY,
    no_sleeping_devices,
    not_selected_by,
    waits_for_all,
)
from skerry.config.presets import OTHERS, server_only_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Traffic, inverse

if TYPE_CHECKING:
    from torch import Tensor


class Scaffold(Method):
    """Add c - c_i to the gradient: the mean gradient of all less the device's own."""

    name = "scaffold"
    rule = (
        "X <- X - eta (G - c_i + c). At the server c_i of a sampled device becomes its mean "
        "gradient since the model delivered last (option II), c the mean of all c_i."
    )
    keeps = "c_i: 1 array; c and the model delivered last at the server"
    sends = "0 over links; 2K up; 2n down"
    exact = "yes, for every sample"
    citation = "Karimireddy et al., ICML 2020"
    checked = f"{OTHERS}SD-GT's; the rest as it is commonly described"
    presets = (
        (
            "scaffold",
            server_only_settings("scaffold"),
            "All devices train between two server rounds, also those that are not sampled next.",
        ),
    )
    rules = (
        *SERVER_ONLY,
        not_selected_by("importance", "bernoulli"),  # nobody may come: steps are not counted
        FIXED_PERIOD,
        no_sleeping_devices,
        waits_for_all,
    )
    up = down = 2
    local_epochs = True
    is_repeatable = True
    allows_private = True

    def start(self, X_nld: Tensor) -> Arrays:
        return {
            "own": X_nld.new_zeros(X_nld.shape),
            "all": X_nld.new_zeros(X_nld[0].shape),
            "x0": X_nld[0].clone(),
        }

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        lanes.X_nld.addcmul_(lanes.state["own"] - lanes.state["all"], lanes.eta_l1)

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        X, S, own = lanes.X_nld, server.sampled_k, lanes.state
        change = (own["x0"] - X[S]) * inverse(server.eta_sum_l1) - own["all"]
        own["own"][S] += change
        own["all"] += change.sum(dim=0) / len(X)
        reached = server.deliver(X)
        own["x0"].copy_(X[0])
        return Traffic(2 * len(S), 2 * reached)
