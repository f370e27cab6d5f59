"""SD-GT: gradient tracking with corrections inside islands and between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import AVERAGES, ONE_STEP, WHOLE_PERIODS, must_be, samples_every_island
from skerry.config.presets import (
    CODE,
    every_island_settings,
    gossip_settings,
    method_settings,
    whole_period_settings,
)
from skerry.errors import SkerryError
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic, inverse

if TYPE_CHECKING:
    from torch import Tensor

    from skerry.config.experiment import Experiment
    from skerry.config.presets import Settings


def _settings(experiment: Experiment) -> Settings:
    return {
        **gossip_settings(experiment),
        **method_settings("sd_gt", "s2s"),
        **every_island_settings(experiment),
        **whole_period_settings(experiment),
    }


class SdGt(Method):
    """Correct gradients by Y for differences between islands, and by Z for those inside them.

    Z is gathered while devices mix, and used from the next server round on.
    """

    name = "sd_gt"
    rule = (
        "X <- W (X - eta (G + Y + Z)); Z accumulates (W (G + Z) - (G + Z)) / H. At the server, Y "
        "of a sampled device becomes the mean movement of its island less that of all islands, per "
        "step."
    )
    keeps = (
        "Y, Z, the next Z, G + Z and the models of the last server round: 5 arrays; a server model"
    )
    sends = "4E over links; K up; 2K down"
    exact = "yes, if every island is sampled"
    citation = "Chen et al., INFOCOM; here islands count by their size, there alike"
    checked = f"{CODE}EvanChen022kan/SD-GT-INFOCOM"
    presets = (
        (
            "sd_gt",
            _settings,
            "K is rounded down to a multiple of the number of islands, as many devices of each.",
        ),
    )
    rules = (
        ONE_STEP,
        AVERAGES,
        must_be("server.primitive", "s2s"),
        samples_every_island,
        *WHOLE_PERIODS,
    )
    mixed_arrays = 2
    down = 2
    is_repeatable = True

    def start(self, X_nld: Tensor) -> Arrays:
        return {
            **{name: X_nld.new_zeros(X_nld.shape) for name in ("y", "z", "z_next", "sum")},
            "x_start": X_nld.clone(),
            "s": X_nld[0].clone(),
        }

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld.clone()

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        import torch

        assert before is not None
        X, own = lanes.X_nld, lanes.state
        torch.sub(before, X, out=own["sum"])
        own["sum"].mul_(inverse(lanes.eta_l1)).add_(own["z"])  # G + Z, which is mixed too
        X.addcmul_(own["y"], lanes.eta_l1, value=-1).addcmul_(own["z"], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix(lanes.X_nld)
        own = lanes.state
        own["z_next"].sub_(own["sum"], alpha=1 / lanes.context.period)
        mix(own["sum"])
        own["z_next"].add_(own["sum"], alpha=1 / lanes.context.period)

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        import torch

        X, own, S = lanes.X_nld, lanes.state, server.sampled_k
        moved = X[S] - own["x_start"][S] + server.eta_sum_l1 * own["y"][S]
        island_k = server.islands_n[S]
        sizes = server.islands_n.bincount()
        belongs_ck = island_k == torch.arange(len(sizes), device=S.device)[:, None]
        counts = belongs_ck.sum(dim=1)
        if not counts.all():
            raise SkerryError(
                "method 'sd_gt' needs every island at the server (in round "
                f"{lanes.context.round} one was not sampled). Set server.selection=one_each."
            )
        means = torch.einsum("ck,kld->cld", belongs_ck / counts[:, None].to(moved), moved)
        mean = torch.einsum("c,cld->ld", sizes.to(means) / sizes.sum(), means)
        own["s"] += mean
        own["y"][S] = (means[island_k] - mean) * inverse(server.eta_sum_l1)
        X[S] = own["s"]
        own["z"].copy_(own["z_next"])
        own["x_start"].copy_(X)
        return Traffic(len(S), 2 * len(S))
