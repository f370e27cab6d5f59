"""carry: add to the gradient what mixing and the server remove from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import AVERAGES, FIXED_PERIOD, must_be
from skerry.config.presets import gossip_settings, method_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic, inverse

if TYPE_CHECKING:
    from torch import Tensor

    from skerry.config.experiment import Experiment
    from skerry.config.presets import Settings
CENTRED_EVERY = 100
"""Rounds between two centrings of Z. Its sum is 0 but for rounding, which would add up."""


def _settings(experiment: Experiment) -> Settings:
    return {
        **gossip_settings(experiment),
        **method_settings("carry", "s2s"),
        "network.mixing": "lazy",
        "server.period_schedule": "constant",
    }


class Carry(Method):
    """Add Z to every gradient, where Z accumulates what mixing and S2S remove from a model."""

    name = "carry"
    rule = (
        "X <- X - eta (G + Z); Z accumulates what mixing and the server (S2S) remove from a model, "
        "per step."
    )
    keeps = "Z: 1 array"
    sends = "2E over links; K up; K down: as S2S"
    exact = "yes, for every sample, on all problems tried; there is no proof"
    citation = "Skerry; experimental. W should have no negative eigenvalue: network.mixing = lazy"
    checked = "it is ours, with no proof"
    presets = (("carry", _settings, "Links are weighted by (I + W) / 2."),)
    rules = (
        AVERAGES,
        FIXED_PERIOD,
        must_be("server.primitive", "s2s", "none", why="S2A would move the average"),
    )
    is_experimental = True
    # What sparse messages leave out would come back into the gradient, again and again.
    link_compressions = ("int8",)

    def repeats(self, t: int) -> bool:
        return (t + 1) % CENTRED_EVERY != 0

    def start(self, X_nld: Tensor) -> Arrays:
        return {"z": X_nld.new_zeros(X_nld.shape)}

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        lanes.X_nld.addcmul_(lanes.state["z"], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        Z = lanes.state["z"]
        mix.collect(lanes.X_nld, Z, inverse(lanes.eta_l1) / lanes.local_steps)
        if (lanes.context.round + 1) % CENTRED_EVERY == 0:
            Z.sub_(Z.mean(dim=0))

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        scale_l1 = inverse(lanes.eta_l1) / (lanes.local_steps * lanes.context.period)
        reached = server.collect(lanes.X_nld, lanes.state["z"], scale_l1)
        return Traffic(len(server.sampled_k), reached)
