"""Gaps under a protocol, and how well protocols meet the printed tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skerry.errors import SkerryError
from skerry_paper.agreement import (
    agreement,
    baselines,
    clear_gaps,
    printed_of,
    rank_protocols,
)
from skerry_paper.printed import CELL, printed_cells
from skerry_paper.protocol import SCORINGS, Protocol, cell_gaps, protocols, table_runs
from skerry_paper.study import StudyData, final_column, last_20_column

OWN = Protocol("own_accuracy", "last 20", 0.1, "standard")
TUNED = Protocol("own_accuracy", "last 20", "tuned", "standard")
SMALL, LARGE = 0.01, 0.1
NO_CURVES = pd.DataFrame({"run": [], "round": []})


def run(primitive, score, seed=0, stepsize=LARGE, **others):
    factors = {
        "dataset": "mnist",
        "scaling": "standard",
        "intra": "iid",
        "inter": "non-iid",
        "topology": "ring",
        "dynamic": False,
        "share": 0.2,
        "period": 5,
        "primitive": primitive,
        "beta": 0.5,
        "optimizer": "fedavg",
        "stepsize": stepsize,
        "rounds": 100,
        "seed": seed,
    }
    return factors | {OWN.column: score} | others


def study(*runs):
    return StudyData("made up", {}, pd.DataFrame(runs), NO_CURVES)


def paired(s2s, s2a, **others):
    """Runs of both primitives, a seed for each score."""
    scores = [("s2s", s2s), ("s2a", s2a)]
    return [
        run(primitive, score, seed, **others)
        for primitive, all_scores in scores
        for seed, score in enumerate(all_scores)
    ]


def only(frame):
    (row,) = frame.to_dict("records")
    return row


# Gaps


def test_gap_is_paired():
    """What a seed does to both primitives is in neither the gap nor its standard error."""
    row = only(cell_gaps([study(*paired([80, 91, 72], [78, 88, 71]))], OWN))
    assert (row["s2s"], row["s2a"], row["gap"], row["seeds"]) == (81, 79, 2, 3)
    assert row["se"] == pytest.approx(1 / np.sqrt(3))
    half = 4.302652729911275 / np.sqrt(3)  # Student's t, 2 degrees of freedom
    assert row["half"] == pytest.approx(half)
    assert row["p"] == pytest.approx(stats.ttest_1samp([2, 3, 1], 0).pvalue)


def test_one_seed_has_no_error():
    """A single seed gives a gap without standard error, interval or test."""
    row = only(cell_gaps([study(*paired([80], [79]))], OWN))
    assert row["gap"] == 1
    assert np.isnan([row["se"], row["half"], row["p"]]).all()


def test_only_common_seeds_count():
    """A seed that one primitive lacks or diverged in is left out for both; a cell without a
    common seed is left out."""
    runs = paired([80, 90, np.nan], [79, 70, 60])[:-2]
    row = only(cell_gaps([study(*runs)], OWN))
    assert (row["s2s"], row["s2a"], row["seeds"]) == (80, 79, 1)
    assert cell_gaps([study(run("s2s", 80), run("s2a", 79, seed=1))], OWN).empty


def test_tuned_for_each_primitive():
    """Each primitive of each cell gets the stepsize that is best by its own scores."""
    runs = [
        *paired([80, 82], [70, 70], stepsize=SMALL),
        *paired([60, 60], [81, 83], stepsize=LARGE),
        *paired([10, 10], [10, 10], stepsize=SMALL, period=10),
        *paired([20, 20], [20, 20], stepsize=LARGE, period=10),
    ]
    first, second = cell_gaps([study(*runs)], TUNED).to_dict("records")
    assert [*first["stepsize_s2s"], *first["stepsize_s2a"]] == [SMALL, SMALL, LARGE, LARGE]
    assert (first["tried"], first["at_edge"]) == (2, 4)
    assert (first["s2s"], first["s2a"]) == (81, 82)
    assert [*second["stepsize_s2s"], *second["stepsize_s2a"]] == [LARGE] * 4


def test_a_gap_is_scored_at_the_stepsize_of_the_other_seeds():
    """Seed 0 of S2S is lucky at the large stepsize, where the others are bad: it is scored at the
    small one, and so its luck is not in the gap."""
    runs = [
        *paired([80, 80, 80], [70, 70, 70], stepsize=SMALL),
        *paired([99, 60, 60], [60, 60, 60], stepsize=LARGE),
    ]
    row = only(cell_gaps([study(*runs)], TUNED))
    assert row["stepsize_s2s"].tolist() == [SMALL, SMALL, SMALL]
    assert row["by_seed"].tolist() == [10, 10, 10]


def test_tuned_by_the_score_itself():
    """Tuning for one score does not look at another."""
    other = Protocol("average_accuracy", "final", "tuned", "standard")
    runs = [
        *paired([80], [80], stepsize=SMALL, **{other.column: 10}),
        *paired([10], [10], stepsize=LARGE, **{other.column: 80}),
    ]
    assert only(cell_gaps([study(*runs)], TUNED))["stepsize_s2s"] == [SMALL]
    assert only(cell_gaps([study(*runs)], other))["stepsize_s2s"] == [LARGE]


def test_tuned_passes_over_divergence():
    """A stepsize at which one of the other seeds diverged is not chosen for its good mean."""
    runs = [
        *paired([80, 80, 80], [80, 80, 80], stepsize=SMALL),
        *paired([99, np.nan, 99], [99, 99, 99], stepsize=LARGE),
    ]
    row = only(cell_gaps([study(*runs)], TUNED))
    # The others of seed 1 all finished; scored where it diverged itself, it has no gap.
    assert row["by_seed"].tolist() == pytest.approx([-19, np.nan, -19], nan_ok=True)
    assert row["seeds"] == 2


def test_tuned_where_one_seed_has_several_stepsizes():
    """The one seed that was run at both chooses for all; the gap is over seeds with both runs."""
    runs = [
        *paired([50, 99, 99], [50, 99, 99], stepsize=LARGE),
        *paired([40], [60], stepsize=SMALL),
    ]
    row = only(cell_gaps([study(*runs)], TUNED))
    assert (row["stepsize_s2s"][0], row["stepsize_s2a"][0]) == (LARGE, SMALL)
    assert (row["gap"], row["seeds"]) == (-10, 1)


def test_fixed_stepsize():
    """A fixed stepsize reads its runs alone; studies keep six decimals of it."""
    runs = [*paired([80], [70], stepsize=0.003162), *paired([99], [99], stepsize=LARGE)]
    fixed = Protocol(OWN.scoring, OWN.timing, 10**-2.5, "standard")
    assert only(cell_gaps([study(*runs)], fixed))["gap"] == 10
    absent = Protocol(OWN.scoring, OWN.timing, 0.5, "standard")
    assert cell_gaps([study(*runs)], absent).empty


def test_runs_of_other_tables_stay_out():
    """Blends, FedAvgM, changing graphs, longer runs and other scalings are not the tables' runs."""
    others = [
        run("blend", 99),
        *paired([99], [0], optimizer="fedavgm"),
        *paired([99], [0], dynamic=True),
        *paired([99], [0], rounds=1000),
        *paired([99], [0], scaling="unit"),
    ]
    assert only(cell_gaps([study(*others, *paired([80], [79]))], OWN))["gap"] == 1


