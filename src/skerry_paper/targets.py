"""Every table and figure of the paper, by its own number: what it needs, and which kind it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skerry.errors import SkerryError, argument, unknown
from skerry_paper.plan import CORNERS, PERIODS, SAMPLED, SAMPLED_OR_ALL, SPLITS, Axes, Profile
from skerry_paper.plans import ABOVE, BELOW, DATASETS, PLANS, Need
from skerry_paper.printed import TABLE_AXES, Along

Kind = Literal[
    "bounds",
    "accuracies",
    "gap tables",
    "aggregates",
    "gap maps",
    "learning curves",
    "server rounds",
    "protocols",
    "blend",
    "timing",
    "stepsizes",
    "drops",
    "variants",
    "guidelines",
]
"""What is to be seen; `skerry_paper.views` has one for each."""

ALL = "all"


@dataclass(frozen=True)
class Target:
    name: str
    title: str
    kind: Kind
    needs: tuple[Need, ...] = ()
    """The slices to run, those that tell most first."""
    beside: tuple[str, ...] = ()
    """Studies of other targets that it shows too, where they are there."""

    @property
    def of_paper(self) -> bool:
        """Whether the paper has it; else it is a study of our own."""
        return self.name.startswith(("table", "fig"))

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need.study for need in self.needs))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that it is about; none for theory."""
        return tuple(dict.fromkeys(PLANS[study].dataset for study in self.studies))


@dataclass(frozen=True)
class Request:
    """The targets that are asked for, and of which data sets."""

    targets: tuple[Target, ...]
    datasets: tuple[str, ...] = DATASETS
    everything: bool = False
    """Whether all of the paper is asked for."""

    @classmethod
    def named(cls, names: Sequence[str]) -> "Request":
        """`all` is every table and figure of the paper."""
        for name in names:
            if name != ALL and name not in TARGETS:
                raise SkerryError(unknown("target", name, [*TARGETS, ALL]))
        everything = ALL in names
        chosen = (t for t in TARGETS.values() if t.name in names or (everything and t.of_paper))
        return cls(tuple(chosen), everything=everything)

    def about(self, datasets: Sequence[str]) -> "Request":
        """Without targets that these data sets have no part in; theory is about none."""
        there = {*datasets}
        kept = tuple(t for t in self.targets if not t.datasets or there & {*t.datasets})
        if not kept:
            raise SkerryError(
                f"{', '.join(t.name for t in self.targets)} is not about {', '.join(datasets)}. "
                f"Leave {argument('dataset')} out, or see which data set a target is about: skerry "
                "reproduce list"
            )
        return replace(self, targets=kept, datasets=tuple(datasets))

    def needs(self, profile: Profile) -> list[Need]:
        """The slices that are to be run. All in full is the paper's whole grid on MNIST: 9,600
        runs, some of which no table or figure shows."""
        whole = [Need("mnist")] if self.everything and profile == "full" else []
        covered = {need.study for need in whole}
        slices = [need for target in self.targets for need in target.needs]
        every = [*whole, *(need for need in slices if need.study not in covered)]
        return [need for need in every if PLANS[need.study].dataset in self.datasets]


# What the targets are made of

HARDEST = "R3, intra non-IID"
ON_THE_RING: Axes = {"network.topology": ("ring",), "server.sampled": SAMPLED}
SLICES: dict[Along, Axes] = {
    "share": {"server.period": (5,), "server.sampled": SAMPLED},
    "period": {"server.period": PERIODS, "server.sampled": (20,)},
}
STEPSIZE: dict[float, Axes] = {
    size: {"training.stepsize": (size,)} for size in (BELOW, 10**-1.5, ABOVE)
}
NEXT_SMALLER: Axes = {"training.stepsize": (0.01, 10**-1.5)}
"""Than the one that is nearly always the best."""


def _regimes(*names: str) -> Axes:
    return {"data.intra, data.inter": [SPLITS[name] for name in names]}


def _table(name: str, title: str, kind: Kind, *studies: str) -> Target:
    return Target(
        name, title, kind, tuple(Need(study, SLICES[TABLE_AXES[name]]) for study in studies)
    )


def _accuracies(study: str) -> tuple[Need, ...]:
    with_all = {"server.period": (5,), "server.sampled": SAMPLED_OR_ALL}
    return Need(study, with_all), Need(study, SLICES["period"])


def _long(
    *regimes: str,
    periods: tuple[int, ...] = (20,),
    networks: tuple[tuple[str, bool], ...] = (("ring", False),),
    optimizers: tuple[str, ...] = ("fedavg",),
) -> Need:
    return Need(
        "cifar10-long",
        {
            **_regimes(*regimes),
            "network.topology, network.dynamic": networks,
            "server.period": periods,
            "server.optimizer": optimizers,
        },
    )


EVERY_ROUND = ("cifar10-drops", "cifar10-each-round")
"""Where devices are scored in every round."""

