"""Gradient tracking: devices step along an estimate of the mean gradient of all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import ANY_COMPRESSION, AVERAGES, ONE_STEP, must_be
from skerry.config.presets import COMMON, gossip_settings, method_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic, inverse

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from skerry.config.experiment import Experiment
    from skerry.config.presets import Settings


def _settings(primitive: str) -> Callable[[Experiment], Settings]:
    return lambda experiment: {
        **gossip_settings(experiment),
        **method_settings("gradient_tracking", primitive),
        "method.tracker": "s2s",
    }


class GradientTracking(Method):
    """Step along Y, which follows the mean of all gradients: Y <- Y + G - G before it.

    Y goes to the server by S2S, whatever X does. The mean of Y is then always the mean of the last
    gradients. With `tracker="s2a"` it would not be, and the fleet would settle at a wrong point;
    with `tracker="home"` islands would never learn of each other. Both are there for comparison.
    """

    name = "gradient_tracking"
    rule = (
        "Y <- Y + G - G_before; X <- W (X - eta Y); Y <- W Y. The server applies the "
        "experiment's primitive to X, and S2S to Y."
    )
    keeps = "Y and the last gradient: 2 arrays"
    sends = "4E over links; 2K up; 2K (X by S2S) or n + K (X by S2A) down"
    exact = "yes, for every sample"
    citation = (
        "Di Lorenzo and Scutari, 2016; the same flow is a baseline in the code of SD-GT's authors"
    )
    checked = COMMON
    presets = (
        ("gradient_tracking", _settings("s2a"), "X goes by S2A, Y by S2S."),
        ("gradient_tracking_s2s", _settings("s2s"), "X and Y go by S2S."),
    )
    rules = (ONE_STEP, AVERAGES, must_be("server.primitive", "s2s", "s2a", "blend", "none"))
    link_compressions = ANY_COMPRESSION
    mixed_arrays = 2
    up = 2
    down_to_sampled = 1
    takes_different_starts = True
    is_repeatable = True
    allows_private = True

    def __init__(self, *, tracker: str):
        self.tracker = tracker
        if tracker != "s2s":
            self.up, self.down_to_sampled = (1, 0) if tracker == "home" else (2, 0)
            self.down_to_all = int(tracker == "s2a")

    def start(self, X_nld: Tensor) -> Arrays:
        return {name: X_nld.new_zeros(X_nld.shape) for name in ("y", "gradient")}

    def before_step(self, lanes: Lanes) -> Tensor | None:
        from skerry.kernels import fused

        X, Y, last = lanes.X_nld, lanes.state["y"], lanes.state["gradient"]
        if fused.runs_on(X):
            from skerry.kernels.tracking import before_step

            before_step(X, Y, last)
            return None
        return X.clone()

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        import torch

        X, Y, last = lanes.X_nld, lanes.state["y"], lanes.state["gradient"]
        if before is None:
            from skerry.kernels.tracking import after_step

            after_step(X, Y, last, lanes.eta_l1)
            return
        Y.sub_(last)
        torch.sub(before, X, out=last)
        last.mul_(inverse(lanes.eta_l1))
        Y.add_(last)
        torch.addcmul(before, Y, lanes.eta_l1, value=-1, out=X)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix(lanes.X_nld)
        mix(lanes.state["y"])

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        import torch

        sampled, Y = len(server.sampled_k), lanes.state["y"]
        received = server.deliver(lanes.X_nld)
        if self.tracker == "home":
            return Traffic(sampled, received)
        if self.tracker == "s2s":
            server.apply_s2s(Y)
            return Traffic(2 * sampled, received + sampled)
        reached = server.s2a_receivers
        Y[reached] = torch.einsum("k,kld->ld", server.weights_k, Y[server.sampled_k])
        return Traffic(2 * sampled, received + len(reached))
