"""The curves of the paper's figures: which runs of which study they are, and what to look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skerry.paper.contests import UnansweredError
from skerry.paper.study import Study

Studies = Mapping[str, Study]


@dataclass(frozen=True)
class Panel:
    """A pair of curves of a figure."""

    name: str
    words: str
    study: str
    factors: Mapping[str, Any]
    early: int = 100
    """Where the early rounds end, in which the paper sees S2A ahead."""
    moments: tuple[int, ...] = (100, 1000)
    """Rounds whose gap the paper speaks of."""


R2 = {"intra": "non-iid", "inter": "iid"}
R3 = {"intra": "iid", "inter": "non-iid"}
HARDEST = {"intra": "non-iid", "inter": "non-iid"}
RING: dict[str, Any] = {"topology": "ring", "dynamic": False, "period": 20, "optimizer": "fedavg"}
REGULAR = RING | {"topology": "regular"}
COMPLETE = RING | {"topology": "complete"}
MNIST = {**R3, "topology": "ring", "period": 5}
LONG = "cifar10-long"

PANELS = {
    "fig5": (
        Panel("mnist", "MNIST, H = 5", "mnist-curves", MNIST, early=20, moments=(100,)),
        Panel("cifar10", "CIFAR-10, H = 20", LONG, RING | R3),
    ),
    "fig9": (
        Panel("r2", "intra non-IID, inter IID", LONG, RING | R2),
        Panel("r3", "intra IID, inter non-IID", LONG, RING | R3),
    ),
    "fig10": (
        Panel("h15", "H = 15", LONG, RING | HARDEST | {"period": 15}),
        Panel("h20", "H = 20", LONG, RING | HARDEST),
    ),
    "fig11": (
        Panel("fixed", "fixed graph", LONG, REGULAR | R3),
        Panel("random", "changing graph", LONG, REGULAR | R3 | {"dynamic": True}),
    ),
    "fig12": (
        Panel("fedavg", "FedAvg", LONG, RING | R3),
        Panel("fedavgm", "FedAvgM", LONG, RING | R3 | {"optimizer": "fedavgm"}),
    ),
    "fig13": (
        Panel("r2", "intra non-IID, inter IID", "cifar100", COMPLETE | R2),
        Panel("r3", "intra IID, inter non-IID", "cifar100", COMPLETE | R3),
    ),
    "fig14": (Panel("r3", "intra IID, inter non-IID", LONG, RING | R3),),
}


def slice_of(panel: Panel, studies: Studies) -> Study:
    """The runs of a panel."""
    if panel.study not in studies:
        raise UnansweredError(f"the study {panel.study} is not there")
    found = studies[panel.study].of(**panel.factors)
    if found.runs.empty:
        raise UnansweredError(f"{panel.study} has no run with {panel.words}")
    return found
