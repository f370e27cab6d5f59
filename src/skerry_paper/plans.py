"""The plans of all studies: the runs behind the paper's tables and figures, and further checks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skerry.config.experiment import Experiment
from skerry_paper import plan
from skerry_paper.plan import BOTH, CORNERS, SPLITS, STEPSIZES, Axes, Profile, StudyPlan


@dataclass(frozen=True)
class PlanSlice:
    """The part of a study that a table or figure needs: the values in `only`, or everything."""

    study: str
    only: Axes = field(default_factory=dict)


def runs_of(
    needs: Iterable[PlanSlice], profile: Profile, settings: Sequence[str] = ()
) -> list[Experiment]:
    """All runs of these slices, each once: slices may overlap."""
    runs = (
        run for need in needs for run in PLANS[need.study].experiments(profile, need.only, settings)
    )
    return list({run.key(): run for run in runs}.values())


def count_plan_runs(needs: Iterable[PlanSlice], profile: Profile) -> int:
    """Number of runs of these slices, each counted once."""
    points = ((n.study, PLANS[n.study].grid_points(profile, n.only)) for n in needs)
    return len({(study, point) for study, of_slice in points for point in of_slice})


# Axes and tables that several plans share

ALL_REGIMES: Axes = {"data.intra, data.inter": tuple(SPLITS.values())}
GRID: Axes = {
    **ALL_REGIMES,
    "network.topology": plan.TOPOLOGIES,
    "server.sampled": plan.SAMPLED_OR_ALL,
    "server.period": plan.PERIODS,
    "server.primitive": BOTH,
    "training.stepsize": STEPSIZES,
}
FEW_CELLS: Axes = {**ALL_REGIMES, **CORNERS, "server.primitive": BOTH, "training.stepsize": (0.1,)}
"""Cells on the ring that repeat CIFAR-10 with other settings."""
BELOW, ABOVE = 10**-3.0, 10**-0.5
"""One more stepsize on either side of the paper's range."""

# Evaluating every fourth of the last twenty rounds covers each phase of a period equally often for
# H = 5, and does not coincide with server rounds for any other H.
FEW_LOOKS = {"every": 4, "after": 80}
ACCURACIES = ["average", "devices"]
LAST_ROUNDS = {"evaluate": {"after": 80, "measures": ACCURACIES}}
# From round 79, so that the round before a server round at 80 (H = 5, 10 and 20) is recorded too.
EACH_ROUND = {"after": 79, "measures": ACCURACIES}
EACH_ROUND_CURVES = ("average_accuracy", "own_accuracy")

MNIST = {
    "data": {"dataset": "mnist"},
    "model": {"name": "linear"},
    "training": {"precision": "tf32"},
}
MNIST_QUICK = {"evaluate": {**FEW_LOOKS, "device_samples": 2000}}
CIFAR10 = {
    "data": {"dataset": "cifar10"},
    "model": {"name": "cnn_cifar10"},
    "training": {"precision": "bf16"},
}
CIFAR10_LOOKS = {"evaluate": {**FEW_LOOKS, "device_samples": 1000, "measures": ACCURACIES}}
LONG = {
    "rounds": 1000,
    "server": {"sampled": 20},
    "evaluate": {
        # 7 divides no period, so every phase of a period is evaluated equally often.
        "devices_every": 7,
        "device_samples": 1000,
        "measures": [*ACCURACIES, "consensus"],
    },
}
LONG_CURVES = (
    *("average_accuracy", "average_loss", "own_accuracy", "device_accuracy", "component_accuracy"),
    *("disagreement", "disagreement_before", "bias", "disagreement_ratio", "bias_ratio"),
)

