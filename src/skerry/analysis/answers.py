"""What a store answers about one measure: every cell over its seeds, and each label against one."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.analysis.cells import Cell, Cells
from skerry.analysis.compare import LEVEL, Comparison, Verdict, reference_of
from skerry.analysis.recorded import read_cells
from skerry.analysis.statistics import Estimate

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Answers:
    """Cells, with the one label that the others are compared with."""

    cells: Cells
    against: str
    level: float = LEVEL

    @cached_property
    def estimates(self) -> dict[tuple[Cell, str], Estimate]:
        return self.cells.estimates()

    @cached_property
    def comparisons(self) -> dict[tuple[Cell, str], Comparison]:
        return self.cells.comparisons(self.against)

    @cached_property
    def seeds(self) -> int:
        """The most seeds that any label has in any cell."""
        return max(found.count for found in self.estimates.values())

    def verdict(self, comparison: Comparison) -> Verdict:
        return comparison.verdict(self.cells.lower_is_better, self.level)

    def frame(self) -> "pd.DataFrame":
        """A row per cell and label, with its difference to the label it is compared with."""
        import pandas as pd

        frame = pd.DataFrame([dict(self._record(*key)) for key in self.estimates])
        whole = [name for name in frame if name == "pairs" or str(name).startswith("seeds")]
        return frame.astype(dict.fromkeys(whole, "Int64"))

    def _record(self, cell: Cell, label: str) -> Iterator[tuple[str, Any]]:
        yield from zip(self.cells.fields, cell, strict=True)
        found = self.estimates[cell, label]
        yield "primitive", label
        yield "measure", self.cells.measure
        yield "seeds", found.count
        yield "mean", found.mean
        yield "standard_error", found.standard_error
        yield "low", found.low
        yield "high", found.high
        yield "against", self.against
        yield from self._paired_record(self.comparisons.get((cell, label)))

    def _paired_record(self, paired: Comparison | None) -> Iterator[tuple[str, Any]]:
        """The same columns, empty, for the label that the others are compared with."""
        found = paired.difference if paired else None
        yield "pairs", found and found.count
        yield "difference", found and found.mean
        yield "difference_standard_error", found and found.standard_error
        yield "difference_low", found and found.low
        yield "difference_high", found and found.high
        yield "seeds_higher", paired and paired.higher
        yield "seeds_equal", paired and paired.equal
        yield "seeds_lower", paired and paired.lower
        yield "t_p", paired and paired.t_p
        yield "t_p_holm", paired and paired.t_holm
        yield "wilcoxon_p", paired and paired.wilcoxon_p
        yield "wilcoxon_p_holm", paired and paired.wilcoxon_holm
        yield "verdict", paired and self.verdict(paired)
        yield "untested", (paired and paired.untested) or None
        yield "variance_saved", paired and paired.variance_saved


def results(
    path: Path | str,
    measure: str | None = None,
    *,
    last: int | None = None,
    by: list[str] | None = None,
    best: str | None = None,
    against: str | None = None,
    level: float = LEVEL,
) -> Answers:
    """Tables and tests from a store (its folder or its file).

    `last` takes the mean over that many rounds instead of the final value. `best` leaves every
    label at its best value of a field, such as the stepsize. `by` names the fields that tell
    cells apart, others are averaged over. `against` is the label that the others are compared
    with (s2a, if it is there, else the first).
    """
    cells = read_cells(path, measure, last)
    cells = cells.best(best) if best is not None else cells
    cells = cells.by(by) if by is not None else cells
    reference = cells.label(against) if against is not None else reference_of(cells.labels)
    return Answers(cells, reference, level)
