"""Made-up studies whose gaps are known: what devices score on their own labels has the printed
gaps (their dashes as zero), the average model has the opposite ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skerry_paper.plan import BETAS
from skerry_paper.plans import PLANS
from skerry_paper.printed import printed_cells
from skerry_paper.study import LATER_FACTORS, StudyData, final_column, last_20_column

REGIMES = [("iid", "iid"), ("non-iid", "iid"), ("iid", "non-iid"), ("non-iid", "non-iid")]
ABOUT = {
    "command": "skerry reproduce all",
    "profile": "quick",
    "versions": {"skerry": "0.1.0", "torch": "2.13.0"},
    "device": "cpu",
    "seeds": [0, 1],
}


def factors(**changes: Any) -> dict[str, Any]:
    usual = {
        "dataset": "mnist", "scaling": "standard", "model": "linear", "islands": "50, 50",
        "intra": "iid", "inter": "iid",
        "topology": "ring", "dynamic": False, "share": 0.2, "period": 5, "primitive": "s2s",
        "beta": 0.0, "optimizer": "fedavg", "stepsize": 0.1, "rounds": 100, "seed": 0,
        **LATER_FACTORS,
    }  # fmt: skip
    return usual | changes


def scores(own: float, average: float) -> dict[str, float]:
    values = {"own_accuracy": own, "average_accuracy": average}
    return {
        column(name): value
        for name, value in values.items()
        for column in (final_column, last_20_column)
    }


def no_curves() -> pd.DataFrame:
    return pd.DataFrame({"run": pd.Series(dtype=int), "round": pd.Series(dtype=int)})


def make_grid(
    dataset: str, seeds: Sequence[int] = (0, 1, 2), stepsizes: Sequence[float] = (0.1,)
) -> StudyData:
    cells = printed_cells()
    cells = cells[cells["dataset"] == dataset].drop_duplicates(
        ["intra", "inter", "topology", "share", "period"]
    )
    gap = {
        (row.intra, row.inter, row.topology, round(row.share, 2), row.period): row.gap
        for row in cells.itertuples()
    }
    rows = []
    for intra, inter in REGIMES:
        for topology in ("complete", "grid", "ring"):
            for share in (0.2, 0.4, 0.6, 0.8, 1.0):
                for period in (5, 10, 15, 20):
                    half = gap.get((intra, inter, topology, share, period), 0.0) / 2
                    half = 0.0 if np.isnan(half) or share == 1 else half
                    for seed in seeds:
                        for stepsize in stepsizes:
                            for primitive, sign in (("s2s", 1), ("s2a", -1)):
                                # Worse at all but the largest stepsize; a little noise in the gap.
                                base = (
                                    80 + 5 * share - 0.1 * period - 10 * (max(stepsizes) - stepsize)
                                )
                                noise = 0.01 * sign * (seed - sum(seeds) / len(seeds))
                                rows.append(
                                    factors(
                                        dataset=dataset, intra=intra, inter=inter,
                                        topology=topology, share=share, period=period, seed=seed,
                                        stepsize=stepsize, primitive=primitive,
                                        beta=float(primitive == "s2a"),
                                    )
                                    | scores(base + sign * half + noise, base - sign * half + noise)
                                )  # fmt: skip
    return StudyData(dataset, ABOUT, pd.DataFrame(rows), no_curves())


def make_curves(
    name: str, settings: Iterable[dict[str, Any]], rounds: int, seeds: Iterable[int] = (0,)
) -> StudyData:
    """S2S minus S2A is -4 points up to round 100 and +6 after, in every scoring; devices are scored
    every 7th round, and what a server round does follows the theory exactly."""
    rows, lines = [], []
    for setting in settings:
        for seed in seeds:
            for primitive in ("s2s", "s2a"):
                row = factors(**setting, primitive=primitive, seed=seed, rounds=rounds)
                gap = (-4 if rounds <= 100 else 6) if primitive == "s2s" else 0
                rows.append(row | scores(60.0 + gap, 55.0 + gap))
                t = np.arange(1, rounds + 1)
                accuracy = 60 * t / (t + 50) + seed
                accuracy = accuracy + (primitive == "s2s") * np.where(t <= 100, -4, 6)
                met = (t - 1) % row["period"] == 0
                before = np.where(met, 2.0, np.nan)
                left, moved = (80 / 99, 0.0) if primitive == "s2s" else (0.0, 80 / 20 / 99)
                lines.append(
                    pd.DataFrame(
                        {
                            "run": len(rows) - 1,
                            "round": t,
                            "average_accuracy": accuracy,
                            "own_accuracy": np.where(t % 7 == 0, accuracy + 5, np.nan),
                            "average_loss": 2 / np.sqrt(t),
                            "disagreement": np.where(met, 2 * left, 2 * (1 - 1 / (t + 1))),
                            "disagreement_before": before,
                            "bias": before * moved,
                            "disagreement_ratio": np.where(met, left, np.nan),
                            "bias_ratio": np.where(met, moved, np.nan),
                        }
                    )
                )
    return StudyData(name, ABOUT, pd.DataFrame(rows), pd.concat(lines, ignore_index=True))


def long_settings(dataset: str = "cifar10") -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "intra": intra, "inter": inter, "topology": topology,
         "dynamic": dynamic, "period": period, "optimizer": optimizer}
        for intra, inter in REGIMES
        for topology, dynamic in (("ring", False), ("regular", False), ("regular", True))
        for period in (15, 20)
        for optimizer in ("fedavg", "fedavgm")
    ]  # fmt: skip


def make_blend(seeds: Iterable[int] = (0, 1, 2)) -> StudyData:
    """The average model gains 2 points from S2S to S2A, devices lose 4 on their own labels; where
    islands are non-IID, the middle of the dial is 1 point above both ends for the average model."""
    rows = []
    for intra, inter in REGIMES:
        for period in (5, 20):
            for beta in BETAS:
                for seed in seeds:
                    primitive = {0.0: "s2s", 1.0: "s2a"}.get(beta, "blend")
                    middle = 4 * beta * (1 - beta) * (2 if inter == "non-iid" else 0)
                    noise = 0.01 * seed * (1 + beta)
                    rows.append(
                        factors(intra=intra, inter=inter, topology="complete", period=period,
                                primitive=primitive, beta=beta, seed=seed)
                        | scores(95 - 4 * beta + noise, 88 + 2 * beta + middle + noise)
                    )  # fmt: skip
    return StudyData("mnist-blend", ABOUT, pd.DataFrame(rows), no_curves())


def make_each_round(name: str, dataset: str, rounds: int = 100) -> StudyData:
    """On the ring, H = 5 at K/n = 0.2 and 0.6, and H = 20: S2S is 2 points ahead on own labels just
    after a server round, and falls behind by a tenth of a point in each round since; S2A loses 3
    points there."""
    rows, lines = [], []
    for intra, inter in REGIMES:
        for share, period in ((0.2, 5), (0.6, 5), (0.2, 20)):
            for seed in (0, 1):
                for primitive in ("s2s", "s2a"):
                    rows.append(
                        factors(
                            dataset=dataset, intra=intra, inter=inter, period=period, seed=seed,
                            primitive=primitive, rounds=rounds, share=share,
                        )
                        | scores(80.0, 70.0)
                    )  # fmt: skip
                    t = np.arange(rounds - 20, rounds + 1)
                    since = (t - 1) % period + 1
                    ahead = np.where(primitive == "s2s", 2 - 0.1 * (since - 1), 0)
                    own = 80 + ahead - 3 * (since == 1) * (primitive == "s2a") + 0.01 * seed
                    lines.append(
                        pd.DataFrame(
                            {"run": len(rows) - 1, "round": t,
                             "own_accuracy": own, "average_accuracy": 70.0 + 0 * t}
                        )
                    )  # fmt: skip
    return StudyData(name, ABOUT, pd.DataFrame(rows), pd.concat(lines, ignore_index=True))


def renamed(study: StudyData, name: str, shift: float = 0.0, **only: Any) -> StudyData:
    """Some of its runs as another study; S2S better by `shift` at all times."""
    runs = study.of(**only).runs.copy()
    better = shift * (runs["primitive"] == "s2s")
    for column in (one for one in runs if "accuracy" in one):
        runs[column] += better
    return StudyData(name, ABOUT, runs, no_curves())


def make_fleets() -> StudyData:
    """Of two fleets, S2S leads by a point on own labels and S2A by a point with the average model,
    whatever the regime."""
    rows = []
    for islands, model in (("25, 25, 25, 25", "linear"), ("70, 30", "mlp")):
        for intra, inter in REGIMES:
            for seed in (0, 1, 2):
                for primitive, sign in (("s2s", 0.5), ("s2a", -0.5)):
                    rows.append(
                        factors(islands=islands, model=model, intra=intra, inter=inter, seed=seed,
                                primitive=primitive)
                        | scores(90 + sign + 0.001 * seed * sign, 80 - sign - 0.001 * seed * sign)
                    )  # fmt: skip
    return StudyData("fleets", ABOUT, pd.DataFrame(rows), no_curves())


@pytest.fixture(scope="session")
def studies() -> dict[str, StudyData]:
    """One of every plan but CIFAR-100's."""
    mnist = [{"dataset": "mnist", "inter": "non-iid", "period": 5}]
    found = {
        "mnist": make_grid("mnist", stepsizes=(0.01, 0.1)),
        "cifar10": make_grid("cifar10", seeds=(0,)),
        "mnist-curves": make_curves("mnist-curves", mnist, 100, seeds=(0, 1)),
        "cifar10-long": make_curves("cifar10-long", long_settings(), 1000),
        "mnist-blend": make_blend(),
        "mnist-each-round": make_each_round("mnist-each-round", "mnist"),
        "cifar10-each-round": make_each_round("cifar10-each-round", "cifar10"),
        "fleets": make_fleets(),
    }
    few = {"topology": "ring", "share": 0.2, "period": [5, 20]}
    found["mnist-edges"] = renamed(
        make_grid("mnist", stepsizes=(0.001, 0.316228)), "mnist-edges", 1.0, **few
    )
    for name, shift in (("all-samples", 0.0), ("main-text", 0.5), ("float32", 0.0)):
        found[f"cifar10-{name}"] = renamed(found["cifar10"], f"cifar10-{name}", shift, **few)
    assert found.keys() <= PLANS.keys()
    return found


@pytest.fixture(scope="session")
def grid() -> Callable[..., StudyData]:
    return make_grid


@pytest.fixture(scope="session")
def curves() -> Callable[..., StudyData]:
    return make_curves