R2, R3, HARDEST = (SPLITS[name] for name in ("R2", "R3", "R3, intra non-IID"))
DROPS = "data.intra, data.inter, network.topology, network.dynamic, server.period, server.optimizer"
DROP_SETTINGS = (
    (*R3, "ring", False, 20, "fedavg"),
    (*R3, "ring", False, 20, "fedavgm"),
    (*R3, "ring", False, 20, "fedavgm_averages"),
    (*R2, "ring", False, 20, "fedavg"),
    (*HARDEST, "ring", False, 20, "fedavg"),
    (*HARDEST, "ring", False, 15, "fedavg"),
    (*R3, "regular", False, 20, "fedavg"),
    (*R3, "regular", True, 20, "fedavg"),
)
"""The settings of figures 5 and 9 to 12, and a second kind of momentum."""

CONVENTIONS = {"data": {"own_tests": "dealt"}}
"""Training and test samples are dealt by one rule; a device is scored on its own test samples."""
SAMPLES = "data.sample_share, training.sampling, training.weight_decay"
SAMPLE_RULES = (
    (0.2, "epochs", 0.0),
    (1.0, "epochs", 0.0),
    (0.2, "replacement", 0.0),
    (1.0, "replacement", 0.0),
    (0.2, "epochs", 5e-4),
    (1.0, "epochs", 5e-4),
)
"""The share of the samples that is used, how minibatches are drawn, and the weight decay. The first
follows that code; each of the others changes one thing or two."""
CONVENTION_MEASURES = [*ACCURACIES, "label_mix"]
PRINTED_GRID: Axes = {
    **ALL_REGIMES,
    "network.topology": plan.TOPOLOGIES,
    "server.sampled, server.period": (
        *((sampled, 5) for sampled in plan.SAMPLED),
        *((20, period) for period in plan.PERIODS if period > 5),
    ),
    "server.primitive": BOTH,
}
"""The cells of tables 3 to 6, each once."""

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
"""Fleets unlike the paper's two equal islands with a linear model."""