def test_a_run_in_two_studies_counts_once():
    """Studies that share runs do not make them more than they are."""
    same = study(*paired([80, 81], [79, 78]))
    pd.testing.assert_frame_equal(cell_gaps([same, same], OWN), cell_gaps([same], OWN))


def test_cells_come_in_the_order_of_the_tables():
    """Data sets as they come; then inter, intra, topology, K/n and H rising."""
    axes = itertools.product(
        ["mnist", "cifar10"], ["non-iid", "iid"], ["non-iid", "iid"], ["ring", "grid"], [0.4, 0.2]
    )
    names = ("dataset", "intra", "inter", "topology", "share")
    runs = [
        row for values in axes for row in paired([2], [1], **dict(zip(names, values, strict=True)))
    ]
    found = cell_gaps([study(*runs)], OWN)
    ordered = found.assign(dataset=found["dataset"].map({"mnist": 0, "cifar10": 1}))
    rising = ordered.sort_values(["dataset", "inter", "intra", "topology", "share", "period"])
    assert len(found) == 32
    assert rising.index.tolist() == list(range(32))


@pytest.mark.parametrize("seed", range(3))
def test_gaps_against_a_plain_loop(seed):
    """On grids with holes and divergence, the array gives what a loop over cells gives."""
    chance = np.random.default_rng(seed)
    axes = [
        ["complete", "ring"],
        [0.2, 0.4, 1.0],
        [5, 10],
        ["s2s", "s2a"],
        [SMALL, LARGE],
        range(4),
    ]
    runs = [
        run(primitive, chance.choice([np.nan, 50 + chance.normal()], p=[0.05, 0.95]), number, eta)
        | {"topology": topology, "share": share, "period": period}
        for topology, share, period, primitive, eta, number in itertools.product(*axes)
    ]
    whole = study(*runs)
    holes = StudyData("holes", {}, whole.runs.sample(frac=0.9, random_state=seed), NO_CURVES)
    for protocol in (OWN, TUNED):
        found = cell_gaps([holes], protocol).set_index(CELL)
        for cell, of_cell in holes.runs.groupby(CELL):
            best = {name: plain_choice(of_cell, name, protocol) for name in ("s2s", "s2a")}
            difference = (best["s2s"] - best["s2a"]).dropna()
            if difference.empty:
                assert cell not in found.index
                continue
            assert found.loc[cell, "gap"] == pytest.approx(difference.mean())
            assert found.loc[cell, "se"] == pytest.approx(difference.sem(), nan_ok=True)


