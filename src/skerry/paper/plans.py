"""The runs behind the paper's tables and figures: which grids, on which data, how often looked at.

A plan is the full grid of a study; a table or figure needs a slice of it. Runs are recorded by
their content, so slices that overlap are computed once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from skerry.errors import SkerryError
from skerry.experiment import Experiment
from skerry.runs.sweep import Sweep

Profile = Literal["quick", "full"]
Axes = Mapping[str, Sequence[Any]]

STEPSIZES = (10**-2.5, 0.01, 10**-1.5, 0.1)
SHARES = (20, 40, 60, 80)
"""Sampled devices of the tables; the figures add all 100, where S2S and S2A are the same."""
ALL_SHARES = (*SHARES, 100)
PERIODS = (5, 10, 15, 20)
TOPOLOGIES = ("complete", "grid", "ring")
BOTH = ("s2s", "s2a")
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

REGIMES: dict[str, tuple[str, str]] = {
    "R1": ("iid", "iid"),
    "R2": ("dirichlet", "iid"),
    "R3": ("iid", "non_iid"),
    "R3, intra non-IID": ("dirichlet", "non_iid"),
}
"""Intra and inter split by the paper's name; its third regime has two of them."""

SETTING: dict[str, Any] = {
    "rounds": 100,
    "network": {"devices": 100, "components": 2},
    "data": {"alpha": 0.1},
    "training": {"batch": 128},
}
REGIME_AXES: Axes = {"data.intra, data.inter": tuple(REGIMES.values())}

# A look in every fourth round of the last twenty sees each round since the server's visit equally
# often when H = 5, and does not fall on visits alone for any other H.
FEW_LOOKS = {"every": 4, "after": 80}
SCORED = ["average", "devices"]


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

    def grid(self, profile: Profile, only: Axes) -> dict[str, list[Any]]:
        """The axes of a slice: `only` shortens them."""
        axes = {**self.axes, **(self.quick_axes if profile == "quick" else {})}
        for name, values in only.items():
            if name not in axes:
                raise SkerryError(f"{name} is no axis of the study {self.name}.")
            axes[name] = [value for value in values if value in axes[name]]
        return {name: list(values) for name, values in axes.items()}

    def cells(self, profile: Profile, only: Axes) -> set[tuple[Any, ...]]:
        """Every run of a slice, by its place in the grid and its seed."""
        return {*product(*self.grid(profile, only).values(), range(self.count(profile)))}

    def count(self, profile: Profile) -> int:
        """How many seeds there are."""
        return self.quick_seeds if profile == "quick" else self.seeds

    def experiments(
        self, profile: Profile, only: Axes, settings: Sequence[str] = ()
    ) -> list[Experiment]:
        """The runs of a slice."""
        axes = self.grid(profile, only)
        if not all(axes.values()):
            return []
        table = _merged(
            SETTING,
            {"name": f"Reproduction: {self.about}"},
            self.base,
            self.quick_base if profile == "quick" else {},
            {"sweep": {"axes": axes, "seeds": self.count(profile)}},
        )
        return Sweep.parse(table, settings).runs()


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
            found[name] = {**found[name], **value} if both else value
    return found


GRID: Axes = {
    **REGIME_AXES,
    "network.topology": TOPOLOGIES,
    "server.sampled": ALL_SHARES,
    "server.period": PERIODS,
    "server.primitive": BOTH,
    "training.stepsize": STEPSIZES,
}
QUICK = "Quick runs two seeds instead of five, the largest stepsize instead of all four, and looks "
QUICK += "at every fourth of the last 20 rounds, where it scores devices on 2,000 test samples."

