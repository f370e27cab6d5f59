"""The grids of runs behind the paper's tables and figures, and behind further checks of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skerry.config.experiment import Experiment
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
    PERIODS,
    SAMPLED,
    SPLITS,
    STEPSIZES,
    TOPOLOGIES,
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


BELOW, ABOVE = 10**-3.0, 10**-0.5
"""One stepsize more on both sides of the paper's range."""

# The round before a server round too, so that what it takes is seen: of H = 5, 10 and 20 at 80.
EACH_ROUND = {"after": 79, "measures": ACCURACIES}
EACH_ROUND_CURVES = ("average_accuracy", "own_accuracy")
FEW_CELLS: Axes = {
    **ALL_REGIMES,
    **CORNERS,
    "server.primitive": BOTH,
    "training.stepsize": (0.1,),
}
"""Cells on the ring in which CIFAR-10 is run in other ways."""

R2, R3, HARDEST = (SPLITS[name] for name in ("R2", "R3", "R3, intra non-IID"))
DROPS = "data.intra, data.inter, network.topology, network.dynamic, server.period, server.optimizer"
ON_A_RING = (*R3, "ring", False, 20)
DROP_SETTINGS = (
    (*ON_A_RING, "fedavg"),
    (*ON_A_RING, "fedavgm"),
    (*ON_A_RING, "fedavgm_averages"),
    (*R2, "ring", False, 20, "fedavg"),
    (*HARDEST, "ring", False, 20, "fedavg"),
    (*HARDEST, "ring", False, 15, "fedavg"),
    (*R3, "regular", False, 20, "fedavg"),
    (*R3, "regular", True, 20, "fedavg"),
)
"""Those of figures 5 and 9 to 12, and another momentum."""

FLEET = "network.components, network.topology, model.name"
FLEETS = (
    ((25,) * 4, "ring", "linear"),
    ((10,) * 10, "ring", "linear"),
    ((70, 30), "ring", "linear"),
    ((40, 30, 20, 10), "ring", "linear"),
    ((50, 50), "star", "linear"),
    ((50, 50), "erdos_renyi", "linear"),
    ((50, 50), "ring", "mlp"),
    ((25,) * 4, "complete", "mlp"),
)
"""Unlike the paper's two equal islands with a linear model: more islands, unequal ones, other
graphs, hidden units."""


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
        # Studies that the paper does not have.
        Plan(
            name="mnist-each-round",
            dataset="mnist",
            about="MNIST, every round from 80 on",
            base=merged(MNIST, {"evaluate": EACH_ROUND}),
            axes={
                **ALL_REGIMES,
                "network.topology": TOPOLOGIES,
                "server.sampled": SAMPLED,
                "server.period": PERIODS,
                "server.primitive": BOTH,
                "training.stepsize": (0.1,),
            },
            seeds=5,
            quick_base={"evaluate": {**EACH_ROUND, "device_samples": 2000}},
            quick_seeds=1,
            curves=EACH_ROUND_CURVES,
            left_out="Quick runs one seed instead of five.",
        ),
        Plan(
            name="cifar10-each-round",
            dataset="cifar10",
            about="CIFAR-10, every round from 80 on",
            base=merged(CIFAR10, {"evaluate": {**EACH_ROUND, "device_samples": 1000}}),
            axes={**FEW_CELLS, "server.period": PERIODS},
            seeds=3,
            quick_seeds=1,
            curves=EACH_ROUND_CURVES,
            left_out="Quick runs one seed instead of three.",
        ),
        Plan(
            name="cifar10-all-samples",
            dataset="cifar10",
            about="CIFAR-10, devices scored on all test samples in the final round",
            base=merged(CIFAR10, {"evaluate": {"after": 99, "measures": ACCURACIES}}),
            axes=FEW_CELLS,
            seeds=2,
            quick_seeds=1,
            left_out="Quick runs one seed instead of two.",
        ),
        Plan(
            name="mnist-edges",
            dataset="mnist",
            about="MNIST at stepsizes beyond the paper's range",
            base=merged(MNIST, {"evaluate": LAST_ROUNDS}),
            axes={
                "data.scaling": ("standard", "unit"),
                **GRID,
                "training.stepsize": (ABOVE, BELOW),
            },
            seeds=5,
            quick_axes={"training.stepsize": (ABOVE,)},
            quick_base={"evaluate": MNIST_QUICK_LOOKS},
            quick_seeds=1,
            left_out="Quick runs one seed instead of five, and the larger stepsize alone.",
        ),
        Plan(
            name="cifar10-edges",
            dataset="cifar10",
            about="CIFAR-10 at other stepsizes",
            base=merged(CIFAR10, {"evaluate": CIFAR10_LOOKS}),
            axes={
                **FEW_CELLS,
                "server.sampled": (20, 60),
                "training.stepsize": (ABOVE, 10**-1.5, BELOW),
            },
            seeds=2,
            quick_seeds=1,
            left_out="Quick runs one seed instead of two.",
        ),
        Plan(
            name="cifar10-drops",
            dataset="cifar10",
            about="CIFAR-10, devices scored in every round, with momentum of two kinds",
            base=merged(
                CIFAR10,
                {
                    "rounds": 200,
                    "server": {"sampled": 20},
                    "training": {"stepsize": 0.1, "precision": "bf16"},
                    "evaluate": {"device_samples": 500, "measures": ACCURACIES},
                },
            ),
            axes={DROPS: DROP_SETTINGS, "server.primitive": BOTH},
            seeds=2,
            quick_base={"rounds": 60},
            quick_seeds=1,
            curves=EACH_ROUND_CURVES,
            left_out="Quick runs one seed instead of two, for 60 rounds instead of 200.",
        ),
        Plan(
            name="cifar10-main-text",
            dataset="cifar10",
            about="the CNN of 1.1 million parameters on CIFAR-10",
            base=merged(CIFAR10, {"model": {"variant": "main_text"}, "evaluate": CIFAR10_LOOKS}),
            axes=FEW_CELLS,
            seeds=2,
            quick_seeds=1,
            left_out="Quick runs one seed instead of two.",
        ),
        Plan(
            name="cifar10-float32",
            dataset="cifar10",
            about="CIFAR-10 without rounding to bf16",
            base=merged(CIFAR10, {"training": {"precision": "float32"}, "evaluate": CIFAR10_LOOKS}),
            axes=FEW_CELLS,
            seeds=2,
            quick_seeds=1,
            left_out="Quick runs one seed instead of two.",
        ),
        Plan(
            name="fleets",
            dataset="mnist",
            about="MNIST on fleets unlike the paper's",
            base=merged(MNIST, {"evaluate": LAST_ROUNDS}),
            axes={
                FLEET: FLEETS,
                **ALL_REGIMES,
                "server.sampled": (20, 60),
                "server.period": (5, 20),
                "server.primitive": BOTH,
                "training.stepsize": (10**-1.5, 0.1, ABOVE),
            },
            seeds=3,
            quick_axes={"training.stepsize": (0.1,)},
            quick_base={"evaluate": MNIST_QUICK_LOOKS},
            quick_seeds=1,
            left_out="Quick runs one seed instead of three, and one stepsize instead of three.",
        ),
    )
}
DATASETS = tuple(dict.fromkeys(plan.dataset for plan in PLANS.values()))