def plain_choice(of_cell, primitive, protocol):
    """Scores by seed at the stepsize that the protocol takes, tuned on the other seeds."""
    runs = of_cell[of_cell["primitive"] == primitive]
    by_stepsize = {
        eta: one.set_index("seed")[OWN.column] for eta, one in sorted(runs.groupby("stepsize"))
    }
    if protocol.stepsize != "tuned":
        return by_stepsize.get(protocol.stepsize, pd.Series(dtype=float))
    seeds = sorted({seed for one in by_stepsize.values() for seed in one.index})
    scored = {}
    for seed in seeds:
        others = {eta: one.drop(seed, errors="ignore") for eta, one in by_stepsize.items()}
        others = {eta: one for eta, one in others.items() if len(one)}
        best = plain_best(others if len(others) > 1 else by_stepsize)
        scored[seed] = by_stepsize[best].get(seed, np.nan)
    return pd.Series(scored)


def plain_best(by_stepsize):
    """Among seeds with all stepsizes, or else all seeds: finished most often, then best mean."""
    tried = {eta: one for eta, one in by_stepsize.items() if one.notna().any()}
    common = set.intersection(*(set(one.index) for one in tried.values()))
    if not common:
        common = {seed for one in tried.values() for seed in one.index}
    kept = {eta: one[one.index.isin(common)].dropna() for eta, one in tried.items()}
    return max(kept, key=lambda eta: (len(kept[eta]), kept[eta].mean()))


def test_saved_studies_answer_the_same(tmp_path):
    """A study that was kept and read again has the same gaps, to the digits that are kept."""
    made = study(
        *paired([80.123456, 81, 82], [79, 78, 77.5]), *paired([1, 2, 3], [3, 2, 1], period=20)
    )
    made.save(tmp_path / "made.json")
    again = StudyData.load(tmp_path / "made.json")
    pd.testing.assert_frame_equal(
        cell_gaps([again], OWN), cell_gaps([made], OWN), rtol=1e-3, check_dtype=False
    )


# Protocols


def test_protocols_that_can_be_answered():
    """There is a protocol for each score that was measured, each stepsize, and tuning."""
    two = study(*paired([80], [79], stepsize=SMALL), *paired([80], [79], stepsize=LARGE))
    assert protocols(table_runs([two])) == [
        Protocol("own_accuracy", "last 20", policy, "standard")
        for policy in ("tuned", SMALL, LARGE)
    ]
    assert protocols(table_runs([study(*paired([80], [79]))])) == [OWN]
    assert [
        one.scaling for one in protocols(table_runs([study(*paired([8], [7], scaling="unit"))]))
    ] == ["unit"]


def test_nothing_answers_nothing():
    """Without studies or runs there are no protocols and no gaps."""
    for studies in ([], [study()], [study(run("blend", 1))]):
        assert protocols(table_runs(studies)) == []
        assert cell_gaps(studies, TUNED).empty
        assert rank_protocols(studies, "mnist") == {}


def test_words_tell_protocols_apart():
    """No two protocols are told in the same words."""
    every = [
        Protocol(*one)
        for one in itertools.product(
            SCORINGS, ("final", "last 20"), ("tuned", 0.003162, 0.1), ("standard", "unit")
        )
    ]
    assert len({one.words for one in every}) == len(every)
    assert OWN.words == (
        "devices, own labels; mean of the last 20 rounds; stepsize 0.1; standardised inputs"
    )


def test_unknown_scoring():
    """A protocol that does not exist is refused with the names that do."""
    with pytest.raises(SkerryError, match=r"unknown scoring 'own_acuracy'; did you mean"):
        Protocol("own_acuracy", "final", "tuned", "standard")


# Agreement


