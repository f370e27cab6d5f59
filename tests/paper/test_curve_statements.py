"""What is said of curves, on made-up curves whose answers are known."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import skerry
from skerry.config.fields import Network
from skerry.errors import SkerryError
from skerry.network.fleet import build_fleet
from skerry_paper.curve_statements import Finding, curve_findings
from skerry_paper.paired_curves import CURVES, drop_by_interpolation, server_round_drops
from skerry_paper.printed import statements
from skerry_paper.study import FACTORS, LATER_FACTORS, StudyData, last_20_column
from skerry_paper.targets import TARGETS

RUN: dict[str, Any] = {
    "dataset": "cifar10",
    "scaling": "standard",
    "model": "cnn_cifar10",
    "islands": "50, 50",
    "intra": "iid",
    "inter": "non-iid",
    "topology": "ring",
    "dynamic": False,
    "share": 0.2,
    "period": 20,
    "primitive": "s2s",
    "beta": 0.0,
    "optimizer": "fedavg",
    "stepsize": 0.1,
    "rounds": 1000,
    "seed": 0,
    **LATER_FACTORS,
}
Curve = Callable[[np.ndarray], np.ndarray]


def level(value: float) -> Curve:
    return lambda t: np.full(len(t), float(value))


def dropping(top: float, drop: float, period: int = 20) -> Curve:
    """Level, but lower by `drop` in each server round."""
    return lambda t: top - drop * ((t - 1) % period == 0)


def study_of(
    *runs: tuple[Mapping[str, Any], Mapping[str, Curve]], name: str = "cifar10-long"
) -> StudyData:
    rows, lines = [], []
    for number, (factors, measures) in enumerate(runs):
        row = {**RUN, **factors}
        t = np.arange(row["rounds"] + 1)
        values = {measure: curve(t) for measure, curve in measures.items()}
        late = {
            last_20_column(measure): np.nanmean(value[-20:]) for measure, value in values.items()
        }
        rows.append(row | late)
        lines.append(pd.DataFrame({"run": number, "round": t, **values}))
    assert set(RUN) == set(FACTORS)
    return StudyData(name, {}, pd.DataFrame(rows), pd.concat(lines, ignore_index=True))


def setting(
    s2s: Curve, s2a: Curve, **factors: Any
) -> list[tuple[dict[str, Any], dict[str, Curve]]]:
    return [
        ({**factors, "primitive": "s2s"}, {"average_accuracy": s2s}),
        ({**factors, "primitive": "s2a"}, {"average_accuracy": s2a}),
    ]


def said(target: str, study: StudyData, scoring: str = "average_accuracy") -> dict[str, Finding]:
    return {row.key: row for row in curve_findings(target, {study.name: study}, scoring)}


def test_a_level_gap_is_found_everywhere() -> None:
    """Curves that lie 3 points apart have a gap of 3 in every stretch, in S2S's favour."""
    found = said("fig9", study_of(*setting(level(60), level(57))))
    names = ("early", "late", "t100", "t1000", "last20", "last50")
    assert [found[f"fig9_r3_{name}"].ours for name in names] == pytest.approx([3] * 6)
    assert found["fig9_gap_r3"].ours == pytest.approx(3)
    assert found["fig9_gap_r3"].half == pytest.approx(0)


def test_the_start_does_not_count() -> None:
    """Round 0, where nothing has been learnt, is no part of any mean, however short the run."""

    def jumps(t: np.ndarray) -> np.ndarray:
        return np.where(t == 0, 1000.0, 60.0)

    found = said("fig9", study_of(*setting(jumps, level(60), rounds=30)))
    assert found["fig9_gap_r3"].ours == pytest.approx(0)
    assert found["fig9_r3_last50"].ours == pytest.approx(0)


def half_width(spread: float, count: int) -> float:
    """Half of Student's 95 % interval of a mean over `count` values with this spread."""
    return float(stats.t.ppf(0.975, count - 1) * spread / np.sqrt(count))


