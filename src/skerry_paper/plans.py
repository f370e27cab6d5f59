"""The runs behind the paper's tables and figures: the grid of every study, and slices of them.

A table or figure needs a slice of a plan. Runs are recorded by their content, so slices that
overlap are computed once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skerry.config.experiment import Experiment
from skerry_paper.further_plans import FURTHER
from skerry_paper.plan import (
    ACCURACIES,
    ALL_REGIMES,
    BETAS,
    BOTH,
    CIFAR10,
    CIFAR10_LOOKS,
    CORNERS,
    GRID,
    LAST_ROUNDS,
    LONG,
    LONG_CURVES,
    MNIST,
    MNIST_QUICK_LOOKS,
    SPLITS,
    STEPSIZES,
    Axes,
    Plan,
    Profile,
    merged,
)


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


PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            name="mnist",
            dataset="mnist",
            about="the linear model on MNIST",
            base=merged(MNIST, {"evaluate": LAST_ROUNDS}),
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
            base=merged(MNIST, {"data": {"scaling": "unit"}, "evaluate": LAST_ROUNDS}),
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
            base=merged(MNIST, {"evaluate": {"devices_every": 4, "measures": ACCURACIES}}),
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
            base=merged(MNIST, {"evaluate": {"after": 80, "measures": [*ACCURACIES, "consensus"]}}),
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
            base=merged(CIFAR10, {"evaluate": CIFAR10_LOOKS}),
            axes={**GRID, "training.stepsize": (0.1,)},
            seeds=5,
            quick_seeds=1,
            left_out="Quick runs one seed instead of five.",
        ),
        Plan(
            name="cifar10-stepsizes",
            dataset="cifar10",
            about="stepsizes for the CNN on CIFAR-10",
            base=merged(CIFAR10, {"evaluate": CIFAR10_LOOKS}),
            axes=GRID,
            seeds=1,
            quick_axes=CORNERS,
            quick_seeds=1,
            left_out="Quick runs the ring, K/n = 0.2, H = 5 and 20 alone.",
        ),
        Plan(
            name="cifar10-long",
            dataset="cifar10",
            about="the CNN on CIFAR-10 over 1,000 rounds",
            base=merged(CIFAR10, {"training": {"stepsize": 0.1}}, LONG),
            axes={
                **ALL_REGIMES,
                "network.topology, network.dynamic": (
                    ("ring", False),
                    ("regular", False),
                    ("regular", True),
                ),
                "server.period": (15, 20),
                "server.optimizer": ("fedavg", "fedavgm", "fedavgm_averages"),
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
            base=merged(
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
        *FURTHER,
    )
}
DATASETS = tuple(dict.fromkeys(plan.dataset for plan in PLANS.values()))
