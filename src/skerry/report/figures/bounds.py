"""What the server does to disagreement and to the average: measured, and as the theory says."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from skerry.config.experiment import Experiment
from skerry.config.labels import dial_position
from skerry.errors import SkerryError, unknown
from skerry.report.figures.captions import SHARE, measure_title
from skerry.report.figures.panels import ASIDE
from skerry.report.figures.series import labelled, looks_of, measured, over_seeds
from skerry.report.style import GREY, plain
from skerry.theory.operators import Numbers, delta, kappa
from skerry.theory.ratios import expected_ratios, samples_as_in_the_paper

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

THEORY: dict[str, Callable[[int, "np.typing.NDArray[np.int64]", float], Numbers]] = {
    "disagreement_ratio": lambda n, K, beta: (1 - beta) ** 2 * delta(n, K),
    "bias_ratio": lambda n, K, beta: beta**2 * kappa(n, K),
}

UNIFORM, EXPECTED = "samples_as_in_the_paper", "expected_"


def bound(frame: "pd.DataFrame", axis: "Axes", measure: str = "disagreement_ratio") -> "Axes":
    """Against the sampled share: what of the disagreement a server round leaves, or turns into
    bias. Points are means over all server rounds, with 95 % intervals over seeds; lines are the
    exact expectations, (1-β)² (n-K)/(n-1) and β² (n-K)/(K(n-1)), of uniform sampling.

    `frame` is that of `skerry.load`, of runs whose server optimizer is fedavg. `with_expected` adds
    what is expected where the server samples otherwise.
    """
    if measure not in THEORY:
        raise SkerryError(unknown("measure of the theory", measure, THEORY))
    there = measured(labelled(frame), measure)
    if there["devices"].nunique() > 1:
        raise SkerryError(
            "the theory's curve is that of one number of devices (got "
            f"{', '.join(map(str, sorted(set(there['devices']))))}). Draw one of them at a time."
        )
    n = int(there["devices"].iloc[0])
    K, top = np.arange(1, n + 1), 1e-3
    for name, look in looks_of(there["label"]).items():
        ours = there[there["label"] == name]
        found = over_seeds(ours, measure, "sampled")
        half = np.nan_to_num(found.half)
        top = max(top, float((found.mean + half).max()))
        axis.errorbar(
            found.at / n, found.mean, half if half.any() else None, color=look.colour,
            marker=look.marker, linestyle="none", elinewidth=0.7, capsize=1.5, label=plain(name),
            zorder=3,
        )  # fmt: skip
        beta = _beta(ours)
        if UNIFORM not in ours or ours[UNIFORM].all():
            if beta is not None:
                axis.plot(K / n, THEORY[measure](n, K, beta), color=look.colour, linewidth=0.9)
        elif not ours[UNIFORM].any() and ours[EXPECTED + measure].notna().any():
            theory = over_seeds(ours, EXPECTED + measure, "sampled")
            axis.plot(
                theory.at / n, theory.mean, color=look.colour, linewidth=0.9,
                marker="_", markersize=9,
            )  # fmt: skip
    axis.plot([], [], color=GREY, linewidth=0.9, label="theory", gid=ASIDE)
    axis.set_ylim(-0.04 * top, 1.08 * top)
    axis.set_xlabel(SHARE)
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return axis


def with_expected(frame: "pd.DataFrame", experiments: Mapping[str, Experiment]) -> "pd.DataFrame":
    """The frame with what is expected of both ratios in every server round, by the keys of its
    runs: under other rules than uniform sampling it depends on how much of the disagreement is
    inside islands, which was measured before the server round."""
    parts = ("disagreement_intra_before", "disagreement_inter_before")
    before = [frame[part].to_numpy() for part in parts if part in frame]
    uniform = {key: samples_as_in_the_paper(one) for key, one in experiments.items()}
    columns = {measure: np.full(len(frame), np.nan) for measure in THEORY}
    for run, rows in frame.groupby("key").indices.items():
        key = str(run)
        if uniform.get(key, True):
            continue
        for measure, shares in expected_ratios(experiments[key])._asdict().items():
            if shares is not None and shares.is_one_number:
                columns[measure][rows] = shares.intra
            elif shares is not None and len(before) == len(parts):
                columns[measure][rows] = shares.ratio(*(part[rows] for part in before))
    found = {EXPECTED + measure: column for measure, column in columns.items()}
    return frame.assign(**found, **{UNIFORM: frame["key"].map(uniform)})


def _beta(ours: "pd.DataFrame") -> float | None:
    """Where the primitive stands on the dial; a user's own is not on it."""
    return dial_position(ours["primitive"].iloc[0], float(ours["beta"].iloc[0]))
