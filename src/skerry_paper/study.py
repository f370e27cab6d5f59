"""Results of the runs of one plan in a small file: a row per run, and curves where needed.

The tables and figures of the reproduction are made from these files alone, so that anyone who has
the files can make them again without running anything.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skerry.analysis.run_table import final_value
from skerry.analysis.statistics import Array, best_place, best_place_elsewhere
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, skerry_command
from skerry.files import replace_file
from skerry.records.parts import History

LAST = 20
Timing = Literal["final", "last 20"]
"""When a run is scored: in its last round, or by the mean over the last LAST rounds."""

FACTORS = (
    *("dataset", "scaling", "model", "islands", "intra", "inter", "topology", "dynamic", "share"),
    *("period", "primitive", "beta", "optimizer", "stepsize", "rounds", "seed"),
    *("samples", "sampling", "weight_decay", "own_tests"),
)
"""The factors in which runs of the reproduction differ, in the paper's terms; `share` is K/n, and
`samples` the share of the samples that is used."""
LATER_FACTORS: dict[str, float | str] = {
    "samples": 1.0,
    "sampling": "replacement",
    "weight_decay": 0.0,
    "own_tests": "label_mix",
}
"""Factors that older files do not have, with their values there."""

MODELS = {"mnist": "linear", "cifar10": "cnn_cifar10", "cifar100": "cnn_cifar100"}
ISLANDS = "50, 50"
"""The paper's models, and the sizes of its islands."""

STATUS, DIVERGED = "status", "diverged"
DIGITS = 5
NAMES_IN_FILES = {"initial_error": "gap"}
"""Columns of constants whose names in files differ from their names in code."""


def score_column(measure: str, timing: Timing) -> str:
    """Name of the column with the score of a measure at a timing."""
    return f"{measure} {timing}"


def final_column(measure: str) -> str:
    """Name of the column with a measure's value in the final round."""
    return score_column(measure, "final")


def last_20_column(measure: str) -> str:
    """Name of the column with a measure's mean over the last LAST rounds."""
    return score_column(measure, "last 20")


@dataclass(frozen=True)
class StudyData:
    """Results of the runs of one plan: scores, curves, and where they come from."""

    name: str
    about: dict[str, Any]
    """The command, versions, device, profile and seeds of the runs."""
    runs: pd.DataFrame
    """A row per run: FACTORS, status, and two columns per measure (see `score_column`)."""
    curves: pd.DataFrame
    """Columns `run` (row in `runs`), `round` and measures; empty where no curves are kept."""
    constants: pd.DataFrame | None = None
    """Measured constants of the theory, a row per problem, or None."""

    def of(self, **factors: Any) -> "StudyData":
        """Select runs by factors, such as `inter="non-iid"` or `share=[0.2, 0.4]`."""
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
        """The runs that diverged; they have no scores."""
        return self.runs[self.runs[STATUS] == DIVERGED] if STATUS in self.runs else self.runs[:0]

    def save(self, path: Path) -> None:
        """Write JSON by columns, each column in its shortest form."""
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
    def load(cls, path: Path) -> "StudyData":
        """Read a file that `save` wrote."""
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
                f"there is no study in {path}. Make one: {skerry_command('reproduce', 'table3')}"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise RecordsError(f"{path} is not a study of the reproduction ({error}).") from None


Studies: TypeAlias = Mapping[str, StudyData]
"""Studies by name."""


def for_dataset(studies: Studies, dataset: str) -> list[StudyData]:
    """The runs on one data set, of every study."""
    return [study.of(dataset=dataset) for study in studies.values()]


def build_study(
    name: str,
    about: dict[str, Any],
    recorded: Iterable[tuple[Experiment, History, str]],
    curves: Sequence[str] = (),
) -> StudyData:
    """Build a study from (experiment, history, status) of each run.

    `curves` are the measures kept for every round. A diverged run gets a row without scores, so
    that tuning never selects it."""
    rows: list[dict[str, Any]] = []
    lines: list[pd.DataFrame] = []
    for number, (experiment, history, status) in enumerate(recorded):
        row = factors_of(experiment) | {STATUS: status}
        for measure in sorted(history.keys() - {"round"}) if status != DIVERGED else ():
            row[final_column(measure)] = final_value(history, measure, experiment.rounds, None)
            row[last_20_column(measure)] = final_value(history, measure, experiment.rounds, LAST)
        rows.append(row)
        if curves:
            kept = {measure: history[measure] for measure in curves if measure in history}
            line = pd.DataFrame({"run": number, "round": history["round"], **kept})
            lines.append(line.dropna(how="all", subset=list(kept)))
    runs = pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(FACTORS))
    if not lines:
        lines = [pd.DataFrame({"run": pd.Series(dtype=int), "round": pd.Series(dtype=int)})]
    return StudyData(name, about, runs, pd.concat(lines, ignore_index=True))


def join_studies(parts: Sequence[StudyData]) -> StudyData:
    """Join studies of the same plan, such as seeds that ran on two machines. A run that is in
    several parts is taken from the first."""
    first, *others = parts
    if not others:
        return first
    if len({part.about.get("profile") for part in parts}) > 1:
        raise RecordsError(
            f"the parts of {first.name} have different profiles, which evaluate runs differently. "
            "Show them one by one."
        )
    starts = accumulate((len(part.runs) for part in parts[:-1]), initial=0)
    numbered = [_renumber(start, part) for start, part in zip(starts, parts, strict=True)]
    runs = pd.concat([part.runs for part in numbered])
    runs = runs[~runs.duplicated([name for name in FACTORS if name in runs])]
    curves = pd.concat([part.curves for part in numbered])
    constants = [part.constants for part in parts if part.constants is not None]
    return StudyData(
        first.name,
        _joined_about(parts, runs),
        runs,
        curves[curves["run"].isin(runs.index)].reset_index(drop=True),
        pd.concat(constants).drop_duplicates("key").reset_index(drop=True) if constants else None,
    )