_OF_THE_PAPER = (
    StudyPlan(
        "mnist",
        "the linear model on MNIST",
        base=(MNIST, LAST_ROUNDS),
        axes=GRID,
        seeds=(5, 2),
        quick_axes={"training.stepsize": (0.1,)},
        quick_base=MNIST_QUICK,
        quick_note="Quick runs two seeds instead of five and the largest stepsize instead of all "
        "four. It evaluates every fourth of the last 20 rounds, with devices scored on 2,000 test "
        "samples.",
    ),
    StudyPlan(
        "mnist-raw",
        "the linear model on MNIST, inputs in [0, 1]",
        base=(MNIST, {"data": {"scaling": "unit"}}, LAST_ROUNDS),
        axes=GRID,
        seeds=(5, 1),
        quick_axes={"training.stepsize": (0.01, 0.1)},
        quick_base=MNIST_QUICK,
        quick_note="Quick runs one seed instead of five and two stepsizes instead of four.",
    ),
    StudyPlan(
        "mnist-curves",
        "MNIST round by round",
        base=(MNIST, {"evaluate": {"devices_every": 4, "measures": ACCURACIES}}),
        axes={
            **{"data.intra, data.inter": (R3,), "network.topology": ("ring",)},
            **{"server.sampled": (20,), "server.period": (5,)},
            **{"server.primitive": BOTH, "training.stepsize": STEPSIZES},
        },
        seeds=(5, 2),
        quick_axes={"training.stepsize": (0.1,)},
        quick_base={"evaluate": {"device_samples": 2000}},
        quick_note="Quick runs two seeds instead of five and only the largest stepsize.",
        curves=("average_accuracy", "own_accuracy", "device_accuracy"),
    ),
    StudyPlan(
        "mnist-blend",
        "blends between S2S and S2A on MNIST",
        base=(MNIST, {"evaluate": {"after": 80, "measures": [*ACCURACIES, "consensus"]}}),
        axes={
            **ALL_REGIMES,
            "network.topology": ("complete", "ring"),
            "server.sampled": (20,),
            "server.period": (5, 20),
            "server.primitive, server.beta": tuple(
                ("s2s" if b == 0 else "s2a" if b == 1 else "blend", b) for b in plan.BETAS
            ),
            "training.stepsize": STEPSIZES,
        },
        seeds=(5, 2),
        quick_axes={"training.stepsize": (0.1,), "network.topology": ("complete",)},
        quick_base=MNIST_QUICK,
        quick_note="Quick runs two seeds instead of five, and only the largest stepsize and the "
        "complete graph.",
        constants=True,
    ),
    StudyPlan(
        "cifar10",
        "the CNN on CIFAR-10",
        base=(CIFAR10, CIFAR10_LOOKS),
        axes={**GRID, "training.stepsize": (0.1,)},
        seeds=(5, 1),
    ),
    StudyPlan(
        "cifar10-stepsizes",
        "stepsizes for the CNN on CIFAR-10",
        base=(CIFAR10, CIFAR10_LOOKS),
        axes=GRID,
        seeds=(1, 1),
        quick_axes=CORNERS,
        quick_note="Quick runs only the ring with K/n = 0.2 and H = 5 and 20.",
    ),
    StudyPlan(
        "cifar10-long",
        "the CNN on CIFAR-10 over 1,000 rounds",
        base=(CIFAR10, {"training": {"stepsize": 0.1}}, LONG),
        axes={
            **ALL_REGIMES,
            "network.topology, network.dynamic": (
                *(("ring", False), ("regular", False), ("regular", True)),
            ),
            "server.period": (15, 20),
            "server.optimizer": ("fedavg", "fedavgm", "fedavgm_averages"),
            "server.primitive": BOTH,
        },
        seeds=(3, 1),
        quick_base={"rounds": 200},
        quick_note="Quick runs one seed instead of three, for 200 rounds instead of 1,000.",
        curves=LONG_CURVES,
    ),
    StudyPlan(
        "cifar100",
        "the deeper CNN on CIFAR-100",
        base=(
            LONG,
            {"data": {"dataset": "cifar100"}, "model": {"name": "cnn_cifar100"}},
            {"training": {"precision": "bf16", "stepsize": 0.1}},
        ),
        axes={
            **{"data.intra, data.inter": (R2, R3), "network.topology": ("complete",)},
            **{"server.period": (20,), "server.primitive": BOTH},
        },
        seeds=(1, 1),
        quick_base={"rounds": 200},
        quick_note="Quick ends after 200 rounds instead of 1,000.",
        curves=LONG_CURVES,
    ),
)

