"""The paper's conclusion as a rule, beside others: the bounds' choice, and always the same.

"S2S is the better choice when (i) inter-component heterogeneity is high; or (ii) intra-component
heterogeneity is high, and the server can sample only a small subset of devices while D2S
communication is more frequent. Conversely, when data are nearly IID across components or when a
high sampling rate and a well-connected topology mitigate intra-component noise, S2A [...]."
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from skerry.config.experiment import Network
from skerry.network.fleet import build_fleet
from skerry.report.text import NOTHING, Sheet
from skerry.theory.bounds import bound
from skerry.theory.parameters import Parameters
from skerry_paper.plan import DEVICES
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import Protocol, gaps, shown_protocols
from skerry_paper.study import ISLANDS, Study
from skerry_paper.targets import Target
from skerry_paper.views.formatting import dataset_words, out_of, plain_number, regime_short
from skerry_paper.views.view import View

Choice = Literal["s2s", "s2a"]
Cell = Mapping[Any, Any]
"""A row with the factors of a cell."""

FEW, OFTEN = 0.2, 5
"""A small sampled share K/n and a short period H: where the text's examples are."""
HETEROGENEITY = {"iid": 0.1, "non-iid": 1.0}
"""zeta of a split, as the paper's figures 1 and 6 take low and high."""
EPSILON = 1e-5
"""Of those figures."""


def guideline(*, islands_differ: bool, devices_differ: bool, share: float, period: int) -> Choice:
    """What the conclusion advises for a fleet. How small, how often and how well connected it does
    not say in numbers: K/n up to 0.2 and H up to 5 count as such here, as in the text's examples;
    connections do not count."""
    if islands_differ:
        return "s2s"
    return "s2s" if devices_differ and share <= FEW + 1e-9 and period <= OFTEN else "s2a"


def _by_guideline(cell: Cell) -> Choice:
    return guideline(
        islands_differ=cell["inter"] != "iid",
        devices_differ=cell["intra"] != "iid",
        share=cell["share"],
        period=cell["period"],
    )


def _by_bounds(cell: Cell) -> Choice:
    return favoured_by_bounds(
        intra=cell["intra"],
        inter=cell["inter"],
        topology=cell["topology"],
        share=cell["share"],
        period=cell["period"],
        islands=cell.get("islands", ISLANDS),
    )


@lru_cache
def favoured_by_bounds(
    *, intra: str, inter: str, topology: str, share: float, period: int, islands: str
) -> Choice:
    """Fewer rounds by the theorems, all constants one, heterogeneity low or high as in figure 1."""
    setting = Parameters(
        devices=DEVICES,
        components=2,
        sampled=round(share * DEVICES),
        period=period,
        p=mixing(topology, islands),
        zeta_intra=HETEROGENEITY[intra],
        zeta_inter=HETEROGENEITY[inter],
        sigma2=0,
        smoothness=1,
        initial_error=1,
        epsilon=EPSILON,
    )
    s2s, s2a = (float(bound(setting, one, "order", convex=False).rounds) for one in ("s2s", "s2a"))
    return "s2s" if s2s < s2a else "s2a"


@lru_cache
def mixing(topology: str, islands: str) -> float:
    """p of the fleet of the first seed."""
    sizes = tuple(int(size) for size in islands.split(", "))
    network = Network(devices=sum(sizes), components=sizes, topology=topology)
    return build_fleet(network, seed=0).mixing_parameters().minimum


GUIDELINE, BOUNDS = "the paper's guideline", "the bounds, constants one"
RULES: dict[str, Callable[[Cell], Choice]] = {
    GUIDELINE: _by_guideline,
    BOUNDS: _by_bounds,
    "always S2S": lambda cell: "s2s",
    "always S2A": lambda cell: "s2a",
}


class Judgement(NamedTuple):
    """A rule on some cells. A cell is decided where the gap exceeds two standard errors."""

    right: int
    decided: int
    cost: float
    """Points that following it loses against the better of the two, the mean over all cells."""
    worst: float


def judge(cells: pd.DataFrame, rule: Callable[[Cell], Choice]) -> Judgement:
    """`cells` as `gaps` gives them, where S2S and S2A can differ."""
    gap, error = cells["gap"].to_numpy(float), cells["se"].to_numpy(float)
    says = np.array([1 if rule(row) == "s2s" else -1 for row in cells.to_dict("records")])
    decided = np.abs(gap) > 2 * np.nan_to_num(error)
    lost = np.where(says * gap < 0, np.abs(gap), 0.0)
    return Judgement(
        right=int((decided & (says * gap > 0)).sum()),
        decided=int(decided.sum()),
        cost=float(lost.mean()) if len(lost) else float("nan"),
        worst=float(lost.max(initial=0)),
    )


