"""Every table and figure of the paper, by its own number: what it needs, and how it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skerry.paper.plans import (
    ALL_SHARES,
    PERIODS,
    REGIMES,
    SHARES,
    Axes,
)

View = Literal[
    "theory",
    "accuracies",
    "gaps",
    "aggregate",
    "heat maps",
    "curves",
    "tracked",
    "protocol",
    "blend",
]
Along = Literal["share", "period"]


@dataclass(frozen=True)
class Need:
    """A slice of a study."""

    study: str
    only: Axes = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    name: str
    title: str
    view: View
    needs: tuple[Need, ...] = ()
    along: Along | None = None
    """The axis of a table: K/n at H = 5, or H at K/n = .2."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What its view must know besides."""

    @property
    def of_paper(self) -> bool:
        """Whether the paper has it; else it is a study of our own."""
        return self.name.startswith(("table", "fig"))

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need.study for need in self.needs))


def _of(*regimes: str) -> Axes:
    return {"data.intra, data.inter": [REGIMES[name] for name in regimes]}


ALONG_SHARE: Axes = {"server.period": (5,), "server.sampled": SHARES}
ALONG_PERIOD: Axes = {"server.period": PERIODS, "server.sampled": (20,)}
RING: Axes = {"network.topology": ("ring",), "server.sampled": SHARES}
FULL_SHARE: Axes = {"server.period": (5,), "server.sampled": ALL_SHARES}


def _along(study: str, along: Along) -> Need:
    return Need(study, ALONG_SHARE if along == "share" else ALONG_PERIOD)


def _accuracies(study: str) -> tuple[Need, ...]:
    return Need(study, FULL_SHARE), _along(study, "period")


def _long(
    regimes: tuple[str, ...],
    periods: tuple[int, ...] = (20,),
    networks: tuple[tuple[str, bool], ...] = (("ring", False),),
    optimizers: tuple[str, ...] = ("fedavg",),
) -> tuple[Need, ...]:
    only = {
        **_of(*regimes),
        "network.topology, network.dynamic": networks,
        "server.period": periods,
        "server.optimizer": optimizers,
    }
    return (Need("cifar10-long", only),)


HARDEST = "R3, intra non-IID"

TARGETS = {
    target.name: target
    for target in (
        Target(
            "table1",
            "Gaps along K/n, aggregated over topologies",
            "aggregate",
            (_along("mnist", "share"), _along("cifar10", "share")),
            "share",
        ),
        Target(
            "table2",
            "Gaps along H, aggregated over topologies",
            "aggregate",
            (_along("mnist", "period"), _along("cifar10", "period")),
            "period",
        ),
        Target(
            "table3", "Gaps on MNIST along K/n, H = 5", "gaps", (_along("mnist", "share"),), "share"
        ),
        Target(
            "table4",
            "Gaps on CIFAR-10 along K/n, H = 5",
            "gaps",
            (_along("cifar10", "share"),),
            "share",
        ),
        Target(
            "table5",
            "Gaps on MNIST along H, K/n = 0.2",
            "gaps",
            (_along("mnist", "period"),),
            "period",
        ),
        Target(
            "table6",
            "Gaps on CIFAR-10 along H, K/n = 0.2",
            "gaps",
            (_along("cifar10", "period"),),
            "period",
        ),
        Target("fig1", "Rounds until ε by the bounds", "theory", options={"measure": "rounds"}),
        Target("fig2", "Accuracy on MNIST along K/n and H", "accuracies", _accuracies("mnist")),
        Target(
            "fig3", "Accuracy on CIFAR-10 along K/n and H", "accuracies", _accuracies("cifar10")
        ),
        Target(
            "fig4",
            "Gap on CIFAR-10 over K/n and H, ring",
            "heat maps",
            (Need("cifar10", {**RING, **_of("R2", "R3")}),),
            options={"regimes": ("R2", "R3")},
        ),
        Target(
            "fig5",
            "Accuracy round by round, R3, K/n = 0.2, ring",
            "curves",
            (Need("mnist-curves"), *_long(("R3",))),
        ),
        Target("fig6", "Messages until ε by the bounds", "theory", options={"measure": "messages"}),
        Target(
            "fig7",
            "Gap on MNIST over K/n and H, ring",
            "heat maps",
            (Need("mnist", RING),),
            options={"regimes": tuple(REGIMES)},
        ),
        Target(
            "fig8",
            "Gap on CIFAR-10 over K/n and H, ring",
            "heat maps",
            (Need("cifar10", RING),),
            options={"regimes": tuple(REGIMES)},
        ),
        Target(
            "fig9",
            "CIFAR-10 over 1,000 rounds, R2 and R3, H = 20, ring",
            "curves",
            _long(("R2", "R3")),
        ),
        Target(
            "fig10",
            "CIFAR-10 over 1,000 rounds, intra and inter non-IID, H = 15 and 20, ring",
            "curves",
            _long((HARDEST,), (15, 20)),
        ),
        Target(
            "fig11",
            "Fixed against changing 4-regular graphs, CIFAR-10, R3, H = 20",
            "curves",
            _long(("R3",), networks=(("regular", False), ("regular", True))),
        ),
        Target(
            "fig12",
            "FedAvg against FedAvgM, CIFAR-10, R3, H = 20, ring",
            "curves",
            _long(("R3",), optimizers=("fedavg", "fedavgm")),
        ),
        Target(
            "fig13",
            "CIFAR-100 over 1,000 rounds, R2 and R3, H = 20, complete",
            "curves",
            (Need("cifar100"),),
        ),
        Target(
            "fig14",
            "Bias and disagreement, CIFAR-10, R3, H = 20, ring",
            "tracked",
            _long(("R3",)),
        ),
        Target(
            "protocol",
            "What the paper may have scored: every scoring, timing, stepsize and scaling",
            "protocol",
            (
                *(
                    _along(study, along)
                    for study in ("mnist", "mnist-raw", "cifar10")
                    for along in ("share", "period")
                ),
                Need("cifar10-stepsizes"),
            ),
        ),
        Target(
            "blend",
            "The dial between S2S and S2A: global against own accuracy",
            "blend",
            (Need("mnist-blend"),),
        ),
    )
}
"""Tables 1 to 6 and figures 1 to 14 are numbered as LaTeX counts them; the last two are studies
that the paper does not have."""
