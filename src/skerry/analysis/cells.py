"""Values of one measure by cell, label and seed, and the comparisons between labels.

A cell is one combination of the fields that vary between runs, other than seed and primitive.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis.compare import LEVEL, Comparison, Verdict, compare
from skerry.analysis.names import full_name
from skerry.analysis.statistics import Array, Estimate, best_place, estimates
from skerry.config import labels
from skerry.config.measures import traits

if TYPE_CHECKING:
    import pandas as pd

Cell = tuple[Any, ...]  # the values of the fields that separate cells
Readings = dict[str, dict[int, float]]  # of one cell, by label and seed; NaN: it diverged


@dataclass(frozen=True)
class TunedValue:
    """One value of a tuned field, such as a stepsize, and the results that runs had with it."""

    value: Any
    by_seed: dict[int, float]

    @property
    def mean(self) -> float:
        """The mean over the seeds that have a value."""
        return float(np.nanmean(list(self.by_seed.values())))


@dataclass(frozen=True)
class Cells:
    """Values of one measure by cell, label and seed. A cell may combine several finer cells; its
    value is then their average, seed by seed."""

    measure: str
    last: int | None  # how many last rounds the values are averaged over; None for the final value
    fields: tuple[str, ...]
    readings: dict[Cell, list[Readings]]
    constants: Mapping[str, Any]  # the fields that are the same in all runs
    statuses: Counter[str]  # how many runs are finished, diverged, running or failed
    stopped: str = ""  # a sentence on runs that a stop rule has ended, if there are any
    unmeasured: int = 0  # how many of the finished runs have no value of this measure
    experiments: tuple[Any, ...] = field(default=(), repr=False)  # of all runs

    @cached_property
    def labels(self) -> list[str]:
        parts = (part for parts in self.readings.values() for part in parts)
        return list(dict.fromkeys(name for part in parts for name in measured_labels(part)))

    @property
    def lower_is_better(self) -> bool:
        return traits(self.measure).lower_is_better

    def by(self, fields: Sequence[str]) -> "Cells":
        """Coarser cells, which only these fields separate; all others are averaged over."""
        chosen = [self.field(name) for name in fields]
        coarser: dict[Cell, list[Readings]] = {}
        for cell, parts in self.readings.items():
            values = dict(self.constants) | dict(zip(self.fields, cell, strict=True))
            coarser.setdefault(tuple(values[name] for name in chosen), []).extend(parts)
        readings = {cell: coarser[cell] for cell in sorted(coarser, key=sort_key)}
        return replace(self, fields=tuple(chosen), readings=readings)

    def best(self, field: str) -> "Cells":
        """The cells with each label at its own best value of one field, such as the stepsize."""
        return replace(
            self,
            fields=tuple(other for other in self.fields if other != self.field(field)),
            readings={
                cell: [{label: choice.by_seed for label, choice in tuned.items()}]
                for cell, tuned in self.tuned_values(field).items()
            },
        )

    def tuned_values(self, field: str) -> dict[Cell, dict[str, "TunedValue"]]:
        """By cell without the field and by label, its best value, by the rule of `best_place`."""
        name = self.field(field)
        at = self.fields.index(name) if name in self.fields else None
        tried: dict[Cell, dict[str, list[TunedValue]]] = {}
        for cell, parts in self.readings.items():
            value = cell[at] if at is not None else self.constants[name]
            rest = cell[:at] + cell[at + 1 :] if at is not None else cell
            here = tried.setdefault(rest, {})
            for label in dict.fromkeys(label for part in parts for label in part):
                here.setdefault(label, []).append(TunedValue(value, _averaged(parts, label)))
        return {
            cell: {label: best for label, found in here.items() if (best := self._best(found))}
            for cell, here in tried.items()
        }

    def _best(self, tried: Sequence["TunedValue"]) -> "TunedValue | None":
        tried = [one for one in tried if any(map(math.isfinite, one.by_seed.values()))]
        if not tried:
            return None
        score_vs = _matrix(choice.by_seed for choice in tried)
        seeds = sorted({seed for choice in tried for seed in choice.by_seed})
        ran_vs = np.array([[seed in choice.by_seed for seed in seeds] for choice in tried])
        return tried[int(best_place(score_vs, ran_vs, lower_is_better=self.lower_is_better))]

    def field(self, name: str) -> str:
        """The full name of a field: `period` is `server.period`."""
        return full_name(name, self.fields, list(self.constants))

    def label(self, name: str) -> str:
        """The label that a user means: `blend:0.25` is `blend(0.25)`, `blend` is the only blend."""
        return labels.find_label(name, self.labels)

    def estimates(self) -> dict[tuple[Cell, str], Estimate]:
        """Mean and 95 % interval over seeds, by cell and label, where there is a value."""
        values = {
            (cell, label): _averaged(parts, label)
            for cell, parts in self.readings.items()
            for label in self.labels
            if any(label in measured_labels(part) for part in parts)
        }
        return dict(zip(values, estimates(_matrix(values.values())), strict=True))

    def comparisons(self, against: str) -> dict[tuple[Cell, str], Comparison]:
        """Every other label against one, in cells with both: one family for Holm's correction."""
        pairs = {
            (cell, label): (_averaged(parts, label, against), _averaged(parts, against, label))
            for cell, parts in self.readings.items()
            for label in self.labels
            if label != against
            and any({label, against} <= set(measured_labels(part)) for part in parts)
        }
        # One matrix for both, so that the halves have the same columns (seeds).
        ours = [ours for ours, _ in pairs.values()]
        theirs = [theirs for _, theirs in pairs.values()]
        ours_cs, theirs_cs = np.split(_matrix([*ours, *theirs]), 2)
        return dict(zip(pairs, compare(ours_cs, theirs_cs), strict=True))


