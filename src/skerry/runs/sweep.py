"""A sweep: an experiment with [sweep] and [sweep.axes], and the grid of runs that it stands for."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from skerry.callables import as_text
from skerry.errors import ExperimentError, SkerryError, did_you_mean, unknown
from skerry.experiment import Count, Experiment, Section, fit_options
from skerry.explain import explain, faulty_paths
from skerry.measures import MEASURES, shown
from skerry.runs.variants import variant
from skerry.section import Takes, usual
from skerry.sections import AtLeastOne
from skerry.tables import apply_settings, read_settings, read_tables
from skerry.tables import shown as as_typed

SHOWN_FAULTS = 20
SEEDS = "seed"
COMPARE = "compare"
"""The axis whose values are names, as the argument of that name takes them."""
LARGEST_GRID = 10**6
TAKE_LISTS = ("network.components", "fleet.awake", "evaluate.measures", "evaluate.own")
"""The fields of which one value may be a list."""

Cell = tuple[tuple[str, Any], ...]
"""A place in the grid: every axis field with its value, but not the seed."""


@dataclass(frozen=True)
class Axis:
    """Fields that change together: one, or several that are zipped."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cells(self) -> list[Cell]:
        return [tuple(zip(self.fields, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Point:
    cell: Cell
    experiment: Experiment
    """At the first seed."""

    def at(self, seed: int) -> Experiment:
        """Its run at a seed: the same object whenever it is asked for, because an experiment
        remembers its keys."""
        if seed not in self._runs:
            self._runs[seed] = self.experiment.model_copy(update={SEEDS: seed})
        return self._runs[seed]

    @cached_property
    def _runs(self) -> dict[int, Experiment]:
        return {}


def _as_table(experiment: Any) -> Any:
    if isinstance(experiment, Experiment):
        return experiment.model_dump(exclude_unset=True)
    return experiment


def _flat(table: Any, prefix: str = "") -> Any:
    """`server.period = [5]` without quotes is a table in a table; both ways mean the field."""
    if not isinstance(table, Mapping):
        return table
    flat: dict[str, Any] = {}
    for name, value in table.items():
        path = f"{prefix}{name}"
        flat |= _flat(value, f"{path}.") if isinstance(value, Mapping) else {path: _named(value)}
    return flat


def _named(value: Any) -> Any:
    """Functions given from Python, in lists and rows too, by their names."""
    if isinstance(value, list | tuple):
        return type(value)(map(_named, value))
    return as_text(value)


def _axes(table: Any) -> Any:
    if not isinstance(table, Mapping):
        raise ValueError(
            f'sweep.axes must be a section, with fields such as "server.period" = [5, 10] (got '
            f"{as_typed(table)})."
        )
    return _flat(table)


def _count_or_seeds(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        seeds = check(value)
    except ValueError:
        raise ValueError(
            "sweep.seeds must be how many seeds, at least 1, or a list of seeds such as [0, 1, 5] "
            f"(got {as_typed(value)})."
        ) from None
    return seeds if isinstance(seeds, int) else tuple(dict.fromkeys(seeds))


def _single_measure(name: str) -> str:
    if name not in MEASURES:
        raise ValueError(unknown("measure", name, MEASURES))
    return name


class Sweep(Section):
    """A grid of runs: one experiment, and the fields that vary."""

    experiment: Annotated[
        Takes[Experiment | Mapping[str, Any], dict[str, Any]], BeforeValidator(_as_table)
    ]
    """What all runs share."""
    axes: Annotated[Takes[Mapping[str, Any], dict[str, Any]], BeforeValidator(_axes)] = usual(
        Field(default_factory=dict)
    )
    """The fields that vary, each with its values; all combinations are run. Several fields in one
    name, `"server.primitive, server.beta"`, change together: their values are rows. `compare` takes
    names of primitives and presets, which set several fields."""
    seeds: Annotated[
        Takes[
            int | Sequence[int],
            AtLeastOne | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)],
        ],
        WrapValidator(_count_or_seeds),
    ] = usual(1)
    """How many seeds, counted on from the experiment's own; or a list of seeds."""
    exclude: tuple[Annotated[dict[str, Any], BeforeValidator(_flat)], ...] = ()
    """Combinations that are left out."""
    tune: str = ""
    """The axis of which each cell and primitive keeps its own best value."""
    tune_by: Annotated[str, AfterValidator(_single_measure)] = "average_accuracy"
    """The measure that says which value is best: the highest accuracy, the lowest of the rest.
    Where nothing is classified, the loss in its place."""
    tune_seeds: Count | None = None
    """Tune on so many of the seeds, the first ones; the others run the best value only."""
    most: Annotated[AtLeastOne, Field(le=LARGEST_GRID)] = 50_000
    """The largest grid that is run without asking back."""

    _points: tuple[Point, ...] = PrivateAttr(())
    _numbers: tuple[int, ...] = PrivateAttr(())

    # Reading

    @classmethod
    def parse(cls, table: Mapping[str, Any], settings: Sequence[str] = ()) -> "Sweep":
        """A sweep from nested tables, with settings on top; one of an axis takes its place."""
        table, faults = apply_settings(table, settings)
        given = table.pop("sweep", {})
        if not isinstance(given, dict):
            raise ExperimentError(*faults, f"sweep must be a section (got {as_typed(given)}).")
        set_fields = {one.path: one.value for one in read_settings(settings)[0]}
        given["axes"] = _with_set_fields(_flat(given.get("axes", {})), set_fields)
        given["experiment"] = table
        try:
            sweep = _File.model_validate({"sweep": given}).sweep
        except ExperimentError as error:
            faults += error.faults
        except ValidationError as error:
            faults += [*explain(error, {"sweep": cls.table_fields()}), *_further(given, error)]
        if faults:
            raise ExperimentError(*faults)
        return sweep

    @classmethod
    def table_fields(cls) -> list[str]:
        """The fields of [sweep]."""
        return [name for name in cls.model_fields if name != "experiment"]

    @classmethod
    def load(cls, path: str | Path, settings: Sequence[str] = ()) -> "Sweep":
        """Read a TOML file."""
        table = read_tables(path)
        if "sweep" not in table:
            raise ExperimentError(
                f"{path} has no [sweep], so it is one experiment. Run it with: skerry run {path}"
            )
        return cls.parse(table, settings)

    # The grid

    @property
    def points(self) -> tuple[Point, ...]:
        """Every cell, with its experiment at the first seed."""
        return self._points

    def with_experiments(self, experiments: Sequence[Experiment]) -> "Sweep":
        """The same cells, where experiments tell more than their text did."""
        copied = self.model_copy()
        pairs = zip(self.points, experiments, strict=True)
        copied._points = tuple(Point(point.cell, experiment) for point, experiment in pairs)
        return copied

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        return self._numbers

    @property
    def fields(self) -> list[str]:
        """The fields that vary, in the order of the axes."""
        return [field for axis in self._axes() for field in axis.fields]

    def runs(
        self, points: Iterable[Point] | None = None, seeds: Iterable[int] | None = None
    ) -> list[Experiment]:
        """All runs, seed by seed. Cells that are the same run (the period of a run without a
        server plays no part) give it once."""
        points = self.points if points is None else list(points)
        found = (
            point.at(seed)
            for seed in (self.seed_numbers if seeds is None else seeds)
            for point in points
        )
        return list({run.key(): run for run in found}.values())

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = [*self._axis_faults()]
        if not faults:
            faults += [*self._tune_faults(), *self._exclude_faults(), *self._size_faults()]
        if not faults:
            faults += self._enumerate()
        if faults:
            raise ExperimentError(*faults)
        return self

    def _axes(self) -> list[Axis]:
        axes = []
        for name, values in self.axes.items():
            fields = _fields_of(name)
            rows = values if len(fields) > 1 else [[value] for value in values]
            axes.append(Axis(fields, tuple(tuple(map(_frozen, row)) for row in rows)))
        return axes

    def _axis_faults(self) -> Iterator[str]:
        known, seen = _known_fields(), set[str]()
        for name, values in self.axes.items():
            fields = _fields_of(name)
            for field in fields:
                if field == SEEDS:
                    yield "seeds are no axis. Set sweep.seeds, to a count or to a list of seeds."
                elif field not in known and not self._has_options(field.partition(".")[0]):
                    yield (
                        f"unknown axis '{field}'{did_you_mean(field, known)} An axis is a field of "
                        "an experiment, such as server.period; skerry new lists them."
                    )
                elif field in seen:
                    yield f"{field} is in two axes. Keep one of them."
                seen.add(field)
            yield from _value_faults(name, fields, values)

    def _has_options(self, section: str) -> bool:
        """Whether functions of this section may have options of their own; the experiment tells
        which. Built-in ones have them as fields, but for data sets and models."""
        named = [
            *(value for path, value in _flat(self.experiment).items() if path.startswith(section)),
            *(values for name, values in self.axes.items() if f"{section}." in name),
        ]
        own = section in Experiment.model_fields and ":" in str(named)
        return section in ("data", "model") or own

    def _tune_faults(self) -> Iterator[str]:
        if self.tune and (self.tune,) not in [axis.fields for axis in self._axes()]:
            yield (
                f"sweep.tune must be an axis of its own (got '{self.tune}'). Add its values to "
                f'[sweep.axes]: "{self.tune or "training.stepsize"}" = [0.01, 0.1]'
            )
        count = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        if self.tune_seeds is not None and self.tune_seeds > count:
            yield (
                f"sweep.tune_seeds must be at most the number of seeds (got {self.tune_seeds} of "
                f"{count}). Lower it or raise sweep.seeds."
            )

    def _exclude_faults(self) -> Iterator[str]:
        for each in self.exclude:
            for field in each:
                if field not in self.fields:
                    yield (
                        f"sweep.exclude names '{field}', which is no axis"
                        f"{did_you_mean(field, self.fields)} Axes: {', '.join(self.fields)}."
                    )

    def _size_faults(self) -> Iterator[str]:
        seeds = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        count = seeds * math.prod(len(axis.rows) for axis in self._axes())
        if count > self.most:
            allow = f", or allow it: sweep.most = {count}" if count <= LARGEST_GRID else "."
            yield (
                f"the grid has {count:,} runs, more than sweep.most = {self.most:,}. Shorten the "
                f"axes or sweep.seeds{allow}"
            )

    def _enumerate(self) -> list[str]:
        """Build every cell's experiment; returns what is wrong with any of them."""
        points: list[Point] = []
        faults: dict[str, None] = {}
        every: Iterator[Cell] = (
            tuple(chain.from_iterable(parts))
            for parts in product(*(axis.cells() for axis in self._axes()))
        )
        cells = [c for c in every if not any(_matches(dict(c), each) for each in self.exclude)]
        tables = [_placed(self.experiment, cell) for cell in cells]
        fit_options(tables)
        for cell, table in zip(cells, tables, strict=True):
            try:
                experiment, named = Experiment.parse(table), dict(cell).get(COMPARE)
                experiment = variant(experiment, str(named)) if named else experiment
                points.append(Point(cell, experiment))
            except SkerryError as error:
                faults |= dict.fromkeys(error.faults)
        if not points and not faults:
            return ["the grid is empty: sweep.exclude leaves no cell. Exclude fewer."]
        lines = list(faults)[:SHOWN_FAULTS]
        if len(faults) > len(lines):
            lines.append(f"and {len(faults) - len(lines):,} more faults like these.")
        if not lines:
            lines += self._tune_by_faults(points)
            self._points = tuple(points)
            first = points[0].experiment.seed
            self._numbers = (
                tuple(range(first, first + self.seeds))
                if isinstance(self.seeds, int)
                else self.seeds
            )
        return lines

    def _tune_by_faults(self, points: Sequence[Point]) -> Iterator[str]:
        if self.tune and any(
            shown(self.tune_by, point.experiment.evaluate.wanted)
            not in point.experiment.evaluate.wanted
            for point in points
        ):
            yield (
                f"sweep.tune_by = '{self.tune_by}' is not measured. Add it to evaluate.measures."
            )


class _File(Section):
    """Makes the faults of [sweep] read `sweep.seeds`, as a user typed it."""

    sweep: Sweep


def _further(given: Mapping[str, Any], error: ValidationError) -> list[str]:
    """Faults of the grid beside those of single fields, so that a file is mended in one go."""
    faulty = {path.removeprefix("sweep.") for path in faulty_paths(error)}
    try:
        Sweep.model_validate({name: given[name] for name in given if name not in faulty})
    except ExperimentError as further:
        return further.faults
    except ValidationError:
        pass  # the axes or the experiment are faulty themselves
    return []


def _fields_of(name: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in name.split(","))


def _known_fields() -> list[str]:
    fields = ["rounds", COMPARE]
    for name, section in Experiment():
        if isinstance(section, Section):
            fields += [f"{name}.{field}" for field in type(section).model_fields]
    return fields


def _value_faults(name: str, fields: Sequence[str], values: Any) -> Iterator[str]:
    if not isinstance(values, list | tuple):
        yield f'axis "{name}" must be a list of values (got {as_typed(values)}). Example: [5, 10]'
    elif not values:
        yield f'the grid is empty: axis "{name}" has no values. Give it some, such as [5, 10].'
    elif len(fields) > 1:
        wrong = [row for row in values if not _is_row(row, len(fields))]
        if wrong:
            yield (
                f'axis "{name}" must be a list of rows with {len(fields)} values each (got '
                f"{as_typed(wrong[0])})."
            )


def _is_row(row: Any, length: int) -> bool:
    return isinstance(row, list | tuple) and len(row) == length


def _with_set_fields(axes: Any, set_fields: Mapping[str, Any]) -> Any:
    """A setting `server.period=5` holds in all runs, also where the file has an axis of that field.
    In a zipped axis the other fields keep their values."""
    if not isinstance(axes, dict):
        return axes
    return {
        name: _with_set_columns(_fields_of(name), values, set_fields)
        for name, values in axes.items()
    }


def _with_set_columns(fields: Sequence[str], values: Any, set_fields: Mapping[str, Any]) -> Any:
    if set_fields.keys().isdisjoint(fields):
        return values
    if len(fields) == 1:
        return _values_of_axis(fields[0], set_fields[fields[0]])
    if not isinstance(values, list) or not all(_is_row(row, len(fields)) for row in values):
        return values  # is told as any axis that is no list of rows
    rows = [
        [set_fields.get(field, own) for field, own in zip(fields, row, strict=True)]
        for row in values
    ]
    return [row for n, row in enumerate(rows) if row not in rows[:n]]


def _values_of_axis(path: str, value: Any) -> list[Any]:
    """What a setting makes of an axis: one value. A list is one too where the field takes lists,
    or may, as options of data sets and models do; elsewhere its items are the axis's values."""
    if not isinstance(value, list) or path not in _known_fields():
        return [value]
    if path in TAKE_LISTS and not all(isinstance(item, list) for item in value):
        return [value]
    return value


def _placed(table: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The experiment's table with the values of a cell."""
    placed = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    for path, value in cell:
        if path == COMPARE:
            continue  # what a name sets is known with all else in its place
        section, _, field = path.rpartition(".")
        where = placed.setdefault(section, {}) if section else placed
        if isinstance(where, dict):  # else the experiment's own checks tell it
            where[field] = value
    return placed


def _matches(values: Mapping[str, Any], excluded: Mapping[str, Any]) -> bool:
    return bool(excluded) and all(
        values[field] == _frozen(value) for field, value in excluded.items()
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
