"""The data of a report: the table of runs, final values, and curves over the rounds.

A store is read in one pass with the histories of one group of runs in memory at a time. Curves are
means over seeds with half of the 95 % interval, with fewer rounds where a page would be too large.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.cells import Cell, ComparedCells, TunedValue
from skerry.analysis.compare import reference_label
from skerry.analysis.results import Lane, Results
from skerry.analysis.run_table import Group, RunTable, Stores, final_value, open_stores
from skerry.analysis.statistics import CONFIDENCE, carry_stopped, moments
from skerry.clock.settings import Clock, read_clock
from skerry.config.experiment import Experiment, Server
from skerry.config.measures import MEASURES, headline, traits
from skerry.errors import RecordsError
from skerry.records.parts import History
from skerry.records.store import Run
from skerry.report.figures.series import break_index
from skerry.report.page.advice_file import Advice, is_at, read_advice
from skerry.report.page.clocks import AnyClocks, name_clocks, price_histories
from skerry.report.page.packing import COARSE, FINE, Array, quantize_halves, quantize_means

TUNED = "training.stepsize"
RATIOS = ("disagreement_ratio", "bias_ratio")  # the page has their means over rounds too
MOST_VALUES = 3_000_000  # means in a page, at two to three bytes each, as compressed text
MANY_VALUES = 500_000  # with more means than this, they are stored with fewer digits
GOAL = "goal_"  # the beginning of the name of a goal that is the mean of several measures
FEWEST_ROUNDS, MOST_ROUNDS = 12, 1_000  # limits of the number of rounds per curve

Ints = NDArray[np.int64]


class Curves:
    """Collects curves, and packs all curves of one measure together."""

    def __init__(self, most: int):
        self.most = most  # the largest number of rounds per curve
        self.round_sets: dict[tuple[int, ...], int] = {}
        self.thinned: tuple[int, int] | None = None
        """The numbers of shown and of recorded rounds, if some are left out."""
        self._curves: dict[str, list[tuple[int, int, Array, Array, int]]] = {}
        """By measure: number, round set, means and half intervals of each curve, and the number of
        points before the break in its line (0 if there is none)."""
        self._values = 0

    @property
    def measures(self) -> list[str]:
        return list(self._curves)

    def add(
        self, number: int, histories: Sequence[History], server: Server, carries: bool = False
    ) -> None:
        """Add the curves of one group, whose runs have these histories, for all measures. With
        `carries`, runs that ended before the others keep their last values."""
        names = dict.fromkeys(name for history in histories for name in history)
        measures = [name for name in names if name != "round"]
        rounds, mean, half = _mean_over_seeds(histories, measures, carries)
        shown = rounds_to_show(rounds, server, self.most)
        if not shown.all() and (self.thinned is None or len(rounds) > self.thinned[1]):
            self.thinned = int(shown.sum()), len(rounds)
        for measure, mean_r, half_r in zip(measures, mean, half, strict=True):
            measured = np.isfinite(mean_r) & shown
            if measured.any():
                found = tuple(rounds[measured].tolist())
                at = self.round_sets.setdefault(found, len(self.round_sets))
                # Rounds that are left out to save space make no break in the line.
                index = break_index(rounds[np.isfinite(mean_r)])
                end = 0 if index is None else np.flatnonzero(np.isfinite(mean_r))[index] + 1
                before = int(measured[:end].sum())
                curve = (number, at, mean_r[measured], half_r[measured], before)
                self._curves.setdefault(measure, []).append(curve)
                self._values += len(found)

    def arrays(self, measure: str) -> dict[str, NDArray[Any]]:
        """All curves of a measure, for `pack_arrays`."""
        known = traits(measure)
        numbers, round_sets, *values, breaks = zip(*self._curves[measure], strict=True)
        lengths = np.array([len(one) for one in values[0]])
        means, halves = map(np.concatenate, values)
        logarithmic = known.scale == "log"
        if logarithmic:  # relative intervals, which grow with the mean
            with np.errstate(invalid="ignore", divide="ignore"):
                halves = np.where(means > 0, halves / means, np.nan)
        # Counts grow evenly, so that all of their digits compress well.
        finest = FINE if known.is_count or self._values <= MANY_VALUES else COARSE
        return {
            "curve": np.array(numbers, dtype=np.uint32),
            "rounds": np.array(round_sets, dtype=np.uint32),
            "hole": np.array(breaks, dtype=np.uint32),
            **quantize_means(means, lengths, logarithmic, finest),
            **quantize_halves(halves, lengths),
        }


@dataclass(frozen=True)
class ReportData:
    """All data of a report: the runs of a store, finished or not, with final values and curves."""

    grid: RunTable  # the runs in their cells, without histories
    finals: Mapping[str, Array] = field(repr=False)
    """By measure, in the order of the page, the final value of every run; NaN if unfinished."""
    mean_ratios: Mapping[str, Array] = field(repr=False)
    """By measure of RATIOS, the mean over all server rounds of every run."""
    curves: Curves = field(repr=False)
    curve_of: Sequence[int] = field(repr=False)  # by group, the number of its curve
    advice: Advice | None = field(default=None, repr=False)
    """The advice for which the runs were made; None if there is none, or it cannot be read."""
    clocks: Mapping[str, Clock] = field(default_factory=dict, repr=False)
    """By name, the clocks under which the runs have seconds and joules."""

    @property
    def folder(self) -> Path:
        """The folder of the store, or of the first of several."""
        return self.grid.paths[0].parent

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.grid.runs

    @property
    def experiments(self) -> list[Experiment]:
        return [run.experiment for run in self.runs]

    @property
    def measures(self) -> list[str]:
        return list(self.finals)

    @cached_property
    def ranked(self) -> list[str]:
        """The measures that finished runs have; only these are compared."""
        return [name for name, values in self.finals.items() if np.isfinite(values).any()]

    @property
    def headline(self) -> str:
        """The default measure: that of the advice's goal or, without one, as in `skerry.results`;
        empty if nothing was measured."""
        found = self.ranked or self.measures
        goal = goal_measure(self.advice)
        return goal if goal in found else headline(found)

    @cached_property
    def compared(self) -> dict[str, ComparedCells]:
        """By ranked measure, what `skerry.results` returns."""
        cells = (self.grid.arrange(name, self.finals[name]) for name in self.ranked)
        return {one.measure: ComparedCells(one, reference_label(one.labels)) for one in cells}

    @cached_property
    def tuned_values(self) -> dict[Cell, dict[str, TunedValue]]:
        """The best stepsize of every label by the headline measure, if stepsizes vary. The keys are
        the cells without the stepsize."""
        if TUNED not in self.grid.axes or not self.ranked:
            return {}
        return self.compared[self.headline].cells.tuned_values(TUNED)

    @cached_property
    def named_groups(self) -> dict[str, int]:
        """By label, the groups of the advice's best, cheapest and serverless points, the
        recommended one first. Of several groups it is the one with most seeds."""
        found: dict[str, int] = {}
        advice = self.advice or {"points": {}, "recommended": ""}
        for role in (advice["recommended"], "best", "cheapest", "none"):
            if point := advice["points"].get(role):
                fits = [is_at(self.experiment(one), point) for one in self.grid.groups]
                seeds = [
                    fit * len(one.runs) for fit, one in zip(fits, self.grid.groups, strict=True)
                ]
                found |= {point["label"]: seeds.index(max(seeds))} if any(seeds) else {}
        return found

    def experiment(self, group: Group) -> Experiment:
        """An experiment of the group; the others differ only in the seed."""
        return self.runs[next(iter(group.runs.values()))].experiment

    def results(self) -> Results:
        """The runs as `skerry.run` returns them, without their histories."""
        lanes = []
        for at, run in enumerate(self.runs):
            values = {name: float(found[at]) for name, found in self.finals.items()}
            final = {name: value for name, value in values.items() if np.isfinite(value)}
            end = self.grid.label_of[run.key].removeprefix(run.experiment.server.label)
            lane = Lane(run.key, run.experiment, run.status, final, {}, run.note, run, apart=end)
            lanes.append(lane)
        return Results(tuple(lanes), frozenset(self.finals))


def read_report_data(path: Stores, clock: AnyClocks = None) -> ReportData:
    """Read the data of a report from a store (its folder or its file), or from several; with
    seconds and joules under a clock or several."""
    with open_stores(path) as stores:
        table = RunTable.stream(stores).numbered()
        try:
            advice = read_advice(table.paths)
        except RecordsError:  # its section says so
            advice = None
        named = name_clocks(clock)
        clocks = {name: read_clock(one) for name, one in named.items()}
        return replace(_read(table, advice, price_histories(table, named)), clocks=clocks)


def goal_measure(advice: Advice | None) -> str:
    """The measure of the advice's goal; empty without an advice."""
    first, *others = advice["question"]["measures"] if advice else [""]
    return GOAL + first.rpartition("_")[2] if others else first


