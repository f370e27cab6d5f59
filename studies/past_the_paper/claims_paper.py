"""Claims on the paper itself: its appendix, its printed gaps and its Figure 12."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from evidence import STUDIES, Difference, differences

from skerry.theory.bounds import coefficients, guaranteed_average
from skerry.theory.parameters import Parameters
from skerry_paper.agreement import Agreement, agreement, baselines, printed_of
from skerry_paper.conventions import Convention, ConventionRuns, convention_runs
from skerry_paper.plan import STEPSIZES
from skerry_paper.printed import statements
from skerry_paper.protocol import cell_gaps, shown_protocol
from skerry_paper.study import StudyData, load_studies

DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


@cache
def studies() -> Mapping[str, StudyData]:
    return load_studies(STUDIES / "reproduction" / "data")


# The appendix

LOWEST = 0.7390851332151607
"""z of the lowest point of the counterexample."""


def average_on_the_cosine(stepsize: float, period: int, rounds: int, zeta: float) -> float:
    """The mean of ||grad f||^2 at the average of two devices, both sampled, each an island.

    f(y, z) = cos y - 1 + z^2/2 - sin(z)(1 - cos y)/2, whose curvature is at most 2, plus and minus
    zeta y on the two devices, which start on its ridge (0, 0)."""
    y, z, total = np.zeros(2), np.zeros(2), 0.0
    tilt = zeta * np.array([1.0, -1.0])
    for t in range(rounds):
        across, along = _slope(y.mean(), z.mean())
        total += float(across**2 + along**2)
        across, along = _slope(y, z)
        y, z = y - stepsize * (across + tilt), z - stepsize * along
        if t % period == 0:
            y, z = np.full(2, y.mean()), np.full(2, z.mean())
    return total / rounds


def _slope(y: Any, z: Any) -> tuple[Any, Any]:
    return -np.sin(y) * (1 + np.sin(z) / 2), z - np.cos(z) * (1 - np.cos(y)) / 2


@dataclass(frozen=True)
class Inequality:
    """The measured average on the counterexample, and what the appendix promises."""

    stepsize: float
    period: int
    measured: float
    promised: float


@cache
def inequality() -> Inequality:
    stepsize, period, rounds, zeta = 1 / 16.08, 400, 40_000, 1e-6
    f0 = 2 + float(np.sin(LOWEST)) - LOWEST**2 / 2
    setting = Parameters(2, 2, 2, period, 1, 0, zeta, 0, 2, f0, 1e-3)
    promised = guaranteed_average(
        setting, "s2s", "printed", False, stepsize=stepsize, rounds=rounds
    )
    measured = average_on_the_cosine(stepsize, period, rounds, zeta)
    return Inequality(stepsize, period, measured, float(promised))


def mixing_on_pair_and_path() -> tuple[float, float]:
    """Islands of 2 and 3 devices: the disagreement that the mean of p promises to leave at most,
    and what a difference along the path of three keeps."""
    path = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    p_pair, p_path = 1.0, 1 - float(np.linalg.norm(path - 1 / 3, 2)) ** 2
    along = np.array([1.0, 0.0, -1.0])
    kept = float(np.sum((along @ path) ** 2) / np.sum(along**2))
    return 1 - (p_pair + 2 * p_path) / 3, kept


def constants_at_full_sampling() -> tuple[float, float]:
    """The printed coefficients of the squared stepsize of S2S and S2A at K = n, one algorithm."""
    setting = Parameters(100, 2, 100, 5, 1, 0.1, 0.1, 0, 1, 1, 1e-5)
    s2s, s2a = (float(coefficients(setting, one, "printed", False).e) for one in ("s2s", "s2a"))
    return s2s, s2a


# The printed gaps


@dataclass(frozen=True)
class Distances:
    """Distance from the printed gaps as stated, of the constant zero, and by the conventions."""

    stated: Agreement
    zero: float
    always_s2s: Agreement
    tuned: Agreement | None
    """By the conventions, stepsizes tuned; None if that was not run."""
    closest: Agreement | None
    """By the conventions, at the one stepsize for all that is closest to the printed gaps."""
    stepsize: str


@cache
def distances(dataset: str) -> Distances:
    printed = printed_of(dataset)
    names = [n for n in studies() if n == dataset or n.startswith(f"{dataset}-stepsizes")]
    gaps = cell_gaps([studies()[name] for name in names], shown_protocol("own_accuracy"))
    base = baselines(printed)
    runs = [one for one in convention_runs(studies()) if one.dataset == dataset]
    met = by_stepsize(runs[0]) if runs else {}
    tuned = met.pop("tuned", None)
    best = min(met, key=lambda name: met[name].rms, default="")
    stated = agreement(gaps, printed)
    return Distances(stated, base["zero"].rms, base["always S2S"], tuned, met.get(best), best)


def by_stepsize(runs: ConventionRuns) -> dict[str, Agreement]:
    """Agreement by the conventions with tuned stepsizes, and with each stepsize for all."""
    base = Convention()
    found = {"tuned": base} | {
        f"{size:.3g}": replace(base, stepsize=round(size, 6)) for size in STEPSIZES
    }
    return {name: runs.agreement(one) for name, one in found.items() if runs.has(one)}


# Figure 12


def momentum() -> tuple[float, dict[str, Difference]]:
    """Mean gap over 1,000 rounds, FedAvgM minus FedAvg: printed, and ours by goal."""
    study = studies()["cifar10-long"]
    found = {}
    for goal in ("average_accuracy", "own_accuracy"):
        gaps = []
        for optimizer in ("fedavgm", "fedavg"):
            part = study.of(
                topology="ring", optimizer=optimizer, intra="iid", inter="non-iid", period=20
            )
            curves = part.curves[part.curves["round"] > 0].dropna(subset=[goal])
            means = curves.groupby("run")[goal].mean()
            by_seed = [
                means[part.runs.index[(part.runs["primitive"] == p)]].to_numpy()
                for p in ("s2s", "s2a")
            ]
            gaps.append(by_seed[0] - by_seed[1])
        (found[goal],) = differences([(gaps[0], gaps[1])])
    (printed,) = (one.value for one in statements("fig12") if one.key == "fig12_change")
    return float(printed), found
