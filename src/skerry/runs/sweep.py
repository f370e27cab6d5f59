"""A sweep: an experiment with [sweep] and [sweep.axes], which describe a grid of runs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

from skerry.config.experiment import Count, Experiment, Section, fit_options
from skerry.config.explain import explain, faulty_paths
from skerry.config.measures import MEASURES, shown
from skerry.config.section import AtLeastOne, Takes, default
from skerry.config.toml import apply_settings, read_settings, read_tables
from skerry.config.toml import show_value as as_typed
from skerry.errors import (
    ExperimentError,
    OtherCommandError,
    SkerryError,
    argument,
    did_you_mean,
    unknown,
)
from skerry.runs.axes import (
    COMPARE,
    SEEDS,
    Axis,
    Cell,
    axis_faults,
    flatten_fields,
    grid_cells,
    parse_axes,
    with_cell,
    with_set_fields,
    with_typed_axes,
)
from skerry.runs.variants import variant

SHOWN_FAULTS = 20
LARGEST_GRID = 10**6


@dataclass(frozen=True)
class Point:
    """A cell of the grid, with its experiment at the first seed."""

    cell: Cell
    experiment: Experiment
    _runs: dict[int, Experiment] = field(default_factory=dict, repr=False, compare=False)

    def at(self, seed: int) -> Experiment:
        """The run of this cell at a seed; always the same object, because it caches its keys."""
        if seed not in self._runs:
            self._runs[seed] = self.experiment.model_copy(update={SEEDS: seed})
        return self._runs[seed]


def _as_table(experiment: Any) -> Any:
    if isinstance(experiment, Experiment):
        return experiment.model_dump(exclude_unset=True)
    return experiment


def _axes(table: Any) -> Any:
    if not isinstance(table, Mapping):
        raise ValueError(
            f'sweep.axes must be a section, with fields such as "server.period" = [5, 10] (got '
            f"{as_typed(table)})."
        )
    return flatten_fields(table)


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
    axes: Annotated[Takes[Mapping[str, Any], dict[str, Any]], BeforeValidator(_axes)] = default(
        Field(default_factory=dict)
    )
    """The fields that vary, each with its values; all combinations are run. Several fields in one
    name, `"server.primitive, server.beta"`, vary together: their values are rows. `compare` takes
    names of primitives and presets, which set several fields."""
    seeds: Annotated[
        Takes[
            int | Sequence[int],
            AtLeastOne | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)],
        ],
        WrapValidator(_count_or_seeds),
    ] = default(1)
    """The number of seeds, counted from the experiment's own; or a list of seeds."""
    exclude: tuple[Annotated[dict[str, Any], BeforeValidator(flatten_fields)], ...] = ()
    """Combinations to leave out."""
    tune: str = ""
    """The axis to tune: each cell and primitive keeps its own best value."""
    tune_by: Annotated[str, AfterValidator(_single_measure)] = "average_accuracy"
    """The measure that ranks the values: highest accuracy, or lowest of the others. Where nothing
    is classified, the loss takes its place."""
    tune_seeds: Count | None = None
    """How many seeds, the first ones, are used for tuning; the others run the best value only."""
    most: Annotated[AtLeastOne, Field(le=LARGEST_GRID)] = 50_000
    """The largest number of runs that is accepted."""

    _points: tuple[Point, ...] = PrivateAttr(())

    @classmethod
    def parse(
        cls, table: Mapping[str, Any], settings: Sequence[str] = (), over: Sequence[str] = ()
    ) -> "Sweep":
        """A sweep from nested tables, with settings on top; one of an axis takes its place. `over`
        are further axes, `server.period=5,10`."""
        table, faults = apply_settings(table, settings)
        given = table.pop("sweep", {})
        if not isinstance(given, dict):
            raise ExperimentError(*faults, f"sweep must be a section (got {as_typed(given)}).")
        set_fields = {one.path: one.value for one in read_settings(settings)[0]}
        axes = with_set_fields(flatten_fields(given.get("axes", {})), set_fields)
        given["axes"], wrong = with_typed_axes(axes, over, set_fields)
        faults += wrong
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
    def load(
        cls, path: str | Path, settings: Sequence[str] = (), over: Sequence[str] = ()
    ) -> "Sweep":
        """Read a TOML file; with `over`, it need not have a [sweep]."""
        table = read_tables(path)
        if "sweep" not in table and not over:
            own = [one for one in settings if not one.lstrip().startswith("sweep.")]
            words = f"{path} has no [sweep], so it is one experiment. Name what varies with "
            words += f"{argument('over')}, such as server.period=5,10."
            raise OtherCommandError(words, "run", path, own)
        return cls.parse(table, settings, over)

    @property
    def points(self) -> tuple[Point, ...]:
        """Every cell, with its experiment at the first seed."""
        return self._points

    def with_experiments(self, experiments: Sequence[Experiment]) -> "Sweep":
        """A copy of the cells with other experiments, in order."""
        copied = self.model_copy()
        pairs = zip(self.points, experiments, strict=True)
        copied._points = tuple(Point(point.cell, experiment) for point, experiment in pairs)
        return copied

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        if not isinstance(self.seeds, int):
            return self.seeds
        first = self.points[0].experiment.seed
        return tuple(range(first, first + self.seeds))

    @property
    def _seed_count(self) -> int:
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds)

    @property
    def fields(self) -> list[str]:
        """The fields that vary, in the order of the axes."""
        return [field for axis in self._grid for field in axis.fields]

    def runs(
        self, points: Iterable[Point] | None = None, seeds: Iterable[int] | None = None
    ) -> list[Experiment]:
        """All runs, seed by seed. Cells that are the same run, such as all periods of a run without
        a server, give it once."""
        points = self.points if points is None else list(points)
        seeds = self.seed_numbers if seeds is None else seeds
        found = (point.at(seed) for seed in seeds for point in points)
        return list({run.key(): run for run in found}.values())

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = [*axis_faults(self.axes, self.experiment)]
        if not faults:
            faults += [*self._tune_faults(), *self._exclude_faults(), *self._size_faults()]
        if not faults:
            faults += self._enumerate()
        if faults:
            raise ExperimentError(*faults)
        return self

    @property
    def _grid(self) -> list[Axis]:
        return parse_axes(self.axes)

    def _tune_faults(self) -> Iterator[str]:
        if self.tune and (self.tune,) not in [axis.fields for axis in self._grid]:
            yield (
                f"sweep.tune must be an axis of its own (got '{self.tune}'). Add its values to "
                f'[sweep.axes]: "{self.tune or "training.stepsize"}" = [0.01, 0.1]'
            )
        if self.tune_seeds is not None and self.tune_seeds > self._seed_count:
            yield (
                f"sweep.tune_seeds must be at most the number of seeds (got {self.tune_seeds} of "
                f"{self._seed_count}). Lower it or raise sweep.seeds."
            )

    def _exclude_faults(self) -> Iterator[str]:
        for each in self.exclude:
            for name in each:
                if name not in self.fields:
                    yield (
                        f"sweep.exclude names '{name}', which is no axis"
                        f"{did_you_mean(name, self.fields)} Axes: {', '.join(self.fields)}."
                    )

    def _size_faults(self) -> Iterator[str]:
        count = self._seed_count * math.prod(len(axis.rows) for axis in self._grid)
        if count > self.most:
            allow = f", or allow it: sweep.most = {count}" if count <= LARGEST_GRID else "."
            yield (
                f"the grid has {count:,} runs, more than sweep.most = {self.most:,}. Shorten the "
                f"axes or sweep.seeds{allow}"
            )

    def _enumerate(self) -> list[str]:
        """Build the experiment of every cell; returns the errors of all of them."""
        points: list[Point] = []
        faults: dict[str, None] = {}
        cells = grid_cells(self._grid, self.exclude)
        tables = [with_cell(self.experiment, cell) for cell in cells]
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
            wanted = [point.experiment.wanted for point in points]
            if self.tune and any(shown(self.tune_by, one) not in one for one in wanted):
                by = f"sweep.tune_by = '{self.tune_by}'"
                lines.append(f"{by} is not measured. Add it to evaluate.measures.")
            self._points = tuple(points)
        return lines


class _File(Section):
    """Makes errors of [sweep] name `sweep.seeds`, as a user types it."""

    sweep: Sweep


def _further(given: Mapping[str, Any], error: ValidationError) -> list[str]:
    """Errors of the grid besides those of single fields, so that all are reported at once."""
    faulty = {path.removeprefix("sweep.") for path in faulty_paths(error)}
    try:
        Sweep.model_validate({name: given[name] for name in given if name not in faulty})
    except ExperimentError as further:
        return further.faults
    except ValidationError:
        pass  # the axes or the experiment are faulty themselves
    return []