def _read(
    table: RunTable, advice: Advice | None = None, priced: Mapping[str, History] | None = None
) -> ReportData:
    def history_of(run: Run) -> History:
        return _with_goal({**table.histories[run.key], **(priced or {}).get(run.key, {})}, advice)

    # A run without a server is in several groups, but is only one curve.
    groups = [tuple(group.runs.values()) for group in table.groups]
    numbers = {positions: number for number, positions in enumerate(dict.fromkeys(groups))}
    longest = max(table.runs, key=lambda run: run.rounds_done, default=None)
    curves = Curves(_most_rounds(len(numbers), history_of(longest)) if longest else 0)
    finals: dict[str, Array] = defaultdict(lambda: np.full(len(table.runs), np.nan))
    mean_ratios = {name: np.full(len(table.runs), np.nan) for name in RATIOS}
    for positions, number in numbers.items():
        histories = {place: history_of(table.runs[place]) for place in positions}
        begun = {place: history for place, history in histories.items() if len(history["round"])}
        finished = {p: begun[p] for p in begun if table.runs[p].status == "finished"}
        for place, history in finished.items():
            rounds = table.runs[place].experiment.rounds
            for name in history.keys() - {"round"}:
                finals[name][place] = final_value(history, name, rounds)
            for name in RATIOS:
                mean_ratios[name][place] = final_value(history, name, rounds, last=rounds)
        # If no run of the group is finished, the unfinished ones are drawn.
        if shown := list((finished or begun).values()):
            server = table.runs[positions[0]].experiment.server
            curves.add(number, shown, server, carries=bool(finished))
    asked = [goal_measure(advice), *(advice["question"]["measures"] if advice else ())]
    known = [name for name in dict.fromkeys([*asked, *MEASURES]) if name in curves.measures]
    measures = [*known, *sorted(set(curves.measures).difference(known))]
    return ReportData(
        replace(table, histories={}),
        {name: finals[name] for name in measures},
        mean_ratios,
        curves,
        [numbers[positions] for positions in groups],
        advice,
    )


