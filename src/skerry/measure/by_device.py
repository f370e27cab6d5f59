"""What every device scores, summed up over devices, and as a table of single ones."""

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor

from skerry.engine.world import World

TENTH = 0.1
DeviceTable = dict[str, list[Any]]
"""A column for each thing that is known of devices, in their order: device, island, samples,
own_tests (test samples of its own; 0: its own score is by its label mix), and its scores."""


@dataclass(frozen=True)
class ByDevice:
    """What every device scored in one evaluation, by accuracy or loss, [n, L] each."""

    judged_by: Literal["accuracy", "loss"]
    device_nl: Tensor
    """On the test samples that all are measured on."""
    own_nl: Tensor
    """On its own test samples, or by its label mix."""
    component_nl: Tensor

    def fairness(self, component_n: Tensor) -> dict[str, Tensor]:
        """Who is left behind: the mean of the worst and of the best tenth of the devices, and how
        far apart the islands are whose devices do best and worst."""
        what, own_nl = self.judged_by, self.own_nl
        ranked_nl = own_nl.sort(dim=0, descending=what == "loss").values
        tenth = max(1, ceil(TENTH * len(ranked_nl)))
        islands = int(component_n.max()) + 1
        means_cl = own_nl.new_zeros(islands, own_nl.shape[1]).index_add_(0, component_n, own_nl)
        means_cl /= torch.bincount(component_n, minlength=islands).unsqueeze(1)
        return {
            f"own_{what}_worst_tenth": ranked_nl[:tenth].mean(dim=0),
            f"own_{what}_best_tenth": ranked_nl[-tenth:].mean(dim=0),
            f"own_{what}_island_gap": means_cl.amax(dim=0) - means_cl.amin(dim=0),
        }

    def tables(self, world: World, keys: tuple[str, ...]) -> dict[str, DeviceTable]:
        """By the lane's key, a row for every device."""
        own = world.partition.own_tests
        known: DeviceTable = {
            "device": list(world.fleet.labels),
            "island": list(world.islands),
            "samples": world.partition.sizes.tolist(),
            "own_tests": [0] * world.n if own is None else own.sizes.tolist(),
        }
        scored = {f"own_{self.judged_by}": self.own_nl, f"device_{self.judged_by}": self.device_nl}
        scores = {name: values_nl.double().cpu().T for name, values_nl in scored.items()}
        return {
            key: known | {name: _short(rows[lane]) for name, rows in scores.items()}
            for lane, key in enumerate(keys)
        }


def _short(values: Tensor) -> list[float]:
    """As many digits as single precision has."""
    return [float(f"{value:.7g}") for value in values.tolist()]
