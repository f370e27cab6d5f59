"""Measures over the rounds: mean over seeds and half of the 95 % interval, thinned where needed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.statistics import CONFIDENCE, moments
from skerry.config.experiment import Server
from skerry.config.measures import traits
from skerry.records.parts import History
from skerry.report.figures.series import hole_after
from skerry.report.page.packing import COARSE, FINE, Array, half_levels, levels

MOST_VALUES = 3_000_000
"""Means that a page holds; two to three bytes each, compressed and as text."""
MANY_VALUES = 500_000
"""More than these are stored with fewer digits."""
FEWEST_ROUNDS, MOST_ROUNDS = 12, 1_000
"""Of a curve; a screen is not wider."""

Ints = NDArray[np.int64]


def most_rounds(curves: int, like: History) -> int:
    """How many rounds of each curve a page can hold, if histories are like this one. Counts of
    messages do not count: they grow evenly, and compress to nothing."""
    columns = [
        column for name, column in like.items() if name != "round" and not traits(name).is_count
    ]
    values = sum(int(np.isfinite(column).sum()) for column in columns)
    each = values / max(1, len(like["round"]))
    fit = int(MOST_VALUES / max(1.0, curves * each))
    return min(MOST_ROUNDS, max(FEWEST_ROUNDS, fit))


def kept(rounds: Ints, server: Server, most: int) -> NDArray[np.bool_]:
    """Which of the recorded rounds are shown. Where they are too many, half are evenly spaced; the
    other half are server rounds, each with the round before it, so that what the server does is
    still seen."""
    mask = np.ones(len(rounds), dtype=bool)
    if len(rounds) > most:
        # Records count the rounds that are done: round t of the run is t + 1.
        with_server = np.isin(rounds - 1, server.known_rounds(int(rounds[-1])))
        after = _spread(np.flatnonzero(with_server), most // 4)
        even = _spread(np.arange(len(rounds)), most - 2 * len(after))
        mask[:] = False
        mask[np.concatenate([even, after - 1, after])] = True
    return mask


def _spread(places: Ints, count: int) -> Ints:
    if len(places) <= count:
        return places
    return places[np.rint(np.linspace(0, len(places) - 1, count)).astype(np.int64)]


def over_seeds(histories: Sequence[History], measures: Sequence[str]) -> tuple[Ints, Array, Array]:
    """The rounds, and for each measure and round the mean and half interval, [M, R]."""
    rounds = np.unique(np.concatenate([history["round"] for history in histories]))
    values = np.full((len(measures), len(rounds), len(histories)), np.nan)
    for s, history in enumerate(histories):
        rows = np.searchsorted(rounds, history["round"])
        for m, measure in enumerate(measures):
            if measure in history:
                values[m, rows, s] = history[measure]
    mean, variance, count = moments(values.reshape(-1, len(histories)))
    with np.errstate(invalid="ignore", divide="ignore"):
        half = quantiles(len(histories))[count] * np.sqrt(variance / count)
    shape = values.shape[:2]
    return rounds, mean.reshape(shape), half.reshape(shape)


def _before_hole(rounds: Ints, there: NDArray[np.bool_], shown: NDArray[np.bool_]) -> int:
    """Of the shown points, how many come before the hole; 0 where there is none. Rounds that are
    left out to save room make none."""
    place = hole_after(rounds[there])
    return 0 if place is None else int(shown[: np.flatnonzero(there)[place] + 1].sum())


def quantiles(most_seeds: int) -> Array:
    """By number of seeds, Student's t for an interval over so many; NaN where there is none."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return np.asarray(stdtrit(np.arange(-1, most_seeds), 0.5 + CONFIDENCE / 2), dtype=float)


@dataclass
class _Series:
    """The curves of one measure."""

    numbers: list[int] = field(default_factory=list)
    round_sets: list[int] = field(default_factory=list)
    means: list[Array] = field(default_factory=list)
    halves: list[Array] = field(default_factory=list)
    holes: list[int] = field(default_factory=list)
    """By curve, how many points come before the stretch in which nothing was measured."""


class Curves:
    """Collects curves, and packs those of one measure together."""

    def __init__(self, most: int):
        self.most = most
        """Rounds that are shown of each curve."""
        self.round_sets: dict[tuple[int, ...], int] = {}
        self.thinned: tuple[int, int] | None = None
        """How many of how many rounds are shown, where not all are."""
        self._series: dict[str, _Series] = {}
        self._values = 0

    @property
    def measures(self) -> list[str]:
        return list(self._series)

    def add(self, number: int, histories: Sequence[History], server: Server) -> None:
        names = dict.fromkeys(name for history in histories for name in history)
        measures = [name for name in names if name != "round"]
        rounds, mean, half = over_seeds(histories, measures)
        shown = kept(rounds, server, self.most)
        if not shown.all() and (self.thinned is None or len(rounds) > self.thinned[1]):
            self.thinned = int(shown.sum()), len(rounds)
        for measure, mean_r, half_r in zip(measures, mean, half, strict=True):
            measured = np.isfinite(mean_r) & shown
            if measured.any():
                series = self._series.setdefault(measure, _Series())
                found = tuple(rounds[measured].tolist())
                series.numbers.append(number)
                series.round_sets.append(self.round_sets.setdefault(found, len(self.round_sets)))
                series.means.append(mean_r[measured])
                series.halves.append(half_r[measured])
                series.holes.append(_before_hole(rounds, np.isfinite(mean_r), measured))
                self._values += len(found)

    def arrays(self, measure: str) -> dict[str, NDArray[Any]]:
        """All curves of a measure, for `packed`."""
        series, known = self._series[measure], traits(measure)
        lengths = np.array([len(one) for one in series.means])
        means, halves = np.concatenate(series.means), np.concatenate(series.halves)
        logarithmic = known.scale == "log"
        if logarithmic:  # intervals of such means grow with them
            with np.errstate(invalid="ignore", divide="ignore"):
                halves = np.where(means > 0, halves / means, np.nan)
        # Counts grow evenly: their digits cost nothing.
        finest = FINE if known.is_count or self._values <= MANY_VALUES else COARSE
        return {
            "curve": np.array(series.numbers, dtype=np.uint32),
            "rounds": np.array(series.round_sets, dtype=np.uint32),
            "hole": np.array(series.holes, dtype=np.uint32),
            **levels(means, lengths, logarithmic, finest),
            **half_levels(halves, lengths),
        }