def as_found(cells, se=0.0, sign=1.0, p=1e-9):
    """The printed cells as if two equal seeds had measured them; dashes as zero."""
    gap = sign * cells["gap"].fillna(0.0)
    found = cells.assign(gap=gap, se=se, by_seed=[np.full(2, one) for one in gap])
    return found.assign(p=np.where(gap == 0, np.minimum(1.0, 1e9 * p), p)).drop_duplicates(CELL)


@pytest.fixture
def share_cells():
    """Of one table: no cell stands twice."""
    cells = printed_cells()
    return cells[cells["table"] == "table4"]


def test_the_paper_agrees_with_itself(share_cells):
    """The printed cells meet themselves in every sign, at no distance."""
    same = agreement(as_found(share_cells), share_cells)
    assert (same.cells, same.rms, same.rank_correlation) == (48, 0, pytest.approx(1))
    assert same.signs == same.clear == ((np.abs(share_cells["gap"]) > 0.1).sum(),) * 2
    assert same.ties == (1, 1)
    assert same.signs.fraction == 1


def test_the_opposite_disagrees(share_cells):
    """Turned round, they meet themselves in no sign, at twice their size."""
    opposite = agreement(as_found(share_cells, sign=-1), share_cells)
    assert (opposite.signs.agree, opposite.clear.agree) == (0, 0)
    assert opposite.rms == pytest.approx(2 * np.sqrt((share_cells["gap"] ** 2).mean()))
    assert opposite.rank_correlation == pytest.approx(-1)


def test_clear_gaps_pass_a_t_test(share_cells):
    """Clear signs are of gaps that pass a t test at a false discovery rate over the cells; ties
    want those that do not. Cells without a test count for neither."""
    found = as_found(share_cells)
    weak = ~(share_cells["gap"].abs() > 2.0)
    some = agreement(found.assign(p=np.where(weak, 0.5, 1e-9)), share_cells)
    assert some.clear.of == (~weak).sum()
    assert some.ties == (1, 1)
    # 0.01 is below the level alone, and above it as the only small one of 48 cells.
    one_small = found.assign(p=0.5)
    one_small.loc[one_small.index[~weak.to_numpy()][0], "p"] = 0.01
    assert agreement(one_small, share_cells).clear.of == 0
    assert agreement(found.assign(p=0.01)[~weak].iloc[:1], share_cells).clear.of == 1
    untested = agreement(found.assign(p=np.nan), share_cells)
    assert (untested.clear.of, untested.ties.of) == (0, 0)
    assert untested.signs.of == some.signs.of


def test_three_seeds_beyond_two_standard_errors_may_be_chance():
    """With three seeds, a gap of 2.3 standard errors is not clear: p = 0.15."""
    row = cell_gaps([study(*paired([80.5, 82, 83.5], [80, 80, 80]))], OWN)
    assert row["gap"].item() > 2 * row["se"].item()
    assert row["p"].item() == pytest.approx(stats.ttest_1samp([0.5, 2, 3.5], 0).pvalue)
    assert not clear_gaps(row).any()


def test_each_configuration_is_counted_once():
    """K/n = 0.2, H = 5 is in two tables of a data set; it is one cell, with the mean of both."""
    for dataset in ("mnist", "cifar10"):
        every = printed_cells()
        every = every[every["dataset"] == dataset]
        once = printed_of(dataset)
        assert not once.duplicated(CELL).any()
        assert len(once) == every.drop_duplicates(CELL).shape[0] == len(every) - 12
        twice = every[every.duplicated(CELL, keep=False)]
        both = twice.groupby(CELL)["gap"].apply(list)
        kept = once.set_index(CELL)["gap"]
        for cell, values in both.items():
            numbers = [0.0 if np.isnan(one) else one for one in values]
            mean = np.nan if np.isnan(values).all() else np.mean(numbers)
            assert kept[cell] == pytest.approx(mean, nan_ok=True)


def test_cells_that_were_not_run_do_not_count(share_cells):
    """Agreement is over the cells that were found; of one cell there is no rank correlation, of
    none no distance."""
    one = agreement(as_found(share_cells).iloc[1:2], share_cells)
    assert one.cells == 1
    assert np.isnan(one.rank_correlation)
    none = agreement(cell_gaps([], OWN), share_cells)
    assert none.cells == none.signs.of == 0
    assert np.isnan([none.rms, none.signs.fraction, none.rank_correlation]).all()


