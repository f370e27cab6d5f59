"""What a group of runs measured, small enough to keep: a row per run, and curves where asked.

Tables and figures of the reproduction are made from studies alone, so that whoever has the file
can make them again without running anything.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skerry.analysis.recorded import value_of
from skerry.analysis.statistics import Array, best_place
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.files import replace_file
from skerry.records.parts import History

LAST = 20
Timing = Literal["final", "last 20"]
"""When a run is scored: in its last round, or on average over the last LAST rounds."""

FACTORS = (
    "dataset",
    "scaling",
    "model",
    "islands",
    "intra",
    "inter",
    "topology",
    "dynamic",
    "share",
    "period",
    "primitive",
    "beta",
    "optimizer",
    "stepsize",
    "rounds",
    "seed",
)
"""What tells the runs of the reproduction apart, in the paper's words; share is the sampled share
K/n."""

MODELS = {"mnist": "linear", "cifar10": "cnn_cifar10", "cifar100": "cnn_cifar100"}
ISLANDS = "50, 50"
"""The paper's models and islands."""

STATUS, DIVERGED = "status", "diverged"
DIGITS = 5
NAMES_IN_FILES = {"initial_error": "gap"}
"""Constants whose names in kept files are older than their names here."""


def scored(measure: str, timing: Timing) -> str:
    """The column of a measure's value at this time."""
    return f"{measure} {timing}"


def final(measure: str) -> str:
    """The column of a measure's last value."""
    return scored(measure, "final")


def lately(measure: str) -> str:
    """The column of a measure's mean over the last rounds."""
    return scored(measure, "last 20")


@dataclass(frozen=True)
class Study:
    name: str
    about: dict[str, Any]
    """The command, versions, device, profile and seeds that made it."""
    runs: pd.DataFrame
    """A row per run: the factors, its status, then `final(measure)` and `lately(measure)`."""
    curves: pd.DataFrame
    """`run` (the row in `runs`), `round`, and measures; no rows for a grid."""
    constants: pd.DataFrame | None = None
    """The theory's constants, a row per problem, where a plan asks for them."""

    def of(self, **factors: Any) -> "Study":
        """Only the runs with these values, such as `inter="non-iid"` or `share=[0.2, 0.4]`."""
        wanted = {
            name: value if isinstance(value, list | tuple) else [value]
            for name, value in factors.items()
        }
        kept = self.runs
        for name, values in wanted.items():
            kept = kept[kept[name].isin(values)]
        curves = self.curves[self.curves["run"].isin(kept.index)]
        return replace(self, runs=kept, curves=curves)

    @property
    def diverged(self) -> pd.DataFrame:
        """The runs that were no longer finite before their end: they have no scores."""
        return self.runs[self.runs[STATUS] == DIVERGED] if STATUS in self.runs else self.runs[:0]

    # Keeping

    def save(self, path: Path) -> None:
        """As JSON by columns, each in the form that is shortest."""
        table = {
            "name": self.name,
            "about": self.about,
            "runs": _columns(self.runs),
            "curves": _columns(self.curves),
        }
        if self.constants is not None:
            table["constants"] = _columns(self.constants.rename(columns=NAMES_IN_FILES))
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(table, separators=(",", ":"), allow_nan=False)
        replace_file(path, f"{text}\n".encode())

    @classmethod
    def load(cls, path: Path) -> "Study":
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            kept = _frame(table["constants"]) if "constants" in table else None
            names = {there: here for here, there in NAMES_IN_FILES.items()}
            return cls(
                table["name"],
                table["about"],
                _with_all_factors(_frame(table["runs"])),
                _frame(table["curves"]),
                None if kept is None else kept.rename(columns=names),
            )
        except FileNotFoundError:
            raise RecordsError(
                f"there is no study in {path}. skerry reproduce makes some; list names them."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise RecordsError(f"{path} is no study of the reproduction ({error}).") from None


def distil(
    name: str,
    about: dict[str, Any],
    recorded: Iterable[tuple[Experiment, History, str]],
    curves: Sequence[str] = (),
) -> Study:
    """A study from runs with their histories and statuses; `curves` names the measures that are
    kept round by round. A run that diverged has a row without scores, so that nothing is tuned to
    what cannot be relied on."""
    rows: list[dict[str, Any]] = []
    lines: list[pd.DataFrame] = []
    for number, (experiment, history, status) in enumerate(recorded):
        row = factors_of(experiment) | {STATUS: status}
        for measure in sorted(history.keys() - {"round"}) if status != DIVERGED else ():
            row[final(measure)] = value_of(history, measure, experiment.rounds, None)
            row[lately(measure)] = value_of(history, measure, experiment.rounds, LAST)
        rows.append(row)
        if curves:
            kept = {measure: history[measure] for measure in curves if measure in history}
            line = pd.DataFrame({"run": number, "round": history["round"], **kept})
            lines.append(line.dropna(how="all", subset=list(kept)))
    runs = pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(FACTORS))
    return Study(name, about, runs, pd.concat(lines, ignore_index=True) if lines else _no_curves())


