"""The runs behind the paper's tables and figures: which grids, on which data, how often looked at.

A plan is the full grid of a study; a table or figure needs a slice of it. Runs are recorded by
their content, so slices that overlap are computed once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from skerry.errors import SkerryError
from skerry.experiment import Experiment
from skerry.paper.printed import REGIMES
from skerry.runs.sweep import Sweep

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
        table = _merged(
            SETTING,
            {"name": f"Reproduction: {self.about}"},
            self.base,
            self.quick_base if profile == "quick" else {},
            {"sweep": {"axes": axes, "seeds": self.seeds_in(profile)}},
        )
        return Sweep.parse(table, settings).runs()


@dataclass(frozen=True)
class Need:
    """A slice of a study."""

    study: str
    only: Axes = field(default_factory=dict)


def runs_of(
    needs: Iterable[Need], profile: Profile, settings: Sequence[str] = ()
) -> list[Experiment]:
    """All runs of these slices, each once."""
    found = (
        run for need in needs for run in PLANS[need.study].experiments(profile, need.only, settings)
    )
    return list({run.key(): run for run in found}.values())


def count_of(needs: Iterable[Need], profile: Profile) -> int:
    """How many runs these slices are, each counted once."""
    return len(
        {
            (need.study, place)
            for need in needs
            for place in PLANS[need.study].places(profile, need.only)
        }
    )


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
            found[name] = {**found[name], **value} if both else value
    return found


# What the plans are made of

ALL_REGIMES: Axes = {"data.intra, data.inter": tuple(SPLITS.values())}
GRID: Axes = {
    **ALL_REGIMES,
    "network.topology": TOPOLOGIES,
    "server.sampled": SAMPLED_OR_ALL,
    "server.period": PERIODS,
    "server.primitive": BOTH,
    "training.stepsize": STEPSIZES,
}

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

PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            name="mnist",
            dataset="mnist",
            about="the linear model on MNIST",
            base=_merged(MNIST, {"evaluate": LAST_ROUNDS}),
            axes=GRID,
            seeds=5,
            quick_axes={"training.stepsize": (0.1,)},
            quick_base={"evaluate": MNIST_QUICK_LOOKS},
            left_out="Quick runs two seeds instead of five, the largest stepsize instead of all "
            "four, and looks at every fourth of the last 20 rounds, where it scores devices on "
            "2,000 test samples.",
        ),
        Plan(
            name="mnist-raw",
            dataset="mnist",
            about="the linear model on MNIST, inputs in [0, 1]",
            base=_merged(MNIST, {"data": {"scaling": "unit"}, "evaluate": LAST_ROUNDS}),
            axes=GRID,
            seeds=5,
            quick_axes={"training.stepsize": (0.01, 0.1)},
            quick_base={"evaluate": MNIST_QUICK_LOOKS},
            quick_seeds=1,
            left_out="Quick runs one seed instead of five and two stepsizes instead of four.",
        ),
        Plan(
            name="mnist-curves",
            dataset="mnist",
            about="MNIST round by round",
            base=_merged(MNIST, {"evaluate": {"devices_every": 4, "measures": ACCURACIES}}),
            axes={
                "data.intra, data.inter": (SPLITS["R3"],),
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
            base=_merged(
                MNIST, {"evaluate": {"after": 80, "measures": [*ACCURACIES, "consensus"]}}
            ),
            axes={
                **ALL_REGIMES,
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
            quick_base={"evaluate": MNIST_QUICK_LOOKS},
            constants=True,
            left_out="Quick runs two seeds instead of five, the largest stepsize and the complete "
            "graph alone.",
        ),
        Plan(
            name="cifar10",
            dataset="cifar10",
            about="the CNN on CIFAR-10",
            base=_merged(CIFAR10, {"evaluate": CIFAR10_LOOKS}),
            axes={**GRID, "training.stepsize": (0.1,)},
            seeds=3,
            quick_seeds=1,
            left_out="Quick runs one seed instead of three.",
        ),
        Plan(
            name="cifar10-stepsizes",
            dataset="cifar10",
            about="stepsizes for the CNN on CIFAR-10",
            base=_merged(CIFAR10, {"evaluate": CIFAR10_LOOKS}),
            axes={
                **ALL_REGIMES,
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
                **ALL_REGIMES,
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
            curves=LONG_CURVES,
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
                "data.intra, data.inter": (SPLITS["R2"], SPLITS["R3"]),
                "network.topology": ("complete",),
                "server.period": (20,),
                "server.primitive": BOTH,
            },
            seeds=1,
            quick_base={"rounds": 200},
            quick_seeds=1,
            curves=LONG_CURVES,
            left_out="Quick ends after 200 rounds instead of 1,000.",
        ),
    )
}
DATASETS = tuple(dict.fromkeys(plan.dataset for plan in PLANS.values()))
