"""The tables and figures of the paper, and further targets: what each needs, and its kind."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skerry.errors import SkerryError, argument, skerry_command, unknown
from skerry_paper.plan import CORNERS, PERIODS, SAMPLED, SAMPLED_OR_ALL, SPLITS, Axes, Profile
from skerry_paper.plans import (
    ABOVE,
    BELOW,
    DATASETS,
    PLANS,
    SAMPLE_RULES,
    SAMPLES,
    PlanSlice,
)
from skerry_paper.printed import TABLE_AXES, Along

TableKind = Literal[
    "gap tables", "aggregates", "protocols", "stepsizes", "variants", "guidelines", "conventions"
]
FigureKind = Literal["bounds", "accuracies", "gap maps", "learning curves", "server rounds"]
Kind = TableKind | FigureKind | Literal["blend", "timing", "drops"]
"""Kind of a target; `skerry_paper.views` has a view for each."""

ALL = "all"


@dataclass(frozen=True)
class Target:
    """A table or figure that `skerry reproduce` can make."""

    name: str
    title: str
    kind: Kind
    needs: tuple[PlanSlice, ...] = ()
    """The runs to compute, the most informative first."""
    also_shows: tuple[str, ...] = ()
    """Studies of other targets that it also shows where they are available."""

    @property
    def is_in_paper(self) -> bool:
        """Whether it is a table or figure of the paper, not a further study."""
        return self.name.startswith(("table", "fig"))

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need.study for need in self.needs))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of its runs; empty for theory."""
        return tuple(dict.fromkeys(PLANS[study].dataset for study in self.studies))


@dataclass(frozen=True)
class Request:
    """The targets that a user asked for, restricted to some data sets."""

    targets: tuple[Target, ...]
    datasets: tuple[str, ...] = DATASETS
    everything: bool = False
    """Whether the user asked for the whole paper."""

    @classmethod
    def parse(cls, names: Sequence[str]) -> "Request":
        """The request for these target names; `all` is every table and figure of the paper."""
        for name in names:
            if name != ALL and name not in TARGETS:
                raise SkerryError(unknown("target", name, [*TARGETS, ALL]))
        everything = ALL in names
        chosen = (t for t in TARGETS.values() if t.name in names or (everything and t.is_in_paper))
        return cls(tuple(chosen), everything=everything)

    def restrict_to(self, datasets: Sequence[str]) -> "Request":
        """Drop the targets that use none of these data sets; theory uses none and stays."""
        kept = tuple(t for t in self.targets if not t.datasets or {*datasets} & {*t.datasets})
        if not kept:
            raise SkerryError(
                f"{', '.join(t.name for t in self.targets)} has no runs on {', '.join(datasets)}. "
                f"Leave {argument('dataset')} out, or see the data sets of all targets: "
                f"{skerry_command('reproduce', 'list')}"
            )
        return replace(self, targets=kept, datasets=tuple(datasets))

    def needs(self, profile: Profile) -> list[PlanSlice]:
        """The slices to run. The whole paper in full includes the paper's whole grid on MNIST:
        9,600 runs, some of which no table or figure shows."""
        whole = [PlanSlice("mnist")] if self.everything and profile == "full" else []
        covered = {need.study for need in whole}
        slices = [need for target in self.targets for need in target.needs]
        every = [*whole, *(need for need in slices if need.study not in covered)]
        return [need for need in every if PLANS[need.study].dataset in self.datasets]


# Axes that several targets share

HARDEST = "R3, intra non-IID"
ON_THE_RING: Axes = {"network.topology": ("ring",), "server.sampled": SAMPLED}
SLICES: dict[Along, Axes] = {
    "share": {"server.period": (5,), "server.sampled": SAMPLED},
    "period": {"server.period": PERIODS, "server.sampled": (20,)},
}
STEPSIZE: dict[float, Axes] = {
    size: {"training.stepsize": (size,)} for size in (BELOW, 0.01, 10**-1.5, 0.1, ABOVE)
}
NEXT_SMALLER: Axes = {"training.stepsize": (0.01, 10**-1.5)}
"""The stepsizes below 0.1, which is nearly always the best."""
EVERY_ROUND = ("cifar10-drops", "cifar10-each-round")
"""Studies in which devices are scored in every round."""


