"""The dial between S2S and S2A, on made-up runs whose answers are known."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import RecordsError
from skerry.theory.operators import best_beta
from skerry_paper.blends import (
    GOALS,
    THEORY_CHOICES,
    best_betas,
    blend_table,
    operating_points,
    pareto_front,
    theory_betas,
)
from skerry_paper.study import StudyData, final_column, last_20_column

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
GLOBAL, OWN = GOALS
Score = Callable[[float, float, int], float]
"""Of beta, stepsize and seed."""


def study_of(
    average: Score,
    own: Score = lambda beta, eta, seed: 90 - beta,
    betas: Iterable[float] = BETAS,
    stepsizes: Iterable[float] = (0.1,),
    seeds: int = 3,
    **factors: Any,
) -> StudyData:
    setting = {
        "dataset": "mnist",
        "scaling": "standard",
        "intra": "iid",
        "inter": "non-iid",
        "topology": "complete",
        "dynamic": False,
        "share": 0.2,
        "period": 5,
        "optimizer": "fedavg",
        "rounds": 100,
    }
    rows = [
        setting
        | factors
        | {
            "primitive": {0.0: "s2s", 1.0: "s2a"}.get(beta, "blend"),
            "beta": beta,
            "stepsize": eta,
            "seed": seed,
            last_20_column(GLOBAL): average(beta, eta, seed),
            last_20_column(OWN): own(beta, eta, seed),
            final_column(GLOBAL): -average(beta, eta, seed),
            final_column(OWN): own(beta, eta, seed),
        }
        for beta in betas
        for eta in stepsizes
        for seed in range(seeds)
    ]
    curves = pd.DataFrame({"run": [], "round": []})
    return StudyData("mnist-blend", {}, pd.DataFrame(rows), curves)


def hill(beta: float, eta: float = 0.1, seed: int = 0) -> float:
    """Best at 0.75; seeds shift all betas alike but for a little."""
    return 90 - (beta - 0.75) ** 2 + 5 * seed + 0.001 * (seed * 7 + beta * 4) % 0.003


def table(study: StudyData, goal: str = GLOBAL) -> pd.DataFrame:
    found = blend_table(study)
    return found[found["goal"] == goal].set_index("beta")


def test_differences_from_the_ends_are_paired() -> None:
    """What seeds do to all betas alike does not blur the differences from the ends."""
    rows = table(study_of(hill))
    assert rows.loc[0.75, "above_s2s"] == pytest.approx(0.75**2, abs=0.01)
    assert rows.loc[0.75, "above_s2a"] == pytest.approx(0.25**2, abs=0.01)
    assert rows.loc[0.75, "above_s2a_se"] < 0.01 < 1 < rows.loc[0.75, "se"]
    assert rows.loc[0.0, "above_s2s"] == rows.loc[1.0, "above_s2a"] == 0


def test_only_a_middle_that_is_above_both_ends_beats_them() -> None:
    """On a hill with its top at 0.75, the betas above S2A's height beat both ends; no end does."""
    rows = table(study_of(hill))
    assert rows.index[rows["beats_both"]].tolist() == [0.75]


def test_a_lead_within_the_noise_does_not_count() -> None:
    """A middle whose lead changes its sign from seed to seed beats nobody."""

    def noisy(beta: float, eta: float, seed: int) -> float:
        return 90 + (0.1 + (-1) ** seed) * (beta == 0.5)

    rows = table(study_of(noisy, seeds=4))
    assert rows.loc[0.5, "above_s2s"] == pytest.approx(0.1)
    assert not rows["beats_both"].any()


def test_p_is_that_of_the_less_certain_end() -> None:
    """A middle that is far above S2S and level with S2A is not certain to differ from both."""

    def average(beta: float, eta: float, seed: int) -> float:
        return 80 + 5 * (beta > 0) + 0.1 * (-1) ** seed * (beta == 0.5) + 0.01 * seed * (beta == 0)

    rows = table(study_of(average, betas=(0.0, 0.5, 1.0), seeds=4))
    assert rows.loc[0.5, "above_s2s"] > 50 * rows.loc[0.5, "above_s2s_se"]
    assert rows.loc[0.5, "p"] == pytest.approx(1)
    assert rows.loc[[0.0, 1.0], "p"].isna().all()