@dataclass(frozen=True)
class ComparedCells:
    """Cells with the mean of every label, and its paired comparison with one reference label."""

    cells: Cells
    against: str  # the reference label
    level: float = LEVEL

    @cached_property
    def estimates(self) -> dict[tuple[Cell, str], Estimate]:
        return self.cells.estimates()

    @cached_property
    def comparisons(self) -> dict[tuple[Cell, str], Comparison]:
        return self.cells.comparisons(self.against)

    @cached_property
    def seeds(self) -> int:
        """The largest number of seeds that any label has in any cell."""
        return max(found.count for found in self.estimates.values())

    def verdict(self, comparison: Comparison) -> Verdict:
        return comparison.verdict(self.cells.lower_is_better, self.level)

    @cached_property
    def others(self) -> list[str]:
        """The labels that are compared with the reference in any cell."""
        return list(dict.fromkeys(label for _, label in self.comparisons))

    @cached_property
    def tally(self) -> Counter[tuple[str, Verdict]]:
        """By label and verdict, the number of cells."""
        return Counter((label, self.verdict(one)) for (_, label), one in self.comparisons.items())

    def frame(self) -> "pd.DataFrame":
        """A row per cell and label, with its difference to the reference label."""
        import pandas as pd

        frame = pd.DataFrame([self._record(*key) for key in self.estimates])
        whole = [name for name in frame if name == "pairs" or str(name).startswith("seeds")]
        return frame.astype(dict.fromkeys(whole, "Int64"))

    def _record(self, cell: Cell, label: str) -> dict[str, Any]:
        """A row of the frame. The columns of the comparison are empty for the reference label."""
        found, paired = self.estimates[cell, label], self.comparisons.get((cell, label))
        gap = paired and paired.difference
        spread, sides = ("standard_error", "low", "high"), ("higher", "equal", "lower")
        return dict(zip(self.cells.fields, cell, strict=True)) | {
            "primitive": label,
            "measure": self.cells.measure,
            "seeds": found.count,
            "mean": found.mean,
            **{name: getattr(found, name) for name in spread},
            "against": self.against,
            "pairs": gap and gap.count,
            "difference": gap and gap.mean,
            **{f"difference_{name}": gap and getattr(gap, name) for name in spread},
            **{f"seeds_{side}": paired and getattr(paired, side) for side in sides},
            "t_p": paired and paired.t_p,
            "t_p_holm": paired and paired.t_holm,
            "wilcoxon_p": paired and paired.wilcoxon_p,
            "wilcoxon_p_holm": paired and paired.wilcoxon_holm,
            "verdict": paired and self.verdict(paired),
            "untested": (paired and paired.untested) or None,
            "variance_saved": paired and paired.variance_saved,
        }


def _averaged(parts: Sequence[Readings], label: str, partner_label: str = "") -> dict[int, float]:
    """By seed, the mean over the parts that have this label, and also the label `partner_label` if
    it is given: both sides of a difference must average over the same parts. NaN where all
    diverged."""
    values: dict[int, list[float]] = {}
    for part in parts:
        partner = part.get(partner_label or label, {})
        for seed, value in part.get(label, {}).items():
            found = values.setdefault(seed, [])
            if math.isfinite(value) and math.isfinite(partner.get(seed, math.nan)):
                found.append(value)
    return {
        seed: sum(found) / len(found) if found else math.nan
        for seed, found in sorted(values.items())
    }


def measured_labels(part: Readings) -> list[str]:
    """The labels of a cell of which any run has a finite value."""
    return [label for label, found in part.items() if any(map(math.isfinite, found.values()))]


def sort_key(cell: Cell) -> tuple[tuple[int, Any], ...]:
    """Sort cells by value: rising numbers, then words, then None."""
    return tuple(
        (2, "") if value is None else (1, value) if isinstance(value, str) else (0, value)
        for value in cell
    )


def _matrix(rows: Iterable[Mapping[int, float]]) -> Array:
    """A row per mapping, a column per seed; NaN where there is no run."""
    rows = list(rows)
    seeds = sorted({seed for row in rows for seed in row})
    values = [[row.get(seed, np.nan) for seed in seeds] for row in rows]
    return np.array(values, dtype=float).reshape(len(rows), len(seeds))
