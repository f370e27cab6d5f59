"""MTGC: two corrections of every gradient, one inside islands and one between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import (
    AVERAGES,
    COMPLETE_ISLANDS,
    WHOLE_PERIODS,
    must_be,
    samples_all_devices,
)
from skerry.config.presets import CODE, hier_favg_settings, method_settings, whole_period_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic, inverse

if TYPE_CHECKING:
    from torch import Tensor

    from skerry.config.experiment import Experiment
    from skerry.config.presets import Settings


def _settings(experiment: Experiment) -> Settings:
    return {
        **hier_favg_settings(experiment),
        **method_settings("mtgc", "s2a"),
        **whole_period_settings(experiment),
    }


class Mtgc(Method):
    """Add Z, the difference of a device to its island, and Y, that of its island to all.

    Z is reset after every server round.
    """

    name = "mtgc"
    rule = (
        "X <- X - eta (G + Y + Z); Z accumulates what averaging on the island removes from a "
        "device, per step, and is reset at every server round; Y accumulates what averaging over "
        "all devices removes."
    )
    keeps = "Y and Z: 2 arrays"
    sends = "2E over links (n up and n down with an edge server); n up; n down"
    exact = "yes"
    citation = "Fang et al., MTGC"
    checked = f"{CODE}wenzhifang/MTGC"
    presets = (("mtgc", _settings, "Messages to an edge server are counted as links."),)
    rules = (
        *COMPLETE_ISLANDS,
        AVERAGES,
        must_be("server.primitive", "s2a", "s2s"),
        samples_all_devices,
        *WHOLE_PERIODS,
    )
    is_repeatable = True

    def start(self, X_nld: Tensor) -> Arrays:
        return {name: X_nld.new_zeros(X_nld.shape) for name in ("y", "z")}

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        for name in ("y", "z"):
            lanes.X_nld.addcmul_(lanes.state[name], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix.collect(lanes.X_nld, lanes.state["z"], inverse(lanes.eta_l1) / lanes.local_steps)

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        taken = lanes.X_nld.clone()
        reached = server.deliver(lanes.X_nld)
        lanes.state["y"].addcmul_(taken.sub_(lanes.X_nld), inverse(server.eta_sum_l1))
        lanes.state["z"].zero_()
        return Traffic(len(server.sampled_k), reached)
