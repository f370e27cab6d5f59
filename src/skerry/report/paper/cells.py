"""The cells of the paper's tables in words and in order, and the two readings shown of each."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from skerry.paper.aggregate import on_table
from skerry.paper.plans import REGIMES as SPLITS
from skerry.paper.plans import TOPOLOGIES
from skerry.paper.protocol import Protocol
from skerry.paper.study import Study, lately
from skerry.paper.targets import Along

if TYPE_CHECKING:
    import pandas as pd

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
REGIMES = {
    name: ("iid" if intra == "iid" else "non-iid", "iid" if inter == "iid" else "non-iid")
    for name, (intra, inter) in SPLITS.items()
}
"""The paper's names; intra and inter as studies have them."""
SHOWN = ("own_accuracy", "average_accuracy")
"""Two readings of `test accuracy` that lie far apart: what a device gets on labels like its own,
and what the average of all models gets on all labels."""
SYMBOLS = {"share": "K/n", "period": "H"}
DEVICES = 100


class Place(NamedTuple):
    """A cell of a table: one regime, one value along its axis, one topology."""

    intra: str
    inter: str
    value: float
    topology: str


def reading(scoring: str) -> Protocol:
    """How tables and maps read `test accuracy`; the protocol page compares every other way."""
    return Protocol(scoring=scoring, timing="last 20", stepsize="tuned", scaling="standard")


def shown_scorings(study: Study) -> list[str]:
    """Those of the two readings that the study measured."""
    return [
        scoring
        for scoring in SHOWN
        if lately(scoring) in study.runs and study.runs[lately(scoring)].notna().any()
    ]


def regime_words(intra: str, inter: str) -> str:
    """`intra IID, inter non-IID`."""
    return f"intra {_capitals(intra)}, inter {_capitals(inter)}"


def regime_short(intra: str, inter: str) -> str:
    """`IID / non-IID`: intra first, as in the paper's tables."""
    return f"{_capitals(intra)} / {_capitals(inter)}"


def _capitals(split: str) -> str:
    return split.replace("iid", "IID")


def dataset_words(name: str) -> str:
    return DATASETS.get(name, name)


def by_place(found: "pd.DataFrame", along: Along) -> dict[Place, Any]:
    """The row of each cell of a table."""
    rows: Iterable[Any] = on_table(found, along).itertuples()
    return {
        Place(row.intra, row.inter, round(float(getattr(row, along)), 6), row.topology): row
        for row in rows
    }


def places(among: Iterable[Place]) -> Iterator[Place]:
    """The cells that are there, in the paper's order; unknown topologies come last."""
    order = {regime: i for i, regime in enumerate(REGIMES.values())}
    rank = {name: i for i, name in enumerate(TOPOLOGIES)}
    yield from sorted(
        set(among),
        key=lambda one: (
            order[one.intra, one.inter],
            one.value,
            rank.get(one.topology, len(rank)),
            one.topology,
        ),
    )
