"""From frames to what is drawn: a label for every run, means and intervals over seeds."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.analysis.statistics import Array, estimates
from skerry.config.labels import BLEND, label_order, write_label
from skerry.config.measures import traits
from skerry.errors import SkerryError, unknown
from skerry.report.style import Look, dashes, looks

if TYPE_CHECKING:
    import pandas as pd


class Band(NamedTuple):
    """Means over seeds along an axis, and the 95 % interval around each (NaN for one seed)."""

    at: NDArray[Any]
    mean: Array
    half: Array


def labelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """With the column `label`: frames of `skerry.load` have the primitive and its beta."""
    if "label" in frame:
        return frame
    if "primitive" not in frame:
        raise SkerryError(
            "a figure needs a frame with the column primitive or label (got the columns "
            f"{', '.join(map(str, frame.columns))[:80]}). Take one from skerry.load."
        )
    blends = frame["primitive"].eq(BLEND)
    beta = frame["beta"] if "beta" in frame else frame["primitive"].map(lambda _: 0.5)
    with_beta = beta[blends].map(partial(write_label, BLEND))
    return frame.assign(label=frame["primitive"].map(write_label).mask(blends, with_beta))


def with_known_labels(frame: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """Parts of the frame remember all of its labels, so that panels give each the same look."""
    import pandas as pd

    known = pd.CategoricalDtype(sorted(set(frame[column]), key=label_order))
    return frame.assign(**{column: frame[column].astype(known)})


def looks_of(labels: "pd.Series[Any]") -> dict[str, Look]:
    """The looks of the labels that are there, from S2S over the blends to S2A."""
    there = sorted(dict.fromkeys(labels), key=label_order)
    known = list(labels.cat.categories) if hasattr(labels, "cat") else there
    found = looks(known)
    return {name: found[name] for name in there}


def measured(frame: "pd.DataFrame", *measures: str) -> "pd.DataFrame":
    """The rows in which all of the measures are numbers; there must be one."""
    for measure in measures:
        if measure not in frame:
            raise SkerryError(unknown("measure", measure, map(str, frame.columns)))
    finite = np.isfinite(frame[list(measures)].to_numpy(float)).all(axis=1)
    there: pd.DataFrame = frame[finite]
    if there.empty:
        raise SkerryError(
            f"no run has a finite value of {' and '.join(measures)}. Choose another measure, or "
            "a stepsize with which runs do not diverge."
        )
    return there


def styles_of(column: "pd.Series[Any] | None") -> dict[Any, Any]:
    """A line style for each value of a field."""
    return dashes(list(dict.fromkeys(column.dropna()))) if column is not None else {}


def by_style(
    ours: "pd.DataFrame", lines: str | None, styles: dict[Any, Any]
) -> Iterator[tuple[Any, "pd.DataFrame"]]:
    """The rows of each line style; one solid line where the field plays no part."""
    if lines is None or ours[lines].isna().all():
        yield "-", ours
        return
    for value, dash in styles.items():
        part = ours[ours[lines] == value]
        if not part.empty:
            yield dash, part


def over_seeds(frame: "pd.DataFrame", measure: str, along: str) -> Band:
    """Runs of one seed are averaged first: seeds, not runs, are the independent draws."""
    table = frame.pivot_table(index=along, columns="seed", values=measure)
    found = estimates(table.to_numpy())
    return Band(
        table.index.to_numpy(),
        np.array([one.mean for one in found]),
        np.array([one.half_width for one in found]),
    )


def hole_after(at: ArrayLike) -> int | None:
    """The place after which a line must not go on, because nothing was measured for long: one
    stretch is more than three times as long as any other, as where only the last rounds are
    evaluated."""
    steps = np.diff(np.asarray(at, dtype=float))
    if len(steps) < 2:
        return None
    longest = int(np.argmax(steps))
    return longest if steps[longest] > 3 * np.delete(steps, longest).max() else None


def with_hole(band: Band) -> Band:
    """With a point that is not a number where the line is to be broken."""
    place = hole_after(band.at)
    if place is None:
        return band
    return Band(*(np.insert(np.asarray(one, dtype=float), place + 1, np.nan) for one in band))


def keep_possible(limits: tuple[float, float], measure: str) -> tuple[float, float]:
    """Limits of an axis without what cannot be; a hair is left for markers at the end."""
    low, high = traits(measure).range
    room = 0.04 * (limits[1] - limits[0]) if np.isfinite(high) else 0.0
    return max(low - room, limits[0]), min(high + room, limits[1])
