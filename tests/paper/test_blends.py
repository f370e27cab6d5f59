"""The dial between S2S and S2A, on made-up runs whose answers are known."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skerry.errors import RecordsError
from skerry.theory.operators import best_beta
from skerry_paper.blends import (
    GOALS,
    THEORY_CHOICES,
    bends,
    best_betas,
    blend_table,
    theory_betas,
)
from skerry_paper.study import LATER_FACTORS, StudyData, final_column, last_20_column

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
        **LATER_FACTORS,
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


def best(study: StudyData, goal: str = GLOBAL) -> pd.Series:
    return best_betas(blend_table(study)).set_index("goal").loc[goal]


def test_leads_are_paired() -> None:
    """What seeds do to all betas alike does not blur the lead over the better end."""
    found = best(study_of(hill))
    assert found["lead"] == pytest.approx(0.25**2, abs=0.01)
    assert found["lead_half"] < 0.01 < 1 < found["half"]
    assert found["middle_wins"]


def test_a_lead_within_the_noise_does_not_count() -> None:
    """A middle whose lead changes its sign from seed to seed beats nobody."""

    def noisy(beta: float, eta: float, seed: int) -> float:
        return 90 + (0.1 + (-1) ** seed) * (beta == 0.5)

    found = best(study_of(noisy, betas=(0.0, 0.5, 1.0), seeds=4))
    assert found["lead"] == pytest.approx(0.1)
    assert found["lead_p"] > 0.5
    assert not found["middle_wins"]
    assert not found["above_wins"]


def test_a_middle_is_compared_with_the_better_end() -> None:
    """A middle that is far above S2S and level with S2A does not beat both."""

    def average(beta: float, eta: float, seed: int) -> float:
        return 80 + 5 * (beta > 0) + 0.1 * (-1) ** seed * (beta == 0.5) + 0.01 * seed * (beta == 0)

    found = best(study_of(average, betas=(0.0, 0.5, 1.0), seeds=4))
    assert (found["end"], found["lead"]) == ("s2a", pytest.approx(0))
    assert not found["middle_wins"]
    assert found["above"] == pytest.approx(2.5, abs=0.02)
    assert found["above_wins"]


def test_two_seeds_beat_nobody() -> None:
    """Fewer than three seeds cannot be tested, so no lead is clear."""
    found = best(study_of(hill, seeds=2))
    assert np.isnan(found["lead_p"])
    assert not found["middle_wins"]


def test_the_lucky_beta_of_a_seed_is_not_chosen_for_it() -> None:
    """Each seed has another beta that is 10 points better: chosen on the others, none is found."""

    def lucky(beta: float, eta: float, seed: int) -> float:
        return 80 + 10 * (beta == (0.25, 0.5, 0.75)[seed])

    found = best(study_of(lucky))
    assert found["lead"] == pytest.approx(0)
    assert found["above"] == pytest.approx(0)


def test_a_straight_line_has_no_bend() -> None:
    """Accuracies on the line between the ends lie 0 above it at every beta; a parabola with its
    top in the middle lies 4 beta (1 - beta) times its height above it."""
    wobble = (0.001, -0.002, 0.003)
    straight = bends(blend_table(study_of(lambda b, e, s: 80 + 3 * b + wobble[s])))
    assert straight["above"].to_numpy() == pytest.approx(0)
    assert not straight["clear"].any()
    bent = bends(
        blend_table(study_of(lambda b, e, s: 80 + 3 * b + 4 * b * (1 - b) * (0.5 + wobble[s])))
    )
    bent = bent[bent["goal"] == GLOBAL].set_index("beta")
    assert bent["above"].to_dict() == pytest.approx({0.25: 0.375, 0.5: 0.5, 0.75: 0.375}, abs=0.01)
    assert bent["clear"].all()


def test_bends_are_means_over_settings_in_which_islands_differ() -> None:
    """A bend of 0.2 on the ring and 0.4 on the complete graph is 0.3; alike islands are not in."""

    def bend(height: float) -> Score:
        return lambda b, e, s: 80 + height * (b == 0.5) + 0.001 * s * b

    parts = [
        study_of(bend(0.2), topology="ring"),
        study_of(bend(0.4), topology="complete"),
        study_of(bend(9.0), inter="iid"),
    ]
    runs = pd.concat([one.runs for one in parts], ignore_index=True)
    found = bends(blend_table(StudyData("mnist-blend", {}, runs, parts[0].curves)))
    row = found[(found["goal"] == GLOBAL) & (found["beta"] == 0.5)].iloc[0]
    assert row["above"] == pytest.approx(0.3, abs=0.01)
    assert (row["lowest"], row["highest"]) == pytest.approx((0.2, 0.4), abs=0.01)
    assert row["settings"] == 2


def test_every_beta_has_the_best_stepsize_of_its_goal() -> None:
    """Small betas may want another stepsize than large ones, and each goal its own."""

    def average(beta: float, eta: float, seed: int) -> float:
        return 80 + (eta == (0.1 if beta > 0.6 else 0.01))

    def own(beta: float, eta: float, seed: int) -> float:
        return 90 - beta - eta

    study = study_of(average, own, stepsizes=(0.01, 0.1))
    assert table(study)["stepsize"].tolist() == [0.01, 0.01, 0.01, 0.1, 0.1]
    assert table(study, OWN)["stepsize"].tolist() == [0.01] * 5


def test_the_best_beta_is_named_for_each_goal() -> None:
    """Each setting and goal names its own best beta, the better end, and the lead over that, which
    is negative where an end is best."""
    near, far = study_of(hill, period=5), study_of(lambda b, e, s: 80 + b, period=20)
    both = StudyData(
        "mnist-blend", {}, pd.concat([near.runs, far.runs], ignore_index=True), near.curves
    )
    found = best_betas(blend_table(both)).set_index(["period", "goal"])
    assert len(found) == 4
    top = found.loc[(5, GLOBAL)]
    assert (top["beta"], top["end"]) == (0.75, "s2a")
    assert top["lead"] == pytest.approx(0.25**2, abs=0.01)
    assert top["middle_wins"]
    assert found.loc[(20, GLOBAL), "beta"] == 1
    assert found.loc[(20, GLOBAL), "lead"] == pytest.approx(-0.25)
    assert not found.loc[(20, GLOBAL), "middle_wins"]
    assert (found.loc[(5, OWN), "beta"], found.loc[(5, OWN), "end"]) == (0, "s2s")


def test_ends_that_were_not_run_leave_nothing_to_compare() -> None:
    """Without S2A there is no line to be above, and the lead is over S2S."""
    found = best(study_of(hill, betas=(0.0, 0.5)))
    assert found["end"] == "s2s"
    assert found["lead"] > 0
    assert np.isnan(found["above"])
    assert not found["above_wins"]


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
