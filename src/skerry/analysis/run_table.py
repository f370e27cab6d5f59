"""The table of runs: the one reader of a store on which tables, tests, figures and the page stand.

The fields that vary between the runs make the cells of a grid. Each cell holds one run per label
(primitive or preset) and seed.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skerry.analysis import frame, names
from skerry.analysis.cells import Cell, Cells, ComparedCells, Readings, measured_labels, sort_key
from skerry.analysis.compare import LEVEL, reference_label
from skerry.analysis.names import BESIDE_CELLS, FOLDER, LABEL_FOLDER, Fields, Where, cell_fields
from skerry.clock.settings import AnyClock
from skerry.config import labels
from skerry.config.measures import MEASURES, shown, traits
from skerry.errors import RecordsError, SkerryError, argument, skerry_command, unknown
from skerry.files import place_of
from skerry.records.parts import History
from skerry.records.store import FILE, Run, Store

if TYPE_CHECKING:
    import pandas as pd

SEED = "seed"
STUDY = "study"  # an extra field for runs with equal fields but different data or models

Stores = Path | str | Sequence[Path | str]  # the folder or the file of a store, or several of them
Positions = dict[str, dict[int, int]]  # by label and seed, the position of a run in `RunTable.runs`


@dataclass(frozen=True)
class Group:
    """The runs of one cell and one label. They differ only in the seed."""

    cell: int
    label: int
    runs: Mapping[int, int]  # by seed, the position of the run in the table


class _Histories(dict[str, History]):
    """Histories by run key, each read by a function, as from a store, whenever it is asked for."""

    def __init__(self, read: Callable[[str], History]):
        self._read = read

    def __missing__(self, key: str) -> History:
        return self._read(key)


@contextmanager
def open_stores(paths: Stores) -> Iterator[list[Store]]:
    """Open stores to read, each once."""
    named = [paths] if isinstance(paths, Path | str) else paths
    with ExitStack() as stack:
        stores = [stack.enter_context(Store.read(path)) for path in named]
        if not stores:
            raise RecordsError("no folder is named (got an empty list). Give one or more folders.")
        yield list({store.path.resolve(): store for store in reversed(stores)}.values())[::-1]


@dataclass(frozen=True)
class RunTable:
    """Runs, finished or not, with their histories and their place in the grid of cells."""

    runs: tuple[Run, ...]
    histories: Mapping[str, History] = field(default_factory=dict, repr=False)
    """By run key, the recorded rounds. May be empty where only the grid is needed."""
    paths: tuple[Path, ...] = (Path("the store"),)  # the files or folders of the stores
    known_fields: Mapping[str, Fields] | None = field(default=None, repr=False)
    """By run key, its fields, where the caller has them already."""

    @classmethod
    def read(cls, paths: Stores) -> "RunTable":
        """All runs of a store, or of several, with all histories in memory."""
        with open_stores(paths) as stores:
            return join(
                [replace(cls.from_store(one), paths=(place_of(one.path),)) for one in stores]
            )

    @classmethod
    def from_store(cls, store: Store, keys: Iterable[str] | None = None) -> "RunTable":
        """The runs of an open store, or those with these keys, in the order of the keys."""
        wanted = None if keys is None else dict.fromkeys(keys)
        found = {run.key: (run, history) for run, history in store.histories(wanted)}
        runs = tuple(found[key][0] for key in (wanted or found))
        return cls(runs, {key: history for key, (_, history) in found.items()}, (store.path,))

    @classmethod
    def stream(cls, stores: Iterable[Store]) -> "RunTable":
        """The undamaged runs of open stores, whose histories are read when asked for."""
        parts = ((tuple(s.sound_runs()), _Histories(s.history), (s.path,)) for s in stores)
        return join([cls(*part) for part in parts])

    def priced(self, clock: AnyClock | None) -> "RunTable":
        """The table with seconds and joules under a clock; without a clock, the table itself. Runs
        without a price are left out with a warning."""
        if clock is None:
            return self
        from skerry.analysis.pricing import price

        return price(self, clock)

    @property
    def place(self) -> str:
        """The stores, in a message."""
        return " and ".join(map(str, self.paths))

    def numbered(self) -> "RunTable":
        """A copy of the table in which runs with equal fields are in separate studies instead of
        being refused. Such runs differ in data or a model given from Python."""
        times = Counter[Cell]()
        fields = {}
        for run in self.runs:
            experiment, own = run.experiment, self.fields[run.key]
            same = experiment.seed, self.label_of[run.key], *own.items()
            times[same] += 1
            fields[run.key] = own | {STUDY: str(times[same])}
        return replace(self, known_fields=fields)

    @cached_property
    def fields(self) -> Mapping[str, Fields]:
        """By run key, the fields that separate cells; None for a field that the run ignores."""
        return self.known_fields or names.fields_of_runs(self.runs)

    @cached_property
    def label_of(self) -> Mapping[str, str]:
        """By run key, the label; an edited primitive of the user has one for each version."""
        return {run.key: names.run_label(run, self.fields[run.key]) for run in self.runs}

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The fields that vary between the runs."""
        found = names.varying_fields([self.fields[run.key] for run in self.runs])
        return tuple(name for name in found if name not in BESIDE_CELLS)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The fields that are the same in all runs."""
        first = self.fields[self.runs[0].key]
        beside = {*self.axes, *BESIDE_CELLS}
        return {name: value for name, value in first.items() if name not in beside}

    @cached_property
    def positions(self) -> dict[Cell, Positions]:
        """By cell, label and seed, the position of each run in `runs`."""
        return in_order(_positions(self))

    @property
    def cells(self) -> list[Cell]:
        """The cells of the grid, as tuples of the values of `axes`."""
        return list(self.positions)

    @cached_property
    def labels(self) -> list[str]:
        """S2S, the blends by rising beta, S2A, other primitives, no server."""
        return sorted(dict.fromkeys(self.label_of.values()), key=labels.label_order)

    @property
    def seeds(self) -> list[int]:
        return sorted({run.experiment.seed for run in self.runs})

    @cached_property
    def groups(self) -> list[Group]:
        return [
            Group(cell, self.labels.index(name), runs)
            for cell, by_label in enumerate(self.positions.values())
            for name, runs in by_label.items()
        ]

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs)

    @cached_property
    def finished(self) -> "RunTable":
        """The finished runs only. An error says why where there are none."""
        runs = tuple(run for run in self.check_not_empty().runs if run.status == "finished")
        if not runs:
            raise RecordsError(
                f"none of the runs in {self.place} is finished ({format_statuses(self.statuses)}). "
                "Give the command that started them again to resume them."
            )
        return replace(self, runs=runs)

    def check_not_empty(self) -> "RunTable":
        """Return the table, or raise an error if it has no runs."""
        if not self.runs:
            raise RecordsError(
                f"no runs are recorded in {self.place}. Record some: "
                f"{skerry_command('run', out=place_of(self.paths[0]))}"
            )
        return self

    def field(self, name: str) -> str:
        """The full name of a field: `period` is `server.period`."""
        return names.full_name(name, self.axes, list(self.constants))

    def where(self, conditions: Where, compare: Sequence[str] = ()) -> "RunTable":
        """Only the runs that meet the conditions and have one of the labels in `compare`."""
        runs = self.runs
        for name, texts in conditions.items():
            path = name if name == SEED else self.field(name)
            values = {
                run.key: run.experiment.seed if path == SEED else self.fields[run.key].get(path)
                for run in runs
            }
            names.check_met("the store", name, texts, values.values())
            runs = tuple(run for run in runs if names.matches_any(values[run.key], texts))
        if compare:
            wanted = {labels.find_label(name, self.labels) for name in compare}
            runs = tuple(run for run in runs if self.label_of[run.key] in wanted)
        return replace(self, runs=runs, known_fields=self.fields)

    def split(self, by: Sequence[str]) -> dict[Cell, "RunTable"]:
        """A table for each combination of values of these fields. A run that ignores a field, such
        as the period of a run without a server, is in all of them."""
        values = {run.key: tuple(self.fields[run.key].get(f) for f in by) for run in self.runs}
        full = [cell for cell in values.values() if None not in cell] or list(values.values())
        return {
            cell: replace(
                self,
                runs=tuple(run for run in self.runs if _belongs_to(values[run.key], cell)),
                known_fields=self.fields,
            )
            for cell in in_order(dict.fromkeys(full))
        }

    @cached_property
    def measures(self) -> set[str]:
        """The measures that any of the finished runs has."""
        histories = (self.histories[run.key] for run in self.finished.runs)
        return {name for history in histories for name in history} - {"round"}

    def check_measure(self, name: str | None = None) -> str:
        """The named measure, if finished runs have it; without a name the usual one, which is the
        accuracy of the average model, or its loss where nothing is classified."""
        if name is None:
            return shown("average_accuracy", self.measures)
        if name in self.measures:
            return name
        if traits(name).group == "clock":
            raise RecordsError(
                f"no finished run in {self.place} measured {name}, which needs a clock. Price the "
                f"runs: {skerry_command('price', place_of(self.paths[0]), clock='wifi_home')}"
            )
        if name in MEASURES:
            raise RecordsError(
                f"no finished run in {self.place} measured {name}. Choose from: "
                f"{', '.join(sorted(self.measures))}; or add it to evaluate.measures and run again."
            )
        raise SkerryError(unknown("measure", name, self.measures))

    def read_measure(
        self,
        measure: str | None = None,
        *,
        last: int | None = None,
        where: Where | None = None,
        compare: Sequence[str] = (),
    ) -> Cells:
        """By cell, label and seed, the final value of a measure, or its mean over `last` rounds."""
        measure = self.check_measure(measure)
        table = self.finished.where(where or {}, compare)
        values = [
            final_value(self.histories[run.key], measure, run.rounds_done, last)
            for run in table.runs
        ]
        if np.isnan(values).all():
            raise RecordsError(
                f"no finished run in {self.place} measured {measure} in its last {last} rounds. "
                f"Take more of them: a larger {argument('last')}."
            )
        diverged = [run for run in self.runs if run.status == "diverged"]
        cells = table.arrange(measure, values, last=last, diverged=diverged)
        return replace(cells, statuses=self.statuses, stopped=describe_stopped(table.runs))

    def arrange(
        self,
        measure: str,
        values: ArrayLike,
        *,
        last: int | None = None,
        diverged: Iterable[Run] = (),
    ) -> Cells:
        """Values of one measure (one for each run of the table, NaN where it has none) by cell,
        label and seed. `diverged` are further runs that were tried and have no value."""
        values = np.asarray(values, dtype=float)
        readings: dict[Cell, Readings] = {
            cell: {
                label: {
                    seed: float(values[position])
                    for seed, position in by_seed.items()
                    if self.runs[position].status in ("finished", "diverged")
                }
                for label, by_seed in by_label.items()
            }
            for cell, by_label in self.positions.items()
        }
        for run in diverged:
            fields = self.fields.get(run.key) or cell_fields(run)
            part = readings.get(tuple(fields.get(axis) for axis in self.axes), {})
            if (label := names.run_label(run, fields)) in part:
                part[label].setdefault(run.experiment.seed, math.nan)
        finished = [run.status == "finished" for run in self.runs]
        return Cells(
            measure=measure,
            last=last,
            fields=self.axes,
            readings={cell: [part] for cell, part in readings.items() if measured_labels(part)},
            constants=self.constants,
            statuses=self.statuses,
            stopped=describe_stopped(self.runs),
            unmeasured=sum(finished) - int(np.isfinite(values[finished]).sum()),
            experiments=tuple(run.experiment for run in self.runs),
        )

    def frame(self) -> "pd.DataFrame":
        """A pandas frame with a row for each round of each run."""
        return frame.of_rounds(self.runs, self.histories, self.fields)

    def finals(self) -> "pd.DataFrame":
        """A pandas frame with a row for each run."""
        return frame.of_runs(self.runs, self.histories, self.fields)


def join(tables: Sequence[RunTable]) -> RunTable:
    """One table of the runs of several stores. A run that several of them hold counts once. Labels
    name the folder where runs of one setting lie in several, which may hold versions of one
    experiment and not its seeds, and where a user's code or data differ between folders."""
    if len(tables) == 1:
        return tables[0]
    homes: dict[str, list[int]] = {}
    for number, table in enumerate(tables):
        for run in table.check_not_empty().runs:
            homes.setdefault(run.key, []).append(number)
    entries = [{run.key: run for run in table.runs} for table in tables]

    def home(key: str) -> int:  # the first folder where the run is finished, if it is anywhere
        return min(homes[key], key=lambda one: entries[one][key].status != "finished")

    runs = tuple(entries[home(key)][key] for key in homes)
    versions = names.fields_of_runs(runs)  # with `field.source` where folders differ
    settings: dict[str, Cell] = {
        key: (tables[at].label_of[key], frozenset(tables[at].fields[key].items()))
        for key, (at, *_) in homes.items()
    }
    shared: dict[Cell, set[int]] = {}  # by setting, the folders that hold all of its runs
    for key, setting in settings.items():
        shared[setting] = shared.get(setting, set(homes[key])).intersection(homes[key])
    told = {label for (label, _), folders in shared.items() if not folders}
    told |= {label for key, (label, same) in settings.items() if len(versions[key]) > len(same)}
    folder = _short_paths([table.paths[0] for table in tables])
    fields = {}
    for key, (at, *more) in homes.items():
        fields[key] = {**tables[at].fields[key]}
        fields[key][FOLDER] = " and ".join(folder[one] for one in (at, *more))
        if settings[key][0] in told:
            fields[key][LABEL_FOLDER] = folder[at]
    paths = tuple(path for table in tables for path in table.paths)
    return RunTable(runs, _Histories(lambda key: tables[home(key)].histories[key]), paths, fields)


