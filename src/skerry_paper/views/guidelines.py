"""The paper's guideline as a rule: how often it is right, what it costs, and what others cost."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from skerry.report.text import NOTHING, Sheet
from skerry_paper.guidelines import FEW, GUIDELINE, OFTEN, RULES, Judgement, contested, judge
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import Protocol, shown_protocols
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.in_words import dataset_words, out_of, plain_number, regime_short
from skerry_paper.views.view import View

if TYPE_CHECKING:
    import pandas as pd

GRIDS = ("mnist", "cifar10")
FLEETS = "fleets"
RULE = (
    "The rule: S2S where the data of islands differ; S2S too where those of devices differ inside "
    f"islands, at most {FEW:g} of them are sampled, and that every {OFTEN} rounds or more often; "
    "S2A otherwise (`skerry_paper.guidelines.guideline`). It does not look at what is scored."
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


Found = Mapping[Protocol, "pd.DataFrame"]


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


def _guideline_on(part: "pd.DataFrame") -> str:
    return _told(judge(part, RULES[GUIDELINE])) if len(part) else NOTHING


def _header(found: Found) -> Iterator[str]:
    yield from (one.short for one in found)


def _told(one: Judgement) -> str:
    """`85 of 96 (0.12)`."""
    return f"{out_of(one.right, one.decided)} ({plain_number(one.cost)})"
