"""View of the paper's guideline as a rule, compared with the bounds and with fixed choices.

The conclusion of the paper:

"S2S is the better choice when (i) inter-component heterogeneity is high; or (ii) intra-component
heterogeneity is high, and the server can sample only a small subset of devices while D2S
communication is more frequent. Conversely, when data are nearly IID across components or when a
high sampling rate and a well-connected topology mitigate intra-component noise, S2A [...]."
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from skerry.analysis.compare import LEVEL
from skerry.config.experiment import Network
from skerry.network.fleet import build_fleet
from skerry.report.text import NOTHING, Sheet
from skerry.theory.bounds import bound
from skerry.theory.parameters import Parameters
from skerry_paper.agreement import clear_gaps
from skerry_paper.blends import HETEROGENEITY
from skerry_paper.plan import DEVICES
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import Protocol, cell_gaps, shown_protocols
from skerry_paper.study import ISLANDS, Studies, StudyData
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import View

Choice = Literal["s2s", "s2a"]
Cell = Mapping[Any, Any]
"""The factors of a cell."""

FEW, OFTEN = 0.2, 5
"""What counts as a small K/n and a short period H, as in the text's examples."""
EPSILON = 1e-5
"""The accuracy epsilon of the paper's figures 1 and 6."""


def guideline(cell: Cell) -> Choice:
    """The primitive that the paper's conclusion recommends for a cell.

    The conclusion gives no numbers for "small subset" and "more frequent": here they mean K/n <=
    0.2 and H <= 5, as in the text's examples. The topology is not used."""
    if cell["inter"] != "iid":
        return "s2s"
    few_and_often = cell["share"] <= FEW + 1e-9 and cell["period"] <= OFTEN
    return "s2s" if cell["intra"] != "iid" and few_and_often else "s2a"


def favoured_by_bounds(cell: Cell) -> Choice:
    """The primitive that needs fewer rounds by the theorems, with all constants one."""
    p = fleet_mixing(cell["topology"], cell.get("islands", ISLANDS))
    zetas = HETEROGENEITY[cell["intra"]], HETEROGENEITY[cell["inter"]]
    return _fewer_rounds(round(cell["share"] * DEVICES), cell["period"], p, *zetas)


@lru_cache
def _fewer_rounds(K: int, H: int, p: float, zeta_intra: float, zeta_inter: float) -> Choice:
    setting = Parameters(
        devices=DEVICES,
        components=2,
        sampled=K,
        period=H,
        p=p,
        zeta_intra=zeta_intra,
        zeta_inter=zeta_inter,
        sigma2=0,
        smoothness=1,
        initial_error=1,
        epsilon=EPSILON,
    )
    s2s, s2a = (float(bound(setting, one, "order", convex=False).rounds) for one in ("s2s", "s2a"))
    return "s2s" if s2s < s2a else "s2a"


@lru_cache
def fleet_mixing(topology: str, islands: str) -> float:
    """Mixing parameter p of the fleet of the first seed; `islands` are sizes such as "50, 50"."""
    sizes = tuple(int(size) for size in islands.split(", "))
    network = Network(devices=sum(sizes), components=sizes, topology=topology)
    return build_fleet(network, seed=0).mixing_parameters().minimum


GUIDELINE, BOUNDS = "the paper's guideline", "the bounds, constants one"
RULES: dict[str, Callable[[Cell], Choice]] = {
    GUIDELINE: guideline,
    BOUNDS: favoured_by_bounds,
    "always S2S": lambda cell: "s2s",
    "always S2A": lambda cell: "s2a",
}


class Judgement(NamedTuple):
    """How well a rule does on some cells."""

    right: int
    """Decided cells in which the rule names the winner."""
    decided: int
    """Cells with a clear gap (`clear_gaps`)."""
    cost: float
    """Mean accuracy lost over all cells by following the rule, in points."""
    worst: float
    """Largest accuracy lost in a cell."""


def judge(cells: pd.DataFrame, rule: Callable[[Cell], Choice]) -> Judgement:
    """Judge a rule on cells of `cell_gaps` with K < n."""
    gap, decided = cells["gap"].to_numpy(float), clear_gaps(cells)
    sign = np.array([1 if rule(row) == "s2s" else -1 for row in cells.to_dict("records")])
    lost = np.where(sign * gap < 0, np.abs(gap), 0.0)
    return Judgement(
        right=int((decided & (sign * gap > 0)).sum()),
        decided=int(decided.sum()),
        cost=float(lost.mean()) if len(lost) else float("nan"),
        worst=float(lost.max(initial=0)),
    )


def contested_cells(studies: Sequence[StudyData], protocol: Protocol) -> pd.DataFrame:
    """The gaps of all cells with K < n, computed separately for each fleet."""
    found = []
    for study in studies:
        fleets = zip(study.runs["islands"], study.runs["model"], strict=True)
        for islands, model in dict.fromkeys(fleets):
            part = cell_gaps([study.of(islands=islands, model=model)], protocol)
            found.append(part[part["share"] < 1].assign(islands=islands, model=model))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