def _short_paths(paths: Sequence[Path]) -> list[str]:
    """The last parts of folders, as many as tell these from each other: `older`, `newer/runs`."""
    folders = [path if path.is_dir() else path.parent for path in map(Path.resolve, paths)]
    for count in range(1, max(len(one.parts) for one in folders)):
        short = ["/".join(one.parts[-count:]) for one in folders]
        if len(set(short)) == len(short):
            return short
    return list(map(str, paths))


def load(path: Stores, *, clock: AnyClock | None = None) -> "pd.DataFrame":
    """One row for each round of each run in a store (its folder or its file), or in a list of them.

    The columns are key, name, status and seed of the run; its experiment (the usual fields, and
    every other field that differs between the runs); the round; and the measures. Of several
    stores, `folder` says where a run was recorded. With a `clock` (a file, the name of an example,
    or tables) there are the measures of the group clock: seconds, joules and what they consist of.
    Runs without a price are left out with a warning.
    """
    return RunTable.read(path).priced(clock).frame()


def finals(path: Stores, *, clock: AnyClock | None = None) -> "pd.DataFrame":
    """One row for each run: as `load`, with the rounds done and the last value of each measure."""
    return RunTable.read(path).priced(clock).finals()


def results(
    path: Stores,
    measure: str | None = None,
    *,
    last: int | None = None,
    by: list[str] | None = None,
    best: str | None = None,
    against: str | None = None,
    level: float = LEVEL,
    clock: AnyClock | None = None,
) -> ComparedCells:
    """Tables and paired tests from a store (its folder or its file), or from a list of them.

    `last` takes the mean over that many rounds instead of the final value. `best` takes each label
    at its best value of a field, such as the stepsize. `by` names the fields that separate cells;
    the values are averaged over all other fields. `against` is the label that the others are
    compared with (s2a if it was run, else the first). With a `clock`, the measures include seconds
    and joules.
    """
    if measure is not None and (Path(measure) / FILE).is_file():
        raise SkerryError(
            f"a measure is expected after the folders (got the folder {measure!r}). Give several "
            f"folders as a list: skerry.results([..., {measure!r}])"
        )
    cells = RunTable.read(path).priced(clock).read_measure(measure, last=last)
    cells = cells.best(best) if best is not None else cells
    cells = cells.by(by) if by is not None else cells
    reference = cells.label(against) if against is not None else reference_label(cells.labels)
    return ComparedCells(cells, reference, level)