def test_one_seed_takes_its_interval_from_periods() -> None:
    """With one seed the interval is that of the means over server periods; it is never tested."""

    def by_period(t: np.ndarray) -> np.ndarray:
        return 60.0 + 2 * (((t - 1) // 20) % 2)  # 60 and 62 in turn, 25 periods of each

    row = said("fig9", study_of(*setting(by_period, level(60))))["fig9_gap_r3"]
    assert row.ours == pytest.approx(1)
    assert row.half == pytest.approx(half_width(np.sqrt(50 / 49), 50))
    assert np.isnan(row.p)
    assert row.note == "one seed, interval over 50 server periods"


def test_several_seeds_take_their_interval_from_seeds() -> None:
    """With several seeds the gap is paired by seed, with the interval and t test over seeds."""
    runs = [
        run
        for seed, (common, gap) in enumerate([(0, 1), (30, 2), (-10, 3)])
        for run in setting(level(60 + common + gap), level(60 + common), seed=seed)
    ]
    row = said("fig9", study_of(*runs))["fig9_gap_r3"]
    assert (row.ours, row.half) == pytest.approx((2, half_width(1, 3)))
    assert row.p == pytest.approx(stats.ttest_1samp([1, 2, 3], 0).pvalue)
    assert row.note == "3 seeds"


def test_a_seed_without_a_partner_is_left_out() -> None:
    """A seed that only one primitive finished says nothing about the gap."""
    lonely = ({"primitive": "s2s", "seed": 1}, {"average_accuracy": level(99)})
    row = said("fig9", study_of(*setting(level(60), level(57)), lonely))["fig9_gap_r3"]
    assert row.ours == pytest.approx(3)


def test_a_seed_that_diverged_is_left_out_from_the_start() -> None:
    """The rounds before a run went astray do not count either, and the note names its seed."""
    seeds = [setting(level(60), level(20 if seed == 1 else 57), seed=seed) for seed in range(3)]
    whole = study_of(*(run for runs in seeds for run in runs))
    astray = (whole.runs["seed"] == 1) & (whole.runs["primitive"] == "s2a")
    runs = whole.runs.assign(status=np.where(astray, "diverged", "finished"))
    lost = whole.curves["run"].isin(runs.index[astray]) & (whole.curves["round"] > 300)
    row = said("fig9", StudyData(whole.name, {}, runs, whole.curves[~lost]))["fig9_gap_r3"]
    assert row.ours == pytest.approx(3)
    assert row.note == "2 seeds; without seed 1 of S2A, which diverged"


def test_drops_are_what_is_lost_in_server_rounds() -> None:
    """A curve that falls by 5 in each server round, and only then, has a mean drop of 5."""
    found = said("fig9", study_of(*setting(level(60), dropping(60, 5))))
    assert found["fig9_r3_drop_s2a"].ours == pytest.approx(5)
    assert found["fig9_r3_drop_s2a"].note == "one seed, interval over 49 server periods"
    assert found["fig9_r3_drop_s2s"].ours == pytest.approx(0)
    assert found["fig9_gap_r3"].ours == pytest.approx(5 / 20)


def test_drops_are_taken_from_one_round_to_the_next() -> None:
    """What a curve gains in other rounds is no part of its drops: only the round before counts."""

    def climbing(t: np.ndarray) -> np.ndarray:
        return dropping(0, 5)(t) + 0.1 * t

    found = said("fig9", study_of(*setting(level(60), climbing)))
    assert found["fig9_r3_drop_s2a"].ours == pytest.approx(5 - 0.1)


def test_each_period_has_its_own_server_rounds() -> None:
    """Figure 10 looks for drops every 15 rounds in one panel and every 20 in the other."""
    hardest = {"intra": "non-iid"}
    runs = [
        *setting(level(60), dropping(60, 3, 15), period=15, **hardest),
        *setting(level(60), dropping(60, 4, 20), period=20, **hardest),
    ]
    found = said("fig10", study_of(*runs))
    assert found["fig10_h15_drop_s2a"].ours == pytest.approx(3)
    assert found["fig10_h20_drop_s2a"].ours == pytest.approx(4)


def test_gaps_in_time_have_the_papers_sign() -> None:
    """S2A ahead at first and S2S in the end is negative at 100 and positive at 1,000 rounds, as
    the paper's own statements are kept."""

    def overtaking(t: np.ndarray) -> np.ndarray:
        return np.where(t <= 100, 50.0, 70.0)

    found = said("fig10", study_of(*setting(overtaking, level(60), intra="non-iid")))
    early, late = found["fig10_h20_t100"], found["fig10_h20_t1000"]
    assert (early.ours, late.ours) == pytest.approx((-10, 10))
    assert early.printed
    assert late.printed
    assert early.printed.value < 0 < late.printed.value


def test_rounds_that_were_not_recorded_are_named() -> None:
    """Where a round has no reading, the closest one before it stands in, and the note says so."""

    def sometimes(t: np.ndarray) -> np.ndarray:
        return np.where((t % 7 == 0) | (t == 1000), 60.0 + t, np.nan)

    found = said("fig9", study_of(*setting(sometimes, level(0))))
    assert found["fig9_r3_t100"].ours == pytest.approx(60 + 98)
    assert found["fig9_r3_t100"].note == "one seed; at round 98"
    assert found["fig9_r3_t1000"].ours == pytest.approx(60 + 1000)
    assert found["fig9_r3_drop_s2s"].ours == pytest.approx(0)  # a line, whatever its slope
    assert "before and after are different rounds" in found["fig9_r3_drop_s2s"].note

    def never_just_after(t: np.ndarray) -> np.ndarray:
        return np.where(t % 10 == 0, 60.0, np.nan)

    found = said("fig9", study_of(*setting(never_just_after, level(0))))
    assert np.isnan(found["fig9_r3_drop_s2s"].ours)
    assert "before and just after" in found["fig9_r3_drop_s2s"].note


def test_a_short_run_does_not_answer_for_its_future() -> None:
    """A run of 200 rounds has no gap after 1,000 rounds, and the note says why."""
    runs = setting(level(60), level(57), rounds=200, intra="non-iid")
    row = said("fig10", study_of(*runs))["fig10_h20_t1000"]
    assert np.isnan(row.ours)
    assert row.note == "the runs end after 200 rounds"


def test_changing_graphs_are_compared_with_fixed_ones() -> None:
    """The change of the gap and each primitive's gain are changing minus fixed."""
    runs = [
        *setting(level(60), level(52), topology="regular"),
        *setting(level(63), level(54), topology="regular", dynamic=True),
    ]
    found = said("fig11", study_of(*runs))
    keys = ("gap_fixed", "gap_random", "gap_change", "gain_s2s", "gain_s2a")
    assert [found[f"fig11_{key}"].ours for key in keys] == pytest.approx([8, 9, 1, 3, 2])


def test_mixing_parameters_are_those_of_the_graphs_that_were_run() -> None:
    """p of the fixed graph is that of the run's seed; that of the changing one has a formula."""
    runs = [
        run
        for dynamic in (False, True)
        for run in setting(level(60), level(57), topology="regular", dynamic=dynamic, seed=3)
    ]
    found = said("fig11", study_of(*runs))
    fleet = build_fleet(Network(devices=100, components=2, topology="regular"), seed=3)
    assert found["fig11_p_fixed"].ours == fleet.mixing_parameters().minimum
    assert found["fig11_p_random"].ours == pytest.approx(1 - (1 / 5 - (4 / 5) / 49))


def test_momentum_is_judged_by_the_last_drops() -> None:
    """Drops of 4 instead of 5 in the last 100 rounds are 20 % smaller, whatever came before."""

    def late_drops(drop: float) -> Curve:
        return lambda t: np.where(t > 900, dropping(60, drop)(t), dropping(60, 9)(t))

    runs = [
        *setting(level(60), late_drops(5)),
        *setting(level(61), late_drops(4), optimizer="fedavgm"),
    ]
    found = said("fig12", study_of(*runs))
    reduction = found["fig12_drop_reduction"]
    assert (reduction.ours, reduction.half) == pytest.approx((20, 0))
    assert reduction.unit == "%"
    assert reduction.note == "one seed, interval over 5 server rounds"
    assert found["fig12_change"].ours == pytest.approx(1 - 5 / 1000)


def jittering(t: np.ndarray) -> np.ndarray:
    """Falls by 5 in a server round as often as it rises by 4."""
    after = (t - 1) % 20 == 0
    return 60.0 - after * np.where((t - 1) // 20 % 2 == 0, 5, -4)


@pytest.mark.parametrize("accuracy", [level(60), jittering])
def test_without_drops_there_is_nothing_to_reduce(accuracy: Curve) -> None:
    """A curve that does not fall in server rounds, beyond chance, has no reduction of its drops."""
    runs = [*setting(level(60), accuracy), *setting(level(60), level(60), optimizer="fedavgm")]
    row = said("fig12", study_of(*runs))["fig12_drop_reduction"]
    assert np.isnan(row.ours)
    assert row.note == "the interval of the drop reaches zero"


def test_server_rounds_are_counted_as_runs_record_them() -> None:
    """Drops are looked for in the very rounds in which a run records what the server did."""
    settings = ["network.devices=10", "server.sampled=4", "server.period=5", "rounds=12"]
    (lane,) = skerry.run(skerry.Experiment.parse({}, settings), compare=["s2a"])
    history = pd.DataFrame(lane.history).set_index("round")
    met = history.index[history["bias_ratio"].notna()]
    assert (
        server_round_drops(history[["average_accuracy"]], period=5).index.tolist()
        == met.tolist()[1:]
    )


def test_ratios_stand_beside_their_expectation() -> None:
    """Figure 14's ratios are means over server rounds, beside (n-K)/(n-1) and (n-K)/(K(n-1))."""

    def in_server_rounds(even: float, odd: float) -> Curve:
        def curve(t: np.ndarray) -> np.ndarray:
            return np.where((t - 1) % 20 == 0, np.where((t - 1) // 20 % 2 == 0, even, odd), np.nan)

        return curve

    study = study_of(
        (
            {"primitive": "s2s"},
            {
                "disagreement_ratio": in_server_rounds(0.7, 0.9),
                "bias_ratio": in_server_rounds(0, 0),
            },
        ),
        (
            {"primitive": "s2a"},
            {
                "disagreement_ratio": in_server_rounds(0, 0),
                "bias_ratio": in_server_rounds(0.03, 0.05),
            },
        ),
    )
    found = said("fig14", study)
    disagreement, bias = found["fig14_disagreement_ratio"], found["fig14_bias_ratio"]
    assert (disagreement.ours, disagreement.theory) == pytest.approx((0.8, 80 / 99))
    assert (bias.ours, bias.theory) == pytest.approx((0.04, 80 / 99 / 20))
    assert disagreement.half == pytest.approx(half_width(0.1 * np.sqrt(50 / 49), 50))
    assert disagreement.note == "50 server rounds of one seed"
    assert found["fig14_disagreement_ratio_s2a"].ours == found["fig14_bias_ratio_s2s"].ours == 0


def test_each_primitive_has_its_best_stepsize() -> None:
    """Where stepsizes were tried, each primitive is shown at the one that ends best."""
    ring = {"dataset": "mnist", "period": 5, "rounds": 100}
    runs = [
        *setting(level(80), level(88), stepsize=0.01, **ring),
        *setting(level(90), level(70), stepsize=0.1, **ring),
    ]
    row = said("fig5", study_of(*runs, name="mnist-curves"))["fig5_gap_mnist"]
    assert row.ours == pytest.approx(2)
    assert row.note.endswith("best stepsizes on the other seeds: 0.1 for S2S, 0.01 for S2A")


@pytest.mark.parametrize("target", CURVES)
def test_what_is_missing_is_said(target: str) -> None:
    """Without studies every panel and every statement is there, unanswered, with the reason."""
    rows = curve_findings(target, {}, "average_accuracy")
    assert {said.key for said in statements(target)} <= {row.key for row in rows}
    assert len(rows) >= len(CURVES[target])
    assert all(np.isnan(row.ours) and "is missing" in row.note for row in rows)


def test_a_missing_partner_or_measure_is_said() -> None:
    """Without S2A, or without the scoring's curve, the paper's statements stay, with the reason."""
    study = study_of(*setting(level(60), level(57)))
    alone = said("fig12", study.of(primitive="s2s"))["fig12_gap_fedavg"]
    assert "no such run of S2A" in alone.note
    unrecorded = said("fig12", study, "own_accuracy")["fig12_gap_fedavg"]
    assert "did not record own_accuracy" in unrecorded.note


def test_every_statement_about_curves_is_answered() -> None:
    """With all runs there, no printed number about the curves goes without ours."""
    regimes = [("non-iid", "iid"), ("iid", "non-iid"), ("non-iid", "non-iid")]
    networks = [("ring", False), ("regular", False), ("regular", True), ("complete", False)]
    measures = {
        name: dropping(60, 5) for name in ("average_accuracy", "disagreement_ratio", "bias_ratio")
    }
    runs = [
        (
            {
                "intra": intra, "inter": inter, "topology": topology, "dynamic": dynamic,
                "period": period, "optimizer": optimizer, "primitive": primitive,
            },
            measures,
        )
        for intra, inter in regimes
        for topology, dynamic in networks
        for period in (15, 20)
        for optimizer in ("fedavg", "fedavgm")
        for primitive in ("s2s", "s2a")
    ]  # fmt: skip
    studies = {name: study_of(*runs, name=name) for name in ("cifar10-long", "cifar100")}
    for target in CURVES:
        rows = curve_findings(target, studies, "average_accuracy")
        assert all(np.isfinite(row.ours) for row in rows if row.printed), target


def test_panels_are_the_curves_among_the_targets() -> None:
    """Every figure that shows curves has panels, from studies that it needs."""
    assert CURVES.keys() == {
        name
        for name, target in TARGETS.items()
        if target.kind in ("learning curves", "server rounds")
    }
    for target, panels in CURVES.items():
        assert {panel.study for panel in panels} == set(TARGETS[target].studies)


def test_unknown_names_are_refused() -> None:
    """A figure without curves, or a scoring that does not exist, is named in the error."""
    with pytest.raises(SkerryError, match="table3"):
        curve_findings("table3", {}, "average_accuracy")
    with pytest.raises(SkerryError, match="did you mean 'own_accuracy'"):
        curve_findings("fig9", {}, "own_acuracy")


def test_drops_from_other_rounds_before_and_after():
    """Looked at every seventh round, a drop of 4 at every server round is found all the same; of
    looks that never fall on a server round nothing is."""
    t = np.arange(0, 1001, 7)
    curve = pd.DataFrame({0: dropping(70, 4)(t), 1: dropping(60, 4)(t)}, index=t)
    found = drop_by_interpolation(curve, 20)
    assert found.value == pytest.approx(4)
    assert found.note == "2 seeds; before and after are different rounds"
    even = curve.set_axis(2 * np.arange(len(t)))
    assert np.isnan(drop_by_interpolation(even, 20).value)