def _with_goal(history: History, advice: Advice | None) -> History:
    """The history with the goal of the advice as a measure, where it is a mean of several."""
    goal, wanted = goal_measure(advice), advice["question"]["measures"] if advice else []
    if not goal.startswith(GOAL) or not history.keys() >= set(wanted):
        return history
    return {**history, goal: np.mean([history[name] for name in wanted], axis=0)}


def rounds_to_show(rounds: Ints, server: Server, most: int) -> NDArray[np.bool_]:
    """A mask of the recorded rounds to show, at most `most`. If there are more, half of the shown
    rounds are evenly spaced; the other half are server rounds, each with the round before it, so
    that the effect of the server stays visible."""
    mask = np.ones(len(rounds), dtype=bool)
    if len(rounds) > most:
        # Records count the rounds that are done: round t of the run is t + 1.
        with_server = np.isin(rounds - 1, server.known_rounds(int(rounds[-1])))
        after = _evenly_spaced(np.flatnonzero(with_server), most // 4)
        even = _evenly_spaced(np.arange(len(rounds)), most - 2 * len(after))
        mask[:] = False
        mask[np.concatenate([even, after - 1, after])] = True
    return mask


def t_quantiles(most_seeds: int) -> Array:
    """By number of seeds, Student's t for the 95 % interval; NaN where there is none."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return np.asarray(stdtrit(np.arange(-1, most_seeds), 0.5 + CONFIDENCE / 2), dtype=float)


def _most_rounds(curves: int, example: History) -> int:
    """The number of rounds per curve that fit into a page, if all histories are like this one.
    Counts of messages are ignored, because they compress to almost nothing."""
    kept = [name for name in example if name != "round" and not traits(name).is_count]
    values = sum(int(np.isfinite(example[name]).sum()) for name in kept)
    each = values / max(1, len(example["round"]))
    fit = int(MOST_VALUES / max(1.0, curves * each))
    return min(MOST_ROUNDS, max(FEWEST_ROUNDS, fit))


def _evenly_spaced(indices: Ints, count: int) -> Ints:
    if len(indices) <= count:
        return indices
    return indices[np.rint(np.linspace(0, len(indices) - 1, count)).astype(np.int64)]


def _mean_over_seeds(
    histories: Sequence[History], measures: Sequence[str], carries: bool
) -> tuple[Ints, Array, Array]:
    """The rounds [R], and for each measure and round the mean and half interval [M, R]."""
    rounds = np.unique(np.concatenate([history["round"] for history in histories]))
    values = np.full((len(measures), len(rounds), len(histories)), np.nan)
    for s, history in enumerate(histories):
        rows = np.searchsorted(rounds, history["round"])
        for m, measure in enumerate(measures):
            if measure in history:
                values[m, rows, s] = history[measure]
    last_s = [history["round"][-1] for history in histories]
    if carries and len(set(last_s)) > 1:
        values = np.stack([carry_stopped(values_rs, rounds, last_s) for values_rs in values])
    mean, variance, count = moments(values.reshape(-1, len(histories)))
    with np.errstate(invalid="ignore", divide="ignore"):
        half = t_quantiles(len(histories))[count] * np.sqrt(variance / count)
    shape = values.shape[:2]
    return rounds, mean.reshape(shape), half.reshape(shape)