TARGETS = {
    target.name: target
    for target in (
        _table(
            "table1",
            "Gaps along K/n, aggregated over topologies",
            "aggregates",
            "mnist",
            "cifar10",
        ),
        _table(
            "table2", "Gaps along H, aggregated over topologies", "aggregates", "mnist", "cifar10"
        ),
        _table("table3", "Gaps on MNIST along K/n, H = 5", "gap tables", "mnist"),
        _table("table4", "Gaps on CIFAR-10 along K/n, H = 5", "gap tables", "cifar10"),
        _table("table5", "Gaps on MNIST along H, K/n = 0.2", "gap tables", "mnist"),
        _table("table6", "Gaps on CIFAR-10 along H, K/n = 0.2", "gap tables", "cifar10"),
        Target("fig1", "Rounds until ε by the bounds", "bounds"),
        Target("fig2", "Accuracy on MNIST along K/n and H", "accuracies", _accuracies("mnist")),
        Target(
            "fig3", "Accuracy on CIFAR-10 along K/n and H", "accuracies", _accuracies("cifar10")
        ),
        Target(
            "fig4",
            "Gap on CIFAR-10 over K/n and H, ring",
            "gap maps",
            (Need("cifar10", {**ON_THE_RING, **_regimes("R2", "R3")}),),
        ),
        Target(
            "fig5",
            "Accuracy round by round, R3, K/n = 0.2, ring",
            "learning curves",
            (Need("mnist-curves"), _long("R3")),
            beside=("mnist-each-round", *EVERY_ROUND),
        ),
        Target("fig6", "Messages until ε by the bounds", "bounds"),
        Target(
            "fig7",
            "Gap on MNIST over K/n and H, ring",
            "gap maps",
            (Need("mnist", ON_THE_RING),),
        ),
        Target(
            "fig8",
            "Gap on CIFAR-10 over K/n and H, ring",
            "gap maps",
            (Need("cifar10", ON_THE_RING),),
        ),
        Target(
            "fig9",
            "CIFAR-10 over 1,000 rounds, R2 and R3, H = 20, ring",
            "learning curves",
            (_long("R2", "R3"),),
            beside=EVERY_ROUND,
        ),
        Target(
            "fig10",
            "CIFAR-10 over 1,000 rounds, intra and inter non-IID, H = 15 and 20, ring",
            "learning curves",
            (_long(HARDEST, periods=(15, 20)),),
            beside=EVERY_ROUND,
        ),
        Target(
            "fig11",
            "Fixed against changing 4-regular graphs, CIFAR-10, R3, H = 20",
            "learning curves",
            (_long("R3", networks=(("regular", False), ("regular", True))),),
            beside=EVERY_ROUND,
        ),
        Target(
            "fig12",
            "FedAvg against FedAvgM, CIFAR-10, R3, H = 20, ring",
            "learning curves",
            (_long("R3", optimizers=("fedavg", "fedavgm")),),
            beside=EVERY_ROUND,
        ),
        Target(
            "fig13",
            "CIFAR-100 over 1,000 rounds, R2 and R3, H = 20, complete",
            "learning curves",
            (Need("cifar100"),),
        ),
        Target(
            "fig14",
            "Bias and disagreement, CIFAR-10, R3, H = 20, ring",
            "server rounds",
            (_long("R3"),),
        ),
        Target(
            "protocol",
            "What the paper may have scored: every scoring, timing, stepsize and scaling",
            "protocols",
            (
                *(
                    Need(study, axes)
                    for study in ("mnist", "mnist-raw", "cifar10")
                    for axes in SLICES.values()
                ),
                Need("cifar10-stepsizes", CORNERS),
                *(Need("cifar10-stepsizes", {**axes, **NEXT_SMALLER}) for axes in SLICES.values()),
            ),
        ),
        Target(
            "blend",
            "The dial between S2S and S2A: global against own accuracy",
            "blend",
            (Need("mnist-blend"),),
        ),
        Target(
            "timing",
            "When devices are scored: every round around server rounds",
            "timing",
            (
                Need("cifar10-each-round"),
                Need("cifar10-all-samples"),
                *(Need("mnist-each-round", axes) for axes in SLICES.values()),
            ),
            beside=("cifar10",),
        ),
        Target(
            "stepsizes",
            "Where the range of stepsizes ends",
            "stepsizes",
            (
                Need("cifar10-edges", {**STEPSIZE[ABOVE], "server.sampled": (20,)}),
                Need("cifar10-edges", STEPSIZE[ABOVE]),
                Need("cifar10-edges", {**STEPSIZE[BELOW], "server.sampled": (20,)}),
                Need("cifar10-edges", {**STEPSIZE[10**-1.5], "server.sampled": (60,)}),
                Need("mnist-edges", {"data.scaling": ("standard",)}),
                *(
                    Need("mnist-edges", {"data.scaling": ("unit",), **axes})
                    for axes in SLICES.values()
                ),
            ),
            beside=("mnist", "mnist-raw", "cifar10", "cifar10-stepsizes"),
        ),
        Target(
            "drops",
            "What server rounds take from devices, and momentum of two kinds",
            "drops",
            (Need("cifar10-drops"), _long("R3", optimizers=("fedavgm_averages",))),
            beside=("cifar10-each-round", "mnist-each-round"),
        ),
        Target(
            "variants",
            "The CNN of 1.1 million parameters, and float32 beside bf16",
            "variants",
            (Need("cifar10-main-text"), Need("cifar10-float32")),
            beside=("cifar10",),
        ),
        Target(
            "guidelines",
            "The paper's guidelines as a rule, on its grids and on fleets unlike its own",
            "guidelines",
            (Need("fleets"),),
            beside=("mnist", "mnist-raw", "cifar10", "mnist-blend"),
        ),
    )
}
"""Tables 1 to 6 and figures 1 to 14 are numbered as LaTeX counts them; the others are studies that
the paper does not have."""