def _regimes(*names: str) -> Axes:
    return {"data.intra, data.inter": [SPLITS[name] for name in names]}


def _table(name: str, title: str, kind: Kind, *studies: str) -> Target:
    slices = tuple(PlanSlice(study, SLICES[TABLE_AXES[name]]) for study in studies)
    return Target(name, title, kind, slices)


def _accuracies(study: str) -> tuple[PlanSlice, ...]:
    with_all = {"server.period": (5,), "server.sampled": SAMPLED_OR_ALL}
    return PlanSlice(study, with_all), PlanSlice(study, SLICES["period"])


def _long(
    *regimes: str,
    periods: tuple[int, ...] = (20,),
    networks: tuple[tuple[str, bool], ...] = (("ring", False),),
    optimizers: tuple[str, ...] = ("fedavg",),
) -> PlanSlice:
    axes = {
        **_regimes(*regimes),
        "network.topology, network.dynamic": networks,
        "server.period": periods,
        "server.optimizer": optimizers,
    }
    return PlanSlice("cifar10-long", axes)


_TARGETS = (
    _table(
        "table1", "Gaps along K/n, aggregated over topologies", "aggregates", "mnist", "cifar10"
    ),
    _table("table2", "Gaps along H, aggregated over topologies", "aggregates", "mnist", "cifar10"),
    _table("table3", "Gaps on MNIST along K/n, H = 5", "gap tables", "mnist"),
    _table("table4", "Gaps on CIFAR-10 along K/n, H = 5", "gap tables", "cifar10"),
    _table("table5", "Gaps on MNIST along H, K/n = 0.2", "gap tables", "mnist"),
    _table("table6", "Gaps on CIFAR-10 along H, K/n = 0.2", "gap tables", "cifar10"),
    Target("fig1", "Rounds until ε by the bounds", "bounds"),
    Target("fig2", "Accuracy on MNIST along K/n and H", "accuracies", _accuracies("mnist")),
    Target("fig3", "Accuracy on CIFAR-10 along K/n and H", "accuracies", _accuracies("cifar10")),
    Target(
        "fig4",
        "Gap on CIFAR-10 over K/n and H, ring",
        "gap maps",
        (PlanSlice("cifar10", {**ON_THE_RING, **_regimes("R2", "R3")}),),
    ),
    Target(
        "fig5",
        "Accuracy round by round, R3, K/n = 0.2, ring",
        "learning curves",
        (PlanSlice("mnist-curves"), _long("R3")),
        also_shows=("mnist-each-round", *EVERY_ROUND),
    ),
    Target("fig6", "Messages until ε by the bounds", "bounds"),
    Target(
        "fig7", "Gap on MNIST over K/n and H, ring", "gap maps", (PlanSlice("mnist", ON_THE_RING),)
    ),
    Target(
        "fig8",
        "Gap on CIFAR-10 over K/n and H, ring",
        "gap maps",
        (PlanSlice("cifar10", ON_THE_RING),),
    ),
    Target(
        "fig9",
        "CIFAR-10 over 1,000 rounds, R2 and R3, H = 20, ring",
        "learning curves",
        (_long("R2", "R3"),),
        also_shows=EVERY_ROUND,
    ),
    Target(
        "fig10",
        "CIFAR-10 over 1,000 rounds, intra and inter non-IID, H = 15 and 20, ring",
        "learning curves",
        (_long(HARDEST, periods=(15, 20)),),
        also_shows=EVERY_ROUND,
    ),
    Target(
        "fig11",
        "Fixed against changing 4-regular graphs, CIFAR-10, R3, H = 20",
        "learning curves",
        (_long("R3", networks=(("regular", False), ("regular", True))),),
        also_shows=EVERY_ROUND,
    ),
    Target(
        "fig12",
        "FedAvg against FedAvgM, CIFAR-10, R3, H = 20, ring",
        "learning curves",
        (_long("R3", optimizers=("fedavg", "fedavgm")),),
        also_shows=EVERY_ROUND,
    ),
    Target(
        "fig13",
        "CIFAR-100 over 1,000 rounds, R2 and R3, H = 20, complete",
        "learning curves",
        (PlanSlice("cifar100"),),
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
                PlanSlice(study, axes)
                for study in ("mnist", "mnist-raw", "cifar10")
                for axes in SLICES.values()
            ),
            PlanSlice("cifar10-stepsizes", CORNERS),
            *(PlanSlice("cifar10-stepsizes", {**axes, **NEXT_SMALLER}) for axes in SLICES.values()),
        ),
    ),
    Target(
        "blend",
        "Blends between S2S and S2A: global against own accuracy",
        "blend",
        (PlanSlice("mnist-blend"),),
    ),
    Target(
        "timing",
        "When devices are scored: every round around a server round",
        "timing",
        (
            PlanSlice("cifar10-each-round"),
            PlanSlice("cifar10-all-samples"),
            *(PlanSlice("mnist-each-round", axes) for axes in SLICES.values()),
        ),
        also_shows=("cifar10",),
    ),
    Target(
        "stepsizes",
        "Stepsizes beyond the paper's range",
        "stepsizes",
        (
            PlanSlice("cifar10-edges", {**STEPSIZE[ABOVE], "server.sampled": (20,)}),
            PlanSlice("cifar10-edges", STEPSIZE[ABOVE]),
            PlanSlice("cifar10-edges", {**STEPSIZE[BELOW], "server.sampled": (20,)}),
            PlanSlice("cifar10-edges", {**STEPSIZE[10**-1.5], "server.sampled": (60,)}),
            PlanSlice("mnist-edges", {"data.scaling": ("standard",)}),
            *(
                PlanSlice("mnist-edges", {"data.scaling": ("unit",), **axes})
                for axes in SLICES.values()
            ),
        ),
        also_shows=("mnist", "mnist-raw", "cifar10", "cifar10-stepsizes"),
    ),
    Target(
        "drops",
        "Accuracy that devices lose in server rounds, and two kinds of momentum",
        "drops",
        (PlanSlice("cifar10-drops"), _long("R3", optimizers=("fedavgm_averages",))),
        also_shows=("cifar10-each-round", "mnist-each-round"),
    ),
    Target(
        "variants",
        "The CNN of 1.1 million parameters, and float32 instead of bf16",
        "variants",
        (PlanSlice("cifar10-main-text"), PlanSlice("cifar10-float32")),
        also_shows=("cifar10",),
    ),
    Target(
        "guidelines",
        "The paper's guidelines as a rule, on its grids and on fleets unlike its own",
        "guidelines",
        (PlanSlice("fleets"),),
        also_shows=("mnist", "mnist-raw", "cifar10", "mnist-blend"),
    ),
    Target(
        "conventions",
        "The tables by the conventions of the first author's other code",
        "conventions",
        (
            PlanSlice("mnist-conventions"),
            *(
                PlanSlice("cifar10-conventions", {SAMPLES: SAMPLE_RULES[:1], **STEPSIZE[size]})
                for size in (10**-1.5, 0.1, 0.01)
            ),
            *(
                PlanSlice(
                    "cifar10-conventions",
                    {SAMPLES: [rule], "network.topology": ("ring",), **STEPSIZE[10**-1.5]},
                )
                for rule in SAMPLE_RULES[1:]
            ),
        ),
        also_shows=("mnist", "cifar10", "cifar10-stepsizes"),
    ),
)
TARGETS = {target.name: target for target in _TARGETS}
"""All targets by name. Tables 1 to 6 and figures 1 to 14 are numbered as LaTeX counts them; the
others are studies that the paper does not have."""