def _renumber(start: int, part: StudyData) -> StudyData:
    """The same study with its runs numbered from `start`."""
    numbers = range(start, start + len(part.runs))
    renamed = dict(zip(part.runs.index, numbers, strict=True))
    curves = part.curves.assign(run=part.curves["run"].map(renamed))
    return replace(part, runs=part.runs.set_axis(numbers), curves=curves)


def _joined_about(parts: Sequence[StudyData], runs: pd.DataFrame) -> dict[str, Any]:
    """Provenance of joined parts; each distinct value appears once."""

    def distinct(name: str, separator: str) -> str:
        return separator.join(
            dict.fromkeys(str(part.about[name]) for part in parts if part.about.get(name))
        )

    counts = runs[STATUS].value_counts() if STATUS in runs else {"finished": len(runs)}
    return parts[0].about | {
        "command": distinct("command", " and "),
        "device": distinct("device", ", "),
        "note": distinct("note", "; "),
        "seconds": sum(part.about.get("seconds") or 0 for part in parts),
        "runs": {str(status): int(count) for status, count in dict(counts).items()},
        "seeds": sorted(int(seed) for seed in runs["seed"].unique()),
    }


def load_studies(*folders: Path) -> dict[str, StudyData]:
    """Load all studies in these folders by name; files of the same study are joined."""
    found: dict[str, list[StudyData]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            study = StudyData.load(path)
            found.setdefault(study.name, []).append(study)
    if not found:
        raise RecordsError(
            f"there are no studies in {', '.join(map(str, folders))}. Make some in "
            f"reproduction/data: {skerry_command('reproduce', 'table3')}"
        )
    return {name: join_studies(parts) for name, parts in found.items()}


def factors_of(experiment: Experiment) -> dict[str, Any]:
    """The FACTORS of an experiment, in the paper's terms."""
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
        "samples": data.sample_share,
        "sampling": experiment.training.sampling,
        "weight_decay": experiment.training.weight_decay,
        "own_tests": data.own_tests,
    }


RowIndex = NDArray[np.int64]
NO_RUN = -1


def at_best_stepsize(runs: pd.DataFrame, column: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """Keep, in each group of runs, each seed's run at the stepsize that `tuned_places` chooses by
    `column`. Groups are the distinct values of the columns `by`."""
    if runs.empty:
        return runs
    group = runs.groupby([*by]).ngroup().to_numpy() if by else np.zeros(len(runs), dtype=int)
    stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)[1]
    seed = np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1]
    row_gvs = index_rows(group, stepsize, seed)
    choice_gs = tuned_places(read_rows(runs, column, row_gvs), row_gvs != NO_RUN)
    best: pd.DataFrame = runs[stepsize == choice_gs[group, seed]]
    return best


def tuned_places(score_vs: Array, ran_vs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each seed, the place of the stepsize that is best on the other seeds, [..., s]: no run
    is scored at a stepsize that it helped to choose. Leading dimensions are those of the result.

    A seed whose others were run with a single stepsize is tuned on itself: nothing else is known.
    """
    by_others_vs = ran_vs.sum(axis=-1, keepdims=True) > ran_vs
    known_s = by_others_vs.sum(axis=-2) > 1
    alone_1 = best_place(score_vs, ran_vs)[..., None]
    return np.where(known_s, best_place_elsewhere(score_vs, ran_vs), alone_1)


def stepsize_counts(chosen: Iterable[float]) -> str:
    """The stepsizes chosen for some seeds: `0.1`, or `0.1 (4 seeds), 0.0316 (1)`."""
    counts = Counter(f"{size:.3g}" for size in chosen if math.isfinite(size)).most_common()
    if len(counts) == 1:
        return counts[0][0]
    words = [f"{size} ({count})" for size, count in counts]
    return ", ".join(words).replace(")", " seeds)", 1)


def index_rows(*codes: NDArray[Any]) -> RowIndex:
    """Array of row numbers, indexed by the code of a row along each axis; NO_RUN where none is."""
    rows = np.full([code.max(initial=-1) + 1 for code in codes], NO_RUN)
    rows[codes] = np.arange(len(codes[0]))
    return rows


def read_rows(runs: pd.DataFrame, column: str, rows: RowIndex) -> Array:
    """Values of a column at these rows; NaN where there is no run or no value."""
    if column not in runs or runs.empty:
        return np.full(rows.shape, np.nan)
    return np.where(rows != NO_RUN, runs[column].to_numpy(dtype=float)[rows], np.nan)


# The file format


def _with_all_factors(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the factors that did not exist when a file was written."""
    if "dataset" not in runs:
        return runs
    if "islands" not in runs:
        runs = runs.assign(model=runs["dataset"].map(MODELS), islands=ISLANDS)
    runs = runs.assign(**{n: v for n, v in LATER_FACTORS.items() if n not in runs})
    factors = [name for name in FACTORS if name in runs]
    return runs[[*factors, *runs.columns.difference(factors, sort=False)]]


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {str(name): _column(frame[name]) for name in frame}


def _column(values: "pd.Series") -> Any:
    """A column as a list, as the positions of its values, or as run lengths: the shortest."""
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
    """Decode a column that `_column` encoded."""
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
    raise ValueError("a column has an unknown form")