def joined(parts: Sequence[Study]) -> Study:
    """One study from several of the same plan, such as seeds that were run on two machines. A run
    that is in several counts once, as in the first."""
    first, *others = parts
    if not others:
        return first
    if len({part.about.get("profile") for part in parts}) > 1:
        raise RecordsError(
            f"the parts of {first.name} are of different profiles, which look at runs differently. "
            "Show them one by one."
        )
    starts = accumulate((len(part.runs) for part in parts[:-1]), initial=0)
    counted_on = [_numbered_from(start, part) for start, part in zip(starts, parts, strict=True)]
    runs = pd.concat([part.runs for part in counted_on])
    runs = runs[~runs.duplicated([name for name in FACTORS if name in runs])]
    curves = pd.concat([part.curves for part in counted_on])
    constants = [part.constants for part in parts if part.constants is not None]
    return Study(
        first.name,
        _joined_about(parts, runs),
        runs,
        curves[curves["run"].isin(runs.index)].reset_index(drop=True),
        pd.concat(constants).drop_duplicates("key").reset_index(drop=True) if constants else None,
    )


def _numbered_from(start: int, part: Study) -> Study:
    """The same runs, with other numbers."""
    numbers = range(start, start + len(part.runs))
    renamed = dict(zip(part.runs.index, numbers, strict=True))
    curves = part.curves.assign(run=part.curves["run"].map(renamed))
    return replace(part, runs=part.runs.set_axis(numbers), curves=curves)


def _joined_about(parts: Sequence[Study], runs: pd.DataFrame) -> dict[str, Any]:
    """What the parts say, each thing once."""

    def said(name: str, between: str) -> str:
        return between.join(
            dict.fromkeys(str(part.about[name]) for part in parts if part.about.get(name))
        )

    counts = runs[STATUS].value_counts() if STATUS in runs else {"finished": len(runs)}
    return parts[0].about | {
        "command": said("command", " and "),
        "device": said("device", ", "),
        "note": said("note", "; "),
        "seconds": sum(part.about.get("seconds") or 0 for part in parts),
        "runs": {str(status): int(count) for status, count in dict(counts).items()},
        "seeds": sorted(int(seed) for seed in runs["seed"].unique()),
    }


