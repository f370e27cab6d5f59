"""The conventions of the first author's other code, and what each of them changes.

That code deals training and test samples by one rule, uses a fifth of them, and scores every device
on its own test samples. A rule says which samples are used and how; the first one follows that
code. Each other comparison changes one thing, on the cells and seeds that both sides have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from skerry_paper.agreement import Agreement, agreement, printed_of
from skerry_paper.plan import STEPSIZES
from skerry_paper.plans import SAMPLE_RULES
from skerry_paper.printed import CELL, REGIME
from skerry_paper.protocol import STATED, Protocol, Stepsize, TableGrid, table_runs
from skerry_paper.study import Studies, Timing

STUDIES = {"mnist": "mnist-conventions", "cifar10": "cifar10-conventions"}
RULE = ["samples", "sampling", "weight_decay"]
MIDDLE = round(STEPSIZES[2], 6)
"""The stepsize at which conventions are varied one at a time, 10**-1.5."""


@dataclass(frozen=True)
class Convention:
    """One way to use samples and to score runs."""

    samples: float = 0.2
    """The share of the samples that is used."""
    sampling: str = "epochs"
    """`epochs`: a minibatch has no sample twice, if the device has enough of them."""
    weight_decay: float = 0.0
    scoring: str = "own_accuracy"
    timing: Timing = STATED
    stepsize: Stepsize = "tuned"

    @property
    def protocol(self) -> Protocol:
        return Protocol(self.scoring, self.timing, self.stepsize, "standard")

    @property
    def stepsize_words(self) -> str:
        return self.stepsize if isinstance(self.stepsize, str) else f"{self.stepsize:.3g}"


def policies(base: Convention | None = None) -> Sequence[Convention]:
    """The base with the stepsize tuned for each algorithm, then with every stepsize of the paper's
    range; without a base, as in that code."""
    base = base or Convention()
    return [base, *(replace(base, stepsize=round(size, 6)) for size in STEPSIZES)]


def single_changes(base: Convention) -> dict[str, Convention]:
    """The base, and conventions that differ from it in one thing, by what that thing is."""
    return {
        "as in that code": base,
        "all samples": replace(base, samples=1.0),
        "minibatches with replacement": replace(base, sampling="replacement"),
        "weight decay 0.0005": replace(base, weight_decay=5e-4),
        "all test samples, weighted by own labels": replace(base, scoring="label_mix_accuracy"),
        "devices weighted by their samples": replace(base, scoring="own_accuracy_weighted"),
        "the average model on all test samples": replace(base, scoring="average_accuracy"),
        "mean of the last 20 rounds": replace(base, timing="last 20"),
        **{
            f"stepsize {size:.3g}": replace(base, stepsize=round(size, 6))
            for size in STEPSIZES
            if round(size, 6) != base.stepsize
        },
        "stepsize tuned for each algorithm": replace(base, stepsize="tuned"),
    }


class ConventionRuns:
    """The runs of one data set under every rule, as grids of the printed cells."""

    def __init__(self, studies: Studies, dataset: str):
        study = studies[STUDIES[dataset]]
        self.dataset = dataset
        self.printed = printed_of(dataset)
        self._grids = {
            rule: TableGrid.of(
                table_runs([study.of(**dict(zip(RULE, rule, strict=True)))]), "standard"
            )
            for rule in SAMPLE_RULES
        }

    def gaps(self, convention: Convention) -> pd.DataFrame:
        """The gaps of every cell that was run; see `TableGrid.cell_gaps`. Tuned gaps are of cells
        in which several stepsizes were run."""
        rule = (convention.samples, convention.sampling, convention.weight_decay)
        found = self._grids[rule].cell_gaps(convention.protocol)
        return found[found["tried"] > 1] if convention.stepsize == "tuned" else found

    def agreement(self, convention: Convention) -> Agreement:
        """Agreement with the printed gaps over all cells that were run."""
        return agreement(self.gaps(convention), self.printed)

    def regime_means(self, convention: Convention) -> Iterator[tuple[str, str, float, float]]:
        """Intra and inter split, and the means of the printed and of our gaps, a dash as 0."""
        both = self.printed[[*CELL, "gap"]].merge(self.gaps(convention)[[*CELL, "gap"]], on=CELL)
        for (_, intra, inter), cells in both.groupby(REGIME, sort=False):
            yield str(intra), str(inter), cells["gap_x"].fillna(0).mean(), cells["gap_y"].mean()

    def has(self, convention: Convention) -> bool:
        """Whether any printed cell was run like this."""
        rule = (convention.samples, convention.sampling, convention.weight_decay)
        return rule in self._grids and not self.gaps(convention).empty


def convention_runs(studies: Studies) -> list[ConventionRuns]:
    """The runs of every data set that has some."""
    return [ConventionRuns(studies, name) for name, study in STUDIES.items() if study in studies]