MNIST = {
    "data": {"dataset": "mnist"},
    "model": {"name": "linear"},
    "training": {"precision": "tf32"},
}
CIFAR10 = {
    "data": {"dataset": "cifar10"},
    "model": {"name": "cnn_cifar10"},
    "training": {"precision": "bf16"},
}
CIFAR_LOOKS = {**FEW_LOOKS, "device_samples": 1000, "measures": SCORED}
LONG = {
    "rounds": 1000,
    "server": {"sampled": 20},
    "evaluate": {
        "devices_every": 7,  # no divisor of a period: every round since a visit is seen as often
        "device_samples": 1000,
        "measures": [*SCORED, "consensus"],
    },
}
CURVES = (
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

PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            name="mnist",
            dataset="mnist",
            about="the linear model on MNIST",
            base=_merged(MNIST, {"evaluate": {"after": 80, "measures": SCORED}}),
            axes=GRID,
            seeds=5,
            quick_axes={"training.stepsize": (0.1,)},
            quick_base={"evaluate": {**FEW_LOOKS, "device_samples": 2000}},
            left_out=QUICK,
        ),
        Plan(
            name="mnist-raw",
            dataset="mnist",
            about="the linear model on MNIST, inputs in [0, 1]",
            base=_merged(
                MNIST,
                {"data": {"scaling": "unit"}, "evaluate": {"after": 80, "measures": SCORED}},
            ),
            axes=GRID,
            seeds=5,
            quick_axes={"training.stepsize": (0.01, 0.1)},
            quick_base={"evaluate": {**FEW_LOOKS, "device_samples": 2000}},
            quick_seeds=1,
            left_out="Quick runs one seed instead of five and two stepsizes instead of four.",
        ),
        Plan(
            name="mnist-curves",
            dataset="mnist",
            about="MNIST round by round",
            base=_merged(MNIST, {"evaluate": {"devices_every": 4, "measures": SCORED}}),
            axes={
                "data.intra, data.inter": (REGIMES["R3"],),
                "network.topology": ("ring",),
                "server.sampled": (20,),
                "server.period": (5,),
                "server.primitive": BOTH,
                "training.stepsize": STEPSIZES,
            },
            seeds=5,
            quick_axes={"training.stepsize": (0.1,)},
            quick_base={"evaluate": {"device_samples": 2000}},
            curves=("average_accuracy", "own_accuracy", "device_accuracy"),
            left_out="Quick runs two seeds instead of five and the largest stepsize alone.",
        ),
        Plan(
            name="mnist-blend",
            dataset="mnist",
            about="the dial between S2S and S2A on MNIST",
            base=_merged(MNIST, {"evaluate": {"after": 80, "measures": [*SCORED, "consensus"]}}),
            axes={
                **REGIME_AXES,
                "network.topology": ("complete", "ring"),
                "server.sampled": (20,),
                "server.period": (5, 20),
                "server.primitive, server.beta": tuple(
                    ("s2s" if b == 0 else "s2a" if b == 1 else "blend", b) for b in BETAS
                ),
                "training.stepsize": STEPSIZES,
            },
            seeds=5,
            quick_axes={"training.stepsize": (0.1,), "network.topology": ("complete",)},
            quick_base={"evaluate": {**FEW_LOOKS, "device_samples": 2000}},
            constants=True,
            left_out="Quick runs two seeds instead of five, the largest stepsize and the complete "
            "graph alone.",
        ),
        Plan(
            name="cifar10",
            dataset="cifar10",
            about="the CNN on CIFAR-10",
            base=_merged(CIFAR10, {"evaluate": CIFAR_LOOKS}),
            axes={**GRID, "training.stepsize": (0.1,)},
            seeds=3,
            quick_seeds=1,
            left_out="Quick runs one seed instead of three.",
        ),
        Plan(
            name="cifar10-stepsizes",
            dataset="cifar10",
            about="stepsizes for the CNN on CIFAR-10",
            base=_merged(CIFAR10, {"evaluate": CIFAR_LOOKS}),
            axes={
                **REGIME_AXES,
                "network.topology": ("ring",),
                "server.sampled": (20,),
                "server.period": (5, 20),
                "server.primitive": BOTH,
                "training.stepsize": STEPSIZES,
            },
            seeds=1,
            quick_seeds=1,
        ),
        Plan(
            name="cifar10-long",
            dataset="cifar10",
            about="the CNN on CIFAR-10 over 1,000 rounds",
            base=_merged(CIFAR10, {"training": {"stepsize": 0.1}}, LONG),
            axes={
                **REGIME_AXES,
                "network.topology, network.dynamic": (
                    ("ring", False),
                    ("regular", False),
                    ("regular", True),
                ),
                "server.period": (15, 20),
                "server.optimizer": ("fedavg", "fedavgm"),
                "server.primitive": BOTH,
            },
            seeds=3,
            quick_base={"rounds": 200},
            quick_seeds=1,
            curves=CURVES,
            left_out="Quick runs one seed instead of three, for 200 rounds instead of 1,000.",
        ),
        Plan(
            name="cifar100",
            dataset="cifar100",
            about="the deeper CNN on CIFAR-100",
            base=_merged(
                LONG,
                {
                    "data": {"dataset": "cifar100"},
                    "model": {"name": "cnn_cifar100"},
                    "training": {"precision": "bf16", "stepsize": 0.1},
                },
            ),
            axes={
                "data.intra, data.inter": (REGIMES["R2"], REGIMES["R3"]),
                "network.topology": ("complete",),
                "server.period": (20,),
                "server.primitive": BOTH,
            },
            seeds=1,
            quick_base={"rounds": 200},
            quick_seeds=1,
            curves=CURVES,
            left_out="Quick ends after 200 rounds instead of 1,000.",
        ),
    )
}