def format_statuses(statuses: Mapping[str, int]) -> str:
    """`3 finished, 1 diverged`."""
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())


def describe_stopped(runs: Iterable[Run]) -> str:
    """A sentence on the runs that a stop rule has ended; empty if there are none."""
    finished = [run for run in runs if run.status == "finished"]
    rounds = [run.rounds_done for run in finished if run.is_stopped]
    if not rounds:
        return ""
    first, last = min(rounds), max(rounds)
    when = f"round {first:,}" if first == last else f"rounds {first:,} to {last:,}"
    return (
        f"Stopped early: {len(rounds):,} of {len(finished):,} finished runs, after {when}. Their "
        "values are of their last round."
    )


def final_value(history: History, measure: str, rounds: int, last: int | None = None) -> float:
    """The last value of a measure, or its mean over the `last` of its rounds; NaN for none."""
    if measure not in history:
        return float("nan")
    column = history[measure]
    if last is not None:  # round 0 is the start, before any round was done
        column = column[history["round"] > max(0, rounds - last)]
    measured = column[np.isfinite(column)]
    if len(measured) == 0:
        return float("nan")
    return float(measured[-1] if last is None else measured.mean())


def in_order(cells: Mapping[Cell, Any]) -> dict[Cell, Any]:
    """Cells sorted by value: rising numbers, then words, then None."""
    return {cell: cells[cell] for cell in sorted(cells, key=sort_key)}