_FURTHER = (
    StudyPlan(
        "mnist-each-round",
        "MNIST, every round from 80 on",
        base=(MNIST, {"evaluate": EACH_ROUND}),
        axes={**GRID, "server.sampled": plan.SAMPLED, "training.stepsize": (0.1,)},
        seeds=(5, 1),
        quick_base={"evaluate": {**EACH_ROUND, "device_samples": 2000}},
        curves=EACH_ROUND_CURVES,
    ),
    StudyPlan(
        "cifar10-each-round",
        "CIFAR-10, every round from 80 on",
        base=(CIFAR10, {"evaluate": {**EACH_ROUND, "device_samples": 1000}}),
        axes={**FEW_CELLS, "server.period": plan.PERIODS},
        seeds=(3, 1),
        curves=EACH_ROUND_CURVES,
    ),
    StudyPlan(
        "cifar10-all-samples",
        "CIFAR-10, devices scored on all test samples in the final round",
        base=(CIFAR10, {"evaluate": {"after": 99, "measures": ACCURACIES}}),
        axes=FEW_CELLS,
        seeds=(2, 1),
    ),
    StudyPlan(
        "mnist-edges",
        "MNIST at stepsizes beyond the paper's range",
        base=(MNIST, LAST_ROUNDS),
        axes={"data.scaling": ("standard", "unit"), **GRID, "training.stepsize": (ABOVE, BELOW)},
        seeds=(5, 1),
        quick_axes={"training.stepsize": (ABOVE,)},
        quick_base=MNIST_QUICK,
        quick_note="Quick runs one seed instead of five, and only the larger stepsize.",
    ),
    StudyPlan(
        "cifar10-edges",
        "CIFAR-10 at other stepsizes",
        base=(CIFAR10, CIFAR10_LOOKS),
        axes={
            **FEW_CELLS,
            "server.sampled": (20, 60),
            "training.stepsize": (ABOVE, 10**-1.5, BELOW),
        },
        seeds=(2, 1),
    ),
    StudyPlan(
        "cifar10-drops",
        "CIFAR-10, devices scored in every round, with two kinds of momentum",
        base=(
            CIFAR10,
            {"rounds": 200, "server": {"sampled": 20}},
            {"training": {"stepsize": 0.1, "precision": "bf16"}},
            {"evaluate": {"device_samples": 500, "measures": ACCURACIES}},
        ),
        axes={DROPS: DROP_SETTINGS, "server.primitive": BOTH},
        seeds=(2, 1),
        quick_base={"rounds": 60},
        quick_note="Quick runs one seed instead of two, for 60 rounds instead of 200.",
        curves=EACH_ROUND_CURVES,
    ),
    StudyPlan(
        "cifar10-main-text",
        "the CNN of 1.1 million parameters on CIFAR-10",
        base=(CIFAR10, {"model": {"variant": "main_text"}}, CIFAR10_LOOKS),
        axes=FEW_CELLS,
        seeds=(2, 1),
    ),
    StudyPlan(
        "cifar10-float32",
        "CIFAR-10 without rounding to bf16",
        base=(CIFAR10, {"training": {"precision": "float32"}}, CIFAR10_LOOKS),
        axes=FEW_CELLS,
        seeds=(2, 1),
    ),
    StudyPlan(
        "fleets",
        "MNIST on fleets unlike the paper's",
        base=(MNIST, LAST_ROUNDS),
        axes={
            FLEET: FLEETS,
            **ALL_REGIMES,
            **{"server.sampled": (20, 60), "server.period": (5, 20), "server.primitive": BOTH},
            "training.stepsize": (10**-1.5, 0.1, ABOVE),
        },
        seeds=(3, 1),
        quick_axes={"training.stepsize": (0.1,)},
        quick_base=MNIST_QUICK,
        quick_note="Quick runs one seed instead of three, and one stepsize instead of three.",
    ),
    StudyPlan(
        "mnist-conventions",
        "MNIST by the conventions of the first author's other code",
        base=(MNIST, CONVENTIONS, {"evaluate": {"after": 80, "measures": CONVENTION_MEASURES}}),
        axes={SAMPLES: SAMPLE_RULES, **PRINTED_GRID, "training.stepsize": STEPSIZES},
        seeds=(5, 2),
        quick_axes={SAMPLES: SAMPLE_RULES[:1], "training.stepsize": (0.1,)},
        quick_base={"evaluate": {**FEW_LOOKS, "measures": CONVENTION_MEASURES}},
        quick_note="Quick runs two seeds instead of five, one stepsize instead of four, and a "
        "fifth of the samples without weight decay.",
    ),
    StudyPlan(
        "cifar10-conventions",
        "CIFAR-10 by the conventions of the first author's other code",
        base=(
            *(CIFAR10, CONVENTIONS),
            {
                "evaluate": {
                    **FEW_LOOKS,
                    **{"device_samples": 500, "measures": CONVENTION_MEASURES},
                }
            },
        ),
        axes={SAMPLES: SAMPLE_RULES, **PRINTED_GRID, "training.stepsize": STEPSIZES},
        seeds=(5, 1),
    ),
)
"""Studies that the paper does not have: they check what its tables depend on."""

PLANS = {study.name: study for study in (*_OF_THE_PAPER, *_FURTHER)}
DATASETS = tuple(dict.fromkeys(study.dataset for study in PLANS.values()))