def test_one_seed_beats_nobody() -> None:
    """A single seed has no standard error, so no lead is beyond it."""
    rows = table(study_of(hill, seeds=1))
    assert rows["above_s2s_se"].isna().all()
    assert not rows["beats_both"].any()


def test_every_beta_has_the_best_stepsize_of_its_goal() -> None:
    """Small betas may want another stepsize than large ones, and each goal its own."""

    def average(beta: float, eta: float, seed: int) -> float:
        return 80 + (eta == (0.1 if beta > 0.6 else 0.01))

    def own(beta: float, eta: float, seed: int) -> float:
        return 90 - beta - eta

    study = study_of(average, own, stepsizes=(0.01, 0.1))
    assert table(study)["stepsize"].tolist() == [0.01, 0.01, 0.01, 0.1, 0.1]
    assert table(study, OWN)["stepsize"].tolist() == [0.01] * 5


def test_the_front_holds_points_that_can_be_run() -> None:
    """A point of the front is one beta with one stepsize, never the best of two stepsizes."""

    def average(beta: float, eta: float, seed: int) -> float:
        return 80 + 2 * beta + (eta == 0.1)

    def own(beta: float, eta: float, seed: int) -> float:
        return 90 - 2 * beta - (beta == 0.5) * 3 - (eta == 0.1) * (0.5 if beta < 1 else -0.5)

    points = operating_points(study_of(average, own, stepsizes=(0.01, 0.1)))
    on_front = points[points["front"]]
    pairs = list(zip(on_front["beta"], on_front["stepsize"], strict=True))
    assert (1.0, 0.01) not in pairs
    assert (1.0, 0.1) in pairs
    assert 0.5 not in on_front["beta"].to_numpy()
    assert {0.0, 0.25} <= set(on_front["beta"])
    marked = table(study_of(average, own, stepsizes=(0.01, 0.1)))["front"]
    assert set(marked.index[marked]) == set(on_front["beta"])


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(POINTS)
def test_the_front_covers_everything(points: list[tuple[int, int]]) -> None:
    """No point of the front beats another of it, and every point off it is beaten by one on it."""
    values = np.array(points, float)
    front = pareto_front(values)

    def beats(a: Any, b: Any) -> bool:
        return bool((a >= b).all() and (a > b).any())

    assert front.any()
    assert not any(beats(a, b) for a in values[front] for b in values[front])
    assert all(any(beats(a, b) for a in values[front]) for b in values[~front])


def test_the_best_beta_is_named_for_each_goal() -> None:
    """Each setting and goal names its own best beta, the better end, and the lead over that."""
    near, far = study_of(hill, period=5), study_of(lambda b, e, s: 80 + b, period=20)
    both = StudyData(
        "mnist-blend", {}, pd.concat([near.runs, far.runs], ignore_index=True), near.curves
    )
    best = best_betas(blend_table(both)).set_index(["period", "goal"])
    assert len(best) == 4
    top = best.loc[(5, GLOBAL)]
    assert (top["beta"], top["end"]) == (0.75, "s2a")
    assert top["lead"] == pytest.approx(0.25**2, abs=0.01)
    assert top["middle_wins"]
    assert best.loc[(20, GLOBAL), "beta"] == 1
    assert best.loc[(20, GLOBAL), "lead"] == 0
    assert not best.loc[(20, GLOBAL), "middle_wins"]
    assert (best.loc[(5, OWN), "beta"], best.loc[(5, OWN), "end"]) == (0, "s2s")


def test_ends_that_were_not_run_leave_nothing_to_compare() -> None:
    """Without S2A its column is empty, no middle beats both, and the lead is over S2S."""
    found = blend_table(study_of(hill, betas=(0.0, 0.5)))
    assert found["above_s2a"].isna().all()
    assert not found["beats_both"].any()
    best = best_betas(found).set_index("goal")
    assert best.loc[GLOBAL, "end"] == "s2s"
    assert best.loc[GLOBAL, "lead"] > 0