def _positions(table: RunTable) -> dict[Cell, Positions]:
    positions: dict[Cell, Positions] = {}
    for position, run in enumerate(table.runs):
        cell = tuple(table.fields[run.key].get(axis) for axis in table.axes)
        by_seed = positions.setdefault(cell, {}).setdefault(table.label_of[run.key], {})
        other = by_seed.setdefault(run.experiment.seed, position)
        if other != position:
            first, *others = table.paths
            forget = skerry_command("store", "forget", place_of(first), run.key)
            raise SkerryError(
                f"runs {table.runs[other].key} and {run.key} have the same fields and seed, but "
                f"{_difference(table.runs[other], run)}. Record such studies in separate folders, "
                f"or remove one run{'.' if others else f': {forget}'}"
            )
    servers = {table.label_of[run.key]: run.experiment.server for run in table.runs}
    free = {label for label, one in servers.items() if one.name or not one.is_there}
    return _beside_all(positions, free)


def _difference(one: Run, other: Run) -> str:
    """The differences between two runs whose experiments have the same text."""
    both = one.materials.keys() | other.materials.keys()
    found = sorted(n for n in both if one.materials.get(n) != other.materials.get(n))
    if found:
        return f"another {' and '.join(found)} behind them"
    return "code or files that were edited between them (the records do not tell which)"


def _beside_all(positions: Mapping[Cell, Positions], free: set[str]) -> dict[Cell, Positions]:
    """Copy the runs of `free` labels into every cell that they belong to: a run without a server
    has no period, so it belongs to the cells of all periods, and so does a run of a preset that
    sets the period itself."""
    full = {
        cell: dict(part)
        for cell, part in positions.items()
        if None not in cell or part.keys() - free
    }
    found = {cell: dict(part) for cell, part in full.items()}
    for cell, part in positions.items():
        for label in part if None in cell else ():
            if label in free:
                for target in [one for one in full if _belongs_to(cell, one)] or [cell]:
                    found.setdefault(target, {})[label] = part[label]
    return found


def _belongs_to(values: Cell, cell: Cell) -> bool:
    return all(own in (None, wanted) for own, wanted in zip(values, cell, strict=True))
