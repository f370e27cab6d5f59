"""Studies that the paper does not have, and that say how far its tables depend on what it leaves
open: when devices are scored, where the range of stepsizes ends, rounding, the size of the network,
server momentum; and its guidelines on fleets unlike its own.
"""

from skerry_paper.plan import (
    ACCURACIES,
    ALL_REGIMES,
    BOTH,
    CIFAR10,
    CIFAR10_LOOKS,
    CORNERS,
    GRID,
    LAST_ROUNDS,
    MNIST,
    MNIST_QUICK_LOOKS,
    PERIODS,
    SAMPLED,
    SPLITS,
    TOPOLOGIES,
    Axes,
    Plan,
    merged,
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

FURTHER = (
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