def test_timing_is_what_was_asked() -> None:
    """The final round and the mean of the last rounds are told apart."""
    study = study_of(hill)
    late, last = (blend_table(study, timing)["mean"] for timing in ("last 20", "final"))
    assert late.iloc[0] == pytest.approx(-last.iloc[0])


PROBLEM = {"intra": "iid", "inter": "non-iid", "topology": "complete", "dynamic": False}
STEEP = {
    "smoothness": 100.0,
    "initial_error": 2.0,
    "zeta_intra2": 1.0,
    "zeta_inter2": 30.0,
    "sigma2": 5.0,
}


def named(study: StudyData, **constants: float) -> pd.Series:
    """What theory names for the average model."""
    rows = blend_table(study)
    problems = pd.DataFrame([{**PROBLEM, "key": "", **STEEP, "p": 1.0, **constants}])
    return theory_betas(best_betas(rows), rows, problems).set_index("goal").loc[GLOBAL]


def test_theory_speaks_of_the_average_model_alone() -> None:
    """Theory's betas are between the ends for the average model, and absent for own labels."""
    rows = blend_table(study_of(hill))
    problems = pd.DataFrame([{**PROBLEM, "key": "", **STEEP, "p": 1.0}])
    best = theory_betas(best_betas(rows), rows, problems).set_index("goal")
    assert best.loc[GLOBAL, ["one_server_round", "certified", "assumed"]].between(0, 1).all()
    assert best.loc[GLOBAL, ["certified_cost", "assumed_cost"]].ge(0).all()
    assert best.loc[OWN, [*THEORY_CHOICES, "certified_cost"]].isna().all()


def test_without_constants_theory_can_only_assume_them() -> None:
    """A study without constants, or with those of other problems, has the assumed beta alone."""
    rows = blend_table(study_of(hill))
    others = pd.DataFrame([{**PROBLEM, "topology": "ring", "key": "", **STEEP, "p": 0.01}])
    for constants in (None, others):
        best = theory_betas(best_betas(rows), rows, constants).set_index("goal").loc[GLOBAL]
        assert np.isnan(best["one_server_round"])
        assert np.isnan(best["certified_cost"])
        assert 0 <= best["assumed"] <= 1


def test_one_server_round_minimises_the_weighted_error() -> None:
    """Its beta is the minimum of 4 H L^2 (1-beta)^2 delta + (2 L/stepsize) beta^2 kappa."""
    found = named(study_of(hill, stepsizes=(0.01,)), smoothness=3.0)["one_server_round"]
    beta = np.linspace(0, 1, 100_001)
    error = 4 * 5 * 3**2 * (1 - beta) ** 2 + 2 * 3 / 0.01 * beta**2 / 20
    assert found == pytest.approx(beta[error.argmin()], abs=1e-4)
    assert found == pytest.approx(best_beta(20 * 9, 600, 20))


def test_constants_of_one_are_assumed_where_they_hold() -> None:
    """Measured constants that are those assumed name the same beta."""
    found = named(
        study_of(hill),
        smoothness=1,
        initial_error=1,
        zeta_intra2=0.01,
        zeta_inter2=1,
        sigma2=0,
        p=1,
    )
    assert found["certified"] == pytest.approx(found["assumed"], abs=0.02)


def test_the_cost_is_that_of_the_closest_beta() -> None:
    """Theory's beta is close to 1 here; the hill's top is at 0.75, and S2A lies 1/16 below."""
    found = named(study_of(hill), zeta_inter2=1e-6, zeta_intra2=0)
    assert found["certified"] > 0.9
    assert found["certified_cost"] == pytest.approx(0.25**2, abs=0.01)


def test_a_study_without_devices_is_refused() -> None:
    """A study that scored only the average model has no dial, and the error says what to run."""
    study = study_of(hill)
    runs = study.runs.drop(columns=[last_20_column(OWN), final_column(OWN)])
    with pytest.raises(RecordsError, match=r"own_accuracy.*evaluate\.measures"):
        blend_table(StudyData(study.name, {}, runs, study.curves))