# The view

GRIDS = ("mnist", "cifar10")
FLEETS = "fleets"
RULE = (
    "The rule: S2S where the data of islands differ; also S2S where the data of devices differ "
    f"within islands, K/n is at most {FEW:g} and H is at most {OFTEN}; S2A otherwise "
    "(`skerry_paper.views.guidelines.guideline`). The rule does not depend on what is scored."
)
NOTE = (
    "Right: in how many of the cells with a clear gap the rule names the winner; clear is a paired "
    f"t test over seeds at a false discovery rate of {LEVEL} over the cells of an entry. In "
    "brackets: the accuracy lost by following the rule, in points, as a mean over all cells. All "
    "cells with K < n, none twice, each seed at the stepsize that is best on the other seeds, for "
    "each cell and primitive. The bounds are those of the theorems with all constants one, and "
    "heterogeneity 0.1 or 1, as in Figure 1."
)


def guidelines_view(target: Target, studies: Studies) -> View:
    """A table of rules per grid, then the guideline by regime and by fleet."""
    grids = {name: studies[name] for name in (*GRIDS, FLEETS) if name in studies}
    cells = {
        name: {one: contested_cells([study], one) for one in shown_protocols(study)}
        for name, study in grids.items()
    }
    cells = {name: found for name, found in cells.items() if found}
    if not cells:
        return View(target, "Nothing was scored.")
    sheets = [_rules_sheet(name, found) for name, found in cells.items()]
    sheets += [_regimes_sheet(name, found) for name, found in cells.items()]
    if FLEETS in cells:
        sheets.append(_fleets_sheet(cells[FLEETS]))
    edges = " ".join(
        f"{_title(name)}:{text}"
        for name, one in cells.items()
        if (text := fmt.edges_sentence(one.values()))
    )
    return View(target, _verdict(cells), (RULE, *sheets, f"{NOTE} {edges}"))


GapsByProtocol = Mapping[Protocol, pd.DataFrame]


def _title(name: str) -> str:
    return "Fleets unlike the paper's" if name == FLEETS else fmt.dataset_name(name)


def _verdict(cells: Mapping[str, GapsByProtocol]) -> str:
    """How the guideline does, and the rule that loses least."""
    parts = []
    for name, found in cells.items():
        texts = []
        for protocol, frame in found.items():
            judged = {rule: judge(frame, how) for rule, how in RULES.items()}
            best = min(judged, key=lambda rule: judged[rule].cost)
            better = "" if best == GUIDELINE else f", {best} {fmt.decimal(judged[best].cost)}"
            texts.append(f"{protocol.short} {_text(judged[GUIDELINE])}{better}")
        parts.append(f"{_title(name)}: {'; '.join(texts)}")
    return f"Right choices, and the accuracy lost in points. {'. '.join(parts)}."


def _rules_sheet(name: str, found: GapsByProtocol) -> Sheet:
    rows = tuple(
        (rule, *(_text(judge(frame, how)) for frame in found.values()))
        for rule, how in RULES.items()
    )
    return Sheet(
        _title(name), ("rule", *(one.short for one in found)), rows, "l" + "r" * len(found)
    )


def _regimes_sheet(name: str, found: GapsByProtocol) -> Sheet:
    rows = []
    for regime in REGIMES.values():
        parts = [
            frame[(frame["intra"] == regime[0]) & (frame["inter"] == regime[1])]
            for frame in found.values()
        ]
        rows.append((fmt.regime_short(*regime), *(_guideline_on(part) for part in parts)))
    header = ("intra / inter", *(one.short for one in found))
    return Sheet(
        f"{_title(name)}: the guideline by regime", header, tuple(rows), "l" + "r" * len(found)
    )


def _fleets_sheet(found: GapsByProtocol) -> Sheet:
    fleets = next(iter(found.values()))[["islands", "topology", "model"]].drop_duplicates()
    rows = []
    for fleet in fleets.to_dict("records"):
        parts = [
            frame[(frame[list(fleet)] == list(fleet.values())).all(axis=1)]
            for frame in found.values()
        ]
        rows.append((*fleet.values(), *(_guideline_on(part) for part in parts)))
    header = ("islands", "links", "model", *(one.short for one in found))
    title = "Fleets unlike the paper's: the guideline by fleet"
    return Sheet(title, header, tuple(rows), "lll" + "r" * len(found))


def _guideline_on(part: pd.DataFrame) -> str:
    return _text(judge(part, RULES[GUIDELINE])) if len(part) else NOTHING


def _text(one: Judgement) -> str:
    """Right choices and cost, such as `85 of 96 (0.12)`."""
    return f"{fmt.out_of(one.right, one.decided)} ({fmt.decimal(one.cost)})"