def kept_studies(*folders: Path) -> dict[str, Study]:
    """The studies that folders keep, joined where several files are of one study."""
    found: dict[str, list[Study]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            study = Study.load(path)
            found.setdefault(study.name, []).append(study)
    if not found:
        raise RecordsError(
            f"there are no studies in {', '.join(map(str, folders))}. Make some: skerry reproduce "
            "table3 --out DIR; they are then in DIR/data."
        )
    return {name: joined(parts) for name, parts in found.items()}


def factors_of(experiment: Experiment) -> dict[str, Any]:
    """The factors in the paper's words."""
    network, server, data = experiment.network, experiment.server, experiment.data
    return {
        "dataset": data.dataset,
        "scaling": data.scaling,
        "model": experiment.model.name,
        "islands": ", ".join(map(str, network.sizes)),
        "intra": "iid" if data.intra == "iid" else "non-iid",
        "inter": "iid" if data.inter == "iid" else "non-iid",
        "topology": network.topology,
        "dynamic": network.dynamic,
        "share": server.sampled / network.devices,
        "period": server.period,
        "primitive": server.primitive,
        "beta": server.dial,
        "optimizer": server.optimizer,
        "stepsize": round(experiment.training.stepsize, 6),
        "rounds": experiment.rounds,
        "seed": experiment.seed,
    }


# The best stepsize

Rows = NDArray[np.int64]
NO_RUN = -1


def at_best_stepsize(runs: pd.DataFrame, column: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """Of each group of runs those at the stepsize that is best for this very column, as one would
    choose it who tried several on the same seeds: the rule is `best_place`."""
    if runs.empty:
        return runs
    group = runs.groupby([*by]).ngroup().to_numpy() if by else np.zeros(len(runs), dtype=int)
    stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)[1]
    seed = np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1]
    row_gvs = rows_by(group, stepsize, seed)
    choice_g = best_place(read_rows(runs, column, row_gvs), row_gvs != NO_RUN)
    best: pd.DataFrame = runs[stepsize == choice_g[group]]
    return best


def rows_by(*codes: NDArray[Any]) -> Rows:
    """Rows as an array, by their number along each axis; NO_RUN where there is none."""
    rows = np.full([code.max(initial=-1) + 1 for code in codes], NO_RUN)
    rows[codes] = np.arange(len(codes[0]))
    return rows


def read_rows(runs: pd.DataFrame, column: str, rows: Rows) -> Array:
    """A column in the places of the rows; NaN where there is no run or no value."""
    if column not in runs or runs.empty:
        return np.full(rows.shape, np.nan)
    return np.where(rows != NO_RUN, runs[column].to_numpy(dtype=float)[rows], np.nan)


# The file format


def _with_all_factors(runs: pd.DataFrame) -> pd.DataFrame:
    """Older files do not say what was the same in all runs then: the model, and two islands."""
    if "islands" in runs or "dataset" not in runs:
        return runs
    told = runs.assign(model=runs["dataset"].map(MODELS), islands=ISLANDS)
    factors = [name for name in FACTORS if name in told]
    return told[[*factors, *told.columns.difference(factors, sort=False)]]


def _no_curves() -> pd.DataFrame:
    return pd.DataFrame({"run": pd.Series(dtype=int), "round": pd.Series(dtype=int)})


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {str(name): _column(frame[name]) for name in frame}


def _column(values: "pd.Series") -> Any:
    """A list; or, where shorter, what is there and where, or the levels and how often in a row."""
    known = values.notna()
    if known.sum() * 2 < len(values):
        found = values[known].tolist()
        return {
            "rows": len(values),
            "at": [place for place, there in enumerate(known) if there],
            "values": [_short(value) for value in found],
        }
    codes, levels = pd.factorize(values)
    if len(levels) > max(1, len(values) // 8) or not known.all():
        return [_short(value) for value in values.tolist()]
    names = [_short(level) for level in levels.tolist()]
    starts = [n for n in range(len(codes)) if n == 0 or codes[n] != codes[n - 1]]
    if len(starts) * 2 > len(codes):
        return {"levels": names, "codes": codes.tolist()}
    counts = [stop - start for start, stop in pairwise([*starts, len(codes)])]
    return {"levels": names, "codes": codes[starts].tolist(), "counts": counts}


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if value - value == 0 else None


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: _values(column) for name, column in columns.items()})


def _values(column: Any) -> list[Any]:
    """What `_column` has written."""
    match column:
        case {"rows": int(rows), "at": at, "values": values}:
            found = [math.nan] * rows
            for place, value in zip(at, values, strict=True):
                found[place] = value
            return found
        case {"levels": levels, "codes": codes, "counts": counts}:
            return [levels[c] for c, n in zip(codes, counts, strict=True) for _ in range(n)]
        case {"levels": levels, "codes": codes}:
            return [levels[code] for code in codes]
        case list():
            return [math.nan if value is None else value for value in column]
    raise ValueError("a column of an unknown form")