def test_guesses_need_no_runs(share_cells):
    """Who always says S2S meets the positive gaps, at the distance of the best constant."""
    found = baselines(share_cells)
    gap = share_cells["gap"].dropna()
    assert found["always S2S"].signs == ((gap > 0.1).sum(), (gap.abs() > 0.1).sum())
    assert found["always S2S"].rms == pytest.approx(gap.std(ddof=0))
    assert found["zero"].rms == pytest.approx(np.sqrt((gap**2).mean()))
    assert found["always S2A"].rms == found["zero"].rms
    assert found["zero"].signs.agree == 0


def test_intervals_are_over_seeds(share_cells):
    """Seeds that say the same leave nothing open; of one seed there is no interval; noise of one
    seed that doubles its gaps is seen."""
    found = as_found(share_cells)
    same = agreement(found.assign(by_seed=[np.full(3, gap) for gap in found["gap"]]), share_cells)
    assert (same.rms_half, same.rank_half) == (pytest.approx(0), pytest.approx(0))
    one = agreement(found.assign(by_seed=[np.array([gap]) for gap in found["gap"]]), share_cells)
    assert np.isnan([one.rms_half, one.rank_half]).all()
    doubled = [np.array([gap, gap, 4 * gap]) for gap in found["gap"]]
    wild = agreement(found.assign(gap=2 * found["gap"], by_seed=doubled), share_cells)
    # Without one of the seeds the mean is 2.5, 2.5 or 1 times the printed gap.
    size = np.sqrt((share_cells["gap"] ** 2).mean())
    values = np.array([1.5, 1.5, 0.0]) * size
    error = np.sqrt(2 / 3 * ((values - values.mean()) ** 2).sum())
    assert wild.rms_half == pytest.approx(4.302653 * error, rel=1e-5)
    assert not wild.beats(baselines(share_cells)["zero"])


def test_noise_is_told_apart_from_distance(share_cells):
    """Gaps a point off, known to half a point: the rest is root of 1 less 1/4."""
    found = as_found(share_cells, se=0.5)
    off = agreement(found.assign(gap=found["gap"] + 1), share_cells)
    assert (off.rms, off.noise) == (pytest.approx(1), pytest.approx(0.5))
    assert off.without_noise == pytest.approx(np.sqrt(0.75))
    # A gap of one seed, whose error nobody knows, tells nothing of it.
    one_alone = found.assign(se=found["se"].where(found.index > 0))
    assert agreement(one_alone, share_cells).noise == pytest.approx(0.5)


def planted(**extra):
    """Runs whose own accuracy has the printed gaps of MNIST, while all else has the opposite."""
    cells = printed_of("mnist")
    rows = []
    for cell in cells.fillna({"gap": 0.0}).to_dict("records"):
        place = {name: cell[name] for name in CELL} | extra
        for primitive, side in (("s2s", 0.5), ("s2a", -0.5)):
            rows.append(
                run(primitive, 80 + side * cell["gap"])
                | {final_column("average_accuracy"): 80 - side * cell["gap"]}
                | {last_20_column("average_accuracy"): 80 - 2 * side * cell["gap"]}
                | place
            )
    return rows


def test_best_protocol_is_found():
    """Of all protocols, the one that was planted comes first and its opposites last."""
    ranked = rank_protocols([study(*planted())], "mnist")
    best, *others = ranked
    assert best == OWN
    assert [one.scoring for one in others] == ["average_accuracy"] * 2
    assert [one.timing for one in others] == ["final", "last 20"]
    assert ranked[best].cells == 84
    assert ranked[best].signs.fraction == 1


def test_few_cells_do_not_win():
    """A protocol that agrees in every one of few cells stands behind those that answer all; tuned
    answers only where there was a choice."""
    few = [row | {"stepsize": SMALL} for row in planted()[:8]]
    ranked = rank_protocols([study(*planted()), study(*few)], "mnist")
    answered = {(one.scoring, one.stepsize): found.cells for one, found in ranked.items()}
    assert [one.cells for one in ranked.values()] == [84] * 3 + [4] * 6
    assert answered["own_accuracy", "tuned"] == answered["own_accuracy", SMALL] == 4


def test_a_missing_cell_does_not_lose():
    """A protocol that lacks one cell of many is still compared by its signs."""
    gone = planted()
    gone[0] = gone[0] | {OWN.column: np.nan}
    ranked = rank_protocols([study(*gone)], "mnist")
    assert next(iter(ranked)) == OWN
    assert ranked[OWN].cells == 83


def test_other_data_sets_do_not_matter():
    """Agreement on one data set looks at its runs alone."""
    both = [study(*planted()), study(*planted(dataset="cifar10", scaling="unit"))]
    found, alone = (rank_protocols(studies, "mnist") for studies in (both, both[:1]))
    assert list(found.items()) == list(alone.items())
