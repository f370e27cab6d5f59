"""A plan: the full grid of a study, and how often its runs are looked at; what plans share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.runs.sweep import Sweep
from skerry_paper.printed import REGIMES

Profile = Literal["quick", "full"]
Axes = Mapping[str, Sequence[Any]]

DEVICES = 100
STEPSIZES = (10**-2.5, 0.01, 10**-1.5, 0.1)
SAMPLED = (20, 40, 60, 80)
"""Sampled devices of the tables; the figures add all 100, where S2S and S2A are the same."""
SAMPLED_OR_ALL = (*SAMPLED, DEVICES)
PERIODS = (5, 10, 15, 20)
TOPOLOGIES = ("complete", "grid", "ring")
BOTH = ("s2s", "s2a")
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

INTRA = {"iid": "iid", "non-iid": "dirichlet"}
INTER = {"iid": "iid", "non-iid": "non_iid"}
SPLITS = {name: (INTRA[intra], INTER[inter]) for name, (intra, inter) in REGIMES.items()}
"""Of each regime, data.intra and data.inter."""

SETTING: dict[str, Any] = {
    "rounds": 100,
    "network": {"devices": DEVICES, "components": 2},
    "data": {"alpha": 0.1},
    "training": {"batch": 128},
}


@dataclass(frozen=True)
class Plan:
    """A study that can be run."""

    name: str
    dataset: str
    about: str
    base: Mapping[str, Any]
    """What all runs share, beyond SETTING."""
    axes: Axes
    """The whole grid."""
    seeds: int
    quick_axes: Axes = field(default_factory=dict)
    """Axes that quick shortens."""
    quick_base: Mapping[str, Any] = field(default_factory=dict)
    quick_seeds: int = 2
    curves: tuple[str, ...] = ()
    """Measures that are kept round by round."""
    constants: bool = False
    """Whether the theory's constants are measured on its problems."""
    left_out: str = ""
    """What quick leaves out, in words."""

    def slice_axes(self, profile: Profile, only: Axes) -> dict[str, list[Any]]:
        """The axes of a slice: `only` shortens them."""
        axes = {**self.axes, **(self.quick_axes if profile == "quick" else {})}
        for name, values in only.items():
            if name not in axes:
                raise SkerryError(f"{name} is no axis of the study {self.name}.")
            axes[name] = [value for value in values if value in axes[name]]
        return {name: list(values) for name, values in axes.items()}

    def seeds_in(self, profile: Profile) -> int:
        """How many seeds there are."""
        return self.quick_seeds if profile == "quick" else self.seeds

    def places(self, profile: Profile, only: Axes) -> set[tuple[Any, ...]]:
        """Every run of a slice, by its place in the grid and its seed."""
        return {*product(*self.slice_axes(profile, only).values(), range(self.seeds_in(profile)))}

    def experiments(
        self, profile: Profile, only: Axes, settings: Sequence[str] = ()
    ) -> list[Experiment]:
        """The runs of a slice."""
        axes = self.slice_axes(profile, only)
        if not all(axes.values()):
            return []
        table = merged(
            SETTING,
            {"name": f"Reproduction: {self.about}"},
            self.base,
            self.quick_base if profile == "quick" else {},
            {"sweep": {"axes": axes, "seeds": self.seeds_in(profile)}},
        )
        return Sweep.parse(table, settings).runs()


def merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
            found[name] = {**found[name], **value} if both else value
    return found


# What plans are made of

ALL_REGIMES: Axes = {"data.intra, data.inter": tuple(SPLITS.values())}
GRID: Axes = {
    **ALL_REGIMES,
    "network.topology": TOPOLOGIES,
    "server.sampled": SAMPLED_OR_ALL,
    "server.period": PERIODS,
    "server.primitive": BOTH,
    "training.stepsize": STEPSIZES,
}
CORNERS: Axes = {
    "network.topology": ("ring",),
    "server.sampled": (20,),
    "server.period": (5, 20),
}
"""Few cells of it, in every regime."""

# A look in every fourth round of the last twenty sees each round since the last server round
# equally often when H = 5, and does not fall on server rounds alone for any other H.
FEW_LOOKS = {"every": 4, "after": 80}
ACCURACIES = ["average", "devices"]
LAST_ROUNDS = {"after": 80, "measures": ACCURACIES}

MNIST = {
    "data": {"dataset": "mnist"},
    "model": {"name": "linear"},
    "training": {"precision": "tf32"},
}
MNIST_QUICK_LOOKS = {**FEW_LOOKS, "device_samples": 2000}
CIFAR10 = {
    "data": {"dataset": "cifar10"},
    "model": {"name": "cnn_cifar10"},
    "training": {"precision": "bf16"},
}
CIFAR10_LOOKS = {**FEW_LOOKS, "device_samples": 1000, "measures": ACCURACIES}
LONG = {
    "rounds": 1000,
    "server": {"sampled": 20},
    "evaluate": {
        # No divisor of a period: every round since the last server round is seen as often.
        "devices_every": 7,
        "device_samples": 1000,
        "measures": [*ACCURACIES, "consensus"],
    },
}
LONG_CURVES = (
    "average_accuracy",
    "average_loss",
    "own_accuracy",
    "device_accuracy",
    "component_accuracy",
    "disagreement",
    "disagreement_before",
    "bias",
    "disagreement_ratio",
    "bias_ratio",
)
