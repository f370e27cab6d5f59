"""Read the kept results of the study: one tuned value per seed, and paired differences of them.

The stepsize of a seed is the one that is best on the other seeds, by the measure that is scored. So
no score is lucky because its own seed chose the stepsize.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.compare import Comparison, compare
from skerry.analysis.statistics import best_place_elsewhere, estimate

DATA = Path(__file__).parent / "data"
AVERAGE, DEVICES, OWN = "average_accuracy", "device_accuracy", "own_accuracy"
NO_SERVER = {"primitive": "none"}
Row = Mapping[str, Any]
Values = NDArray[np.float64]


class Study:
    """The rows of one file of kept results, and what it says about how they were made."""

    def __init__(self, name: str, folder: Path = DATA) -> None:
        kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        self.about: dict[str, Any] = kept["about"]
        self.rows: list[Row] = kept["rows"]

    def row(self, **fields: Any) -> Row:
        """The one row with these fields. Rings, right labels and two islands unless told otherwise;
        without a server, fields of the server are left out."""
        wanted = {"fleet": "2 islands", "topology": "ring", "wrong": None} | fields
        if wanted["primitive"] == "none":
            wanted |= {"selection": None, "sampled": None, "period": None}
        (found,) = (r for r in self.rows if all(r.get(k) == v for k, v in wanted.items()))
        return found

    def values(self, measure: str = AVERAGE, tuned_by: str = "", **fields: Any) -> Values:
        """A measure at the stepsize that is best on the other seeds, by seed; NaN if it diverged.
        `tuned_by` is the measure that tunes, by default the one that is scored."""
        row = self.row(**fields)
        scores, tuning = (
            np.array(row[name], dtype=float) for name in (measure, tuned_by or measure)
        )
        places = best_place_elsewhere(tuning, np.ones_like(tuning))
        return scores[places, np.arange(scores.shape[1])]

    def edges(self, measure: str = AVERAGE) -> tuple[int, int]:
        """How many rows choose their first or last stepsize for some seed, and how many there
        are."""
        tables = [np.array(row[measure], dtype=float) for row in self.rows]
        chosen = [set(best_place_elsewhere(t, np.ones_like(t)).tolist()) for t in tables]
        at_edge = [bool(c & {0, len(t) - 1}) for c, t in zip(chosen, tables, strict=True)]
        return sum(at_edge), len(at_edge)


def stretches(row: Row, measure: str = AVERAGE, length: int = 100) -> Values:
    """Means of a curve over stretches of rounds, (0, 100], (100, 200], ..., [seed, stretch]."""
    rounds = np.array(row["round" if measure == AVERAGE else "device_round"])
    curves = np.array(row[measure], dtype=float)
    ends = range(length, int(rounds.max()) + 1, length)
    parts = [(end - length < rounds) & (rounds <= end) for end in ends]
    return np.stack([curves[:, part].mean(axis=1) for part in parts], axis=1)


def differences(pairs: Sequence[tuple[Values, Values]]) -> list[Comparison]:
    """New minus old for pairs (new, old), paired by seed: one family of tests (Holm)."""
    return compare([new for new, _ in pairs], [old for _, old in pairs])


def by_column(
    pairs: Mapping[tuple[Any, ...], tuple[Values, Values]],
) -> dict[Any, Comparison]:
    """Differences by key, whose last entry is the column of a table: each column answers one
    question, and is one family of tests."""
    found: dict[Any, Comparison] = {}
    for column in dict.fromkeys(key[-1] for key in pairs):
        here = [key for key in pairs if key[-1] == column]
        found |= zip(here, differences([pairs[key] for key in here]), strict=True)
    return found


def level(values: Values, digits: int = 2) -> str:
    """`90.12 ± 0.05`: the mean over seeds, and half of its 95 % interval."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "diverged"
    found = estimate(finite)
    spread = f" ± {found.half_width:.{digits}f}" if len(finite) > 1 else ""
    lost = f" ({len(values) - len(finite)} diverged)" if len(finite) < len(values) else ""
    return f"{found.mean:.{digits}f}{spread}{lost}"


def told(found: Comparison, digits: int = 2) -> str:
    """`+1.23 ± 0.45`: the mean difference, and half of its 95 % interval."""
    text = f"{found.difference.mean:+.{digits}f}"
    if math.isfinite(found.difference.half_width):
        text += f" ± {found.difference.half_width:.{digits}f}"
    return text


def sign(found: Comparison) -> int:
    """1 or -1 where a difference is clear (paired t test, Holm over its family), otherwise 0."""
    return {"win": 1, "loss": -1}.get(found.verdict(), 0)


def cell(found: Comparison) -> str:
    """A difference in a table: bold where it is clear."""
    return f"**{told(found)}**" if sign(found) else told(found)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A markdown table whose first columns are aligned to the left."""
    return [
        f"| {' | '.join(header)} |",
        f"| {' | '.join(['---'] * left + ['---:'] * (len(header) - left))} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
