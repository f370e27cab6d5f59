"""From frames to drawn lines: labels, line styles, means and intervals over seeds."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.analysis.statistics import Array, carry_stopped, estimates
from skerry.config.labels import BLEND, label_order, write_label
from skerry.config.measures import traits
from skerry.errors import SkerryError, unknown
from skerry.report.style import DASHES, LabelStyle, label_styles

if TYPE_CHECKING:
    import pandas as pd


class Band(NamedTuple):
    """Means over seeds along an axis, and the 95 % interval around each (NaN for one seed)."""

    at: NDArray[Any]
    mean: Array
    half: Array


def labelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The frame with a column `label`, made from primitive and beta if it is missing."""
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
    """The frame with a categorical label column, so that every panel knows all labels."""
    import pandas as pd

    known = pd.CategoricalDtype(sorted(dict.fromkeys(frame[column]), key=label_order))
    return frame.assign(**{column: frame[column].astype(known)})


def label_styles_in(labels: "pd.Series[Any]") -> dict[str, LabelStyle]:
    """The styles of the labels in a column, from S2S over the blends to S2A."""
    present = sorted(dict.fromkeys(labels), key=label_order)
    known = list(labels.cat.categories) if hasattr(labels, "cat") else present
    styles = label_styles(known)
    return {name: styles[name] for name in present}


def finite_rows(frame: "pd.DataFrame", *measures: str) -> "pd.DataFrame":
    """The rows in which all of the measures are finite; an error if there are none."""
    for measure in measures:
        if measure not in frame:
            raise SkerryError(unknown("measure", measure, map(str, frame.columns)))
    finite = np.isfinite(frame[list(measures)].to_numpy(float)).all(axis=1)
    rows: pd.DataFrame = frame[finite]
    if rows.empty:
        raise SkerryError(
            f"no run has a finite value of {' and '.join(measures)}. Choose another measure, or "
            "a stepsize with which runs do not diverge."
        )
    return rows


def dashes_for(column: "pd.Series[Any] | None") -> dict[Any, Any]:
    """A line style for each value of a column."""
    values = [] if column is None else dict.fromkeys(column.dropna())
    return {value: DASHES[i % len(DASHES)] for i, value in enumerate(values)}


def split_by_dash(
    ours: "pd.DataFrame", lines: str | None, styles: dict[Any, Any]
) -> Iterator[tuple[Any, "pd.DataFrame"]]:
    """The rows of each line style; one solid line if the runs ignore the field."""
    if lines is None or ours[lines].isna().all():
        yield "-", ours
        return
    for value, dash in styles.items():
        part = ours[ours[lines] == value]
        if not part.empty:
            yield dash, part


def band_over_seeds(frame: "pd.DataFrame", measure: str, along: str) -> Band:
    """Means and intervals over seeds at each value of the column `along`. Runs of one seed are
    averaged first, because only seeds are independent. Runs that stopped early keep their last
    value."""
    table = frame.pivot_table(index=along, columns="seed", values=measure)
    if along == "round" and {"key", "status"} <= set(frame):
        last = frame[frame["status"] == "finished"].groupby("key")["round"].max()
        if last.nunique() > 1:
            runs = frame.pivot_table(index=along, columns=["seed", "key"], values=measure)
            keys = runs.columns.get_level_values("key")
            ends = [last.get(key, runs.index.max()) for key in keys]
            runs[:] = carry_stopped(runs.to_numpy(), runs.index, ends)
            table = runs.T.groupby(level="seed").mean().T.dropna(how="all")
    found = estimates(table.to_numpy())
    return Band(
        table.index.to_numpy(),
        np.array([one.mean for one in found]),
        np.array([one.half_width for one in found]),
    )


def break_index(at: ArrayLike) -> int | None:
    """The index after which a line must be broken, or None. A line is broken where one step is more
    than three times as long as any other: nothing was measured there, as before evaluate.after."""
    steps = np.diff(np.asarray(at, dtype=float))
    if len(steps) < 2:
        return None
    longest = int(np.argmax(steps))
    return longest if steps[longest] > 3 * np.delete(steps, longest).max() else None


def with_break(band: Band, at: ArrayLike | None = None) -> Band:
    """The band with NaN inserted where the line must be broken, at other positions if given."""
    index = break_index(band.at)
    if at is not None:
        band = band._replace(at=np.asarray(at))
    if index is None:
        return band
    return Band(*(np.insert(np.asarray(one, dtype=float), index + 1, np.nan) for one in band))


def clip_limits(limits: tuple[float, float], measure: str) -> tuple[float, float]:
    """Axis limits clipped to the possible values of a measure, with some room for markers."""
    low, high = traits(measure).range
    room = 0.04 * (limits[1] - limits[0]) if np.isfinite(high) else 0.0
    return max(low - room, limits[0]), min(high + room, limits[1])
