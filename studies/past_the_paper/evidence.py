"""The kept results of all studies, and the statistics that every claim uses.

Stepsizes are tuned apart from the scored run: each seed has the stepsize that is best on the other
seeds. A difference is paired by seed and *clear* if Student's t test says so at the level 0.05,
with Holm's correction over the differences that are told together.
"""

import importlib.util
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.statistics import (
    Estimate,
    best_place_elsewhere,
    estimate,
    holm,
    t_test,
)

STUDIES = Path(__file__).parents[1]
DOCS = STUDIES.parent / "docs"
LEVEL = 0.05

Array = NDArray[np.float64]
Row = Mapping[str, Any]


def load(study: str, part: str) -> Any:
    """The kept results of a study, such as `load("selection", "mnist")`; None if there are none."""
    file = STUDIES / study / "data" / f"{part}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def script(study: str, name: str) -> ModuleType:
    """A script of another study as a module, such as `script("methods", "page")`."""
    title = f"{study}_{name}"
    if title not in sys.modules:
        spec = importlib.util.spec_from_file_location(title, STUDIES / study / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[title] = module
        spec.loader.exec_module(module)
    return sys.modules[title]


def tuned_values(scores_vs: Any, tuned_by_vs: Any = None) -> Array:
    """One score per seed, each at the stepsize that is best on the other seeds.

    Scores are lists over stepsizes of lists over seeds; None is a run that diverged. Stepsizes are
    chosen by `tuned_by_vs`, or by the scores themselves."""
    scores = np.array(scores_vs, dtype=float)
    guide = scores if tuned_by_vs is None else np.array(tuned_by_vs, dtype=float)
    places = best_place_elsewhere(guide, np.ones_like(guide))
    found: Array = scores[places, np.arange(scores.shape[1])]
    return found


@dataclass(frozen=True)
class Difference:
    """A difference paired by seed, with the p-value of the t test and Holm's correction."""

    by_seed: Array
    p: float
    corrected_p: float

    @property
    def over_seeds(self) -> Estimate:
        return estimate(self.by_seed)

    @property
    def mean(self) -> float:
        return self.over_seeds.mean

    @property
    def sign(self) -> int:
        """1 or -1 where the difference is clear, else 0."""
        return int(np.sign(self.mean)) if self.corrected_p <= LEVEL else 0

    def told(self) -> str:
        """`+1.23 ± 0.45`: the mean and half of its 95 % interval; bold where it is clear."""
        text = plus_minus(self.by_seed)
        return f"**{text}**" if self.sign else text


def differences(pairs: Sequence[tuple[Array, Array]]) -> list[Difference]:
    """The first minus the second of each pair, as one family of tests."""
    found = [np.asarray(one) - np.asarray(other) for one, other in pairs]
    ps = [float(t_test([one])[0]) for one in found]
    return [
        Difference(one, p, corrected)
        for one, p, corrected in zip(found, ps, holm(ps).tolist(), strict=True)
    ]


# Words


def plus_minus(values: Sequence[float] | Array, signed: bool = True) -> str:
    """`+1.23 ± 0.45`: the mean over seeds and half of its 95 % t interval."""
    found = estimate(values)
    if not found.count:
        return "diverged"
    text = f"{found.mean:+.2f}" if signed else f"{found.mean:.2f}"
    return f"{text} ± {found.half_width:.2f}" if math.isfinite(found.half_width) else text


def spread(values: Sequence[float]) -> str:
    """`-0.02 to +1.23`: the smallest and the largest."""
    low, high = f"{min(values):+.2f}", f"{max(values):+.2f}"
    return low if low == high else f"{low} to {high}"


def verdict(found: Sequence[Difference], what: str = "settings") -> str:
    """`clearly better in 3 of 8 settings and clearly worse in 1`."""
    better, worse = (sum(one.sign == sign for one in found) for sign in (1, -1))
    of = f"{len(found)} {what if len(found) > 1 else what.rstrip('s')}"
    if not better and not worse:
        return f"clearly different in none of {of}"
    if not worse:
        return f"clearly better in {better} of {of} and clearly worse in none"
    if not better:
        return f"clearly worse in {worse} of {of} and clearly better in none"
    return f"clearly better in {better} of {of} and clearly worse in {worse}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """The lines of a Markdown table; the first `left` columns are text."""
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * left + ['---:'] * (len(header) - left))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def commands(*lines: str) -> str:
    """A block of commands."""
    return "\n".join(["```text", *(f"$ {line}" for line in lines), "```"])