def contested(studies: Sequence[Study], protocol: Protocol) -> pd.DataFrame:
    """The gaps of all cells in which fewer than all are sampled, fleet by fleet."""
    found = []
    for study in studies:
        fleets = zip(study.runs["islands"], study.runs["model"], strict=True)
        for islands, model in dict.fromkeys(fleets):
            part = gaps([study.of(islands=islands, model=model)], protocol)
            found.append(part[part["share"] < 1].assign(islands=islands, model=model))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


# The view

GRIDS = ("mnist", "cifar10")
FLEETS = "fleets"
RULE = (
    "The rule: S2S where the data of islands differ; S2S too where those of devices differ inside "
    f"islands, at most {FEW:g} of them are sampled, and that every {OFTEN} rounds or more often; "
    "S2A otherwise (`skerry_paper.views.guidelines.guideline`). It does not look at what is scored."
)
NOTE = (
    "Right: of the cells whose gap exceeds two standard errors, those in which the rule names the "
    "better one. In brackets: what following it costs in points of accuracy against the better of "
    "the two, the mean over all cells. All cells with K < n, the best stepsize tried for each cell "
    "and primitive. The bounds are those of the theorems with all constants one, and 0.1 or 1 for "
    "heterogeneity, as in Figure 1."
)


def guidelines(target: Target, studies: Mapping[str, Study]) -> View:
    """A table per grid, then the guideline regime by regime, then fleets unlike the paper's."""
    grids = {name: studies[name] for name in (*GRIDS, FLEETS) if name in studies}
    cells = {
        name: {one: contested([study], one) for one in shown_protocols(study)}
        for name, study in grids.items()
    }
    cells = {name: found for name, found in cells.items() if found}
    if not cells:
        return View(target, "Nothing was scored.")
    sheets = [_rules_sheet(name, found) for name, found in cells.items()]
    sheets += [_regimes_sheet(name, found) for name, found in cells.items()]
    if FLEETS in cells:
        sheets.append(_fleets_sheet(cells[FLEETS]))
    return View(target, _verdict(cells), (RULE, *sheets, NOTE))


Found = Mapping[Protocol, pd.DataFrame]


def _title(name: str) -> str:
    return "Fleets unlike the paper's" if name == FLEETS else dataset_words(name)


def _verdict(cells: Mapping[str, Found]) -> str:
    """Of the guideline, and of the cheapest rule there."""
    parts = []
    for name, found in cells.items():
        told = []
        for protocol, frame in found.items():
            judged = {rule: judge(frame, how) for rule, how in RULES.items()}
            best = min(judged, key=lambda rule: judged[rule].cost)
            better = "" if best == GUIDELINE else f", {best} {plain_number(judged[best].cost)}"
            told.append(f"{protocol.short} {_told(judged[GUIDELINE])}{better}")
        parts.append(f"{_title(name)}: {'; '.join(told)}")
    return f"Right, and its cost in points. {'. '.join(parts)}."


def _rules_sheet(name: str, found: Found) -> Sheet:
    rows = tuple(
        (rule, *(_told(judge(frame, how)) for frame in found.values()))
        for rule, how in RULES.items()
    )
    return Sheet(_title(name), ("rule", *_header(found)), rows, "l" + "r" * len(found))


def _regimes_sheet(name: str, found: Found) -> Sheet:
    rows = []
    for regime in REGIMES.values():
        parts = [
            frame[(frame["intra"] == regime[0]) & (frame["inter"] == regime[1])]
            for frame in found.values()
        ]
        rows.append((regime_short(*regime), *(_guideline_on(part) for part in parts)))
    header = ("intra / inter", *_header(found))
    return Sheet(
        f"{_title(name)}: the guideline by regime", header, tuple(rows), "l" + "r" * len(found)
    )


def _fleets_sheet(found: Found) -> Sheet:
    fleets = next(iter(found.values()))[["islands", "topology", "model"]].drop_duplicates()
    rows = []
    for fleet in fleets.to_dict("records"):
        parts = [
            frame[(frame[list(fleet)] == list(fleet.values())).all(axis=1)]
            for frame in found.values()
        ]
        rows.append((*fleet.values(), *(_guideline_on(part) for part in parts)))
    header = ("islands", "links", "model", *_header(found))
    title = "Fleets unlike the paper's: the guideline by fleet"
    return Sheet(title, header, tuple(rows), "lll" + "r" * len(found))


def _guideline_on(part: pd.DataFrame) -> str:
    return _told(judge(part, RULES[GUIDELINE])) if len(part) else NOTHING


def _header(found: Found) -> Iterator[str]:
    yield from (one.short for one in found)


def _told(one: Judgement) -> str:
    """`85 of 96 (0.12)`."""
    return f"{out_of(one.right, one.decided)} ({plain_number(one.cost)})"
