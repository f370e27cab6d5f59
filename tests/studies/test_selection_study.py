"""The study of whom to sample: its laws, its lanes, and its main numbers by a second path."""

import importlib.util
import json
import math
import sys
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skerry.plugins.context import Context

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "selection"


def script(name):
    spec = importlib.util.spec_from_file_location(f"selection_{name}", STUDY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run, page, plugin = script("run"), script("page"), script("believed_islands")


def server_context(seed, t, K, sizes=(50, 50)):
    n = sum(sizes)
    return Context(
        seed=seed,
        round=t,
        devices=tuple(map(str, range(n))),
        sizes=sizes,
        awake=np.ones(n, dtype=bool),
        sampled=K,
    )


# Laws


def s2a_bias(x, sizes, samples):
    """The mean of n |estimate - mean|² over samples (devices, weights), by plain enumeration."""
    found = [len(x) * (np.dot(w, x[list(s)]) - x.mean()) ** 2 for s, w in samples]
    return float(np.mean(found))


def split(x, sizes):
    """Disagreement inside and between islands, as sums over devices."""
    ends = np.cumsum(sizes)
    islands = [x[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    inside = sum(((one - one.mean()) ** 2).sum() for one in islands)
    return inside, ((x - x.mean()) ** 2).sum() - inside


def test_a_sample_of_every_island_has_no_bias_from_between_islands():
    """Over all samples, one of each island leaves half of what is inside islands and nothing of
    what is between them; uniform sampling leaves kappa of both."""
    x, sizes = np.array([1.0, 3, 0, 2, 5, 9]), (3, 3)
    inside, between = split(x, sizes)
    each = [((a, b), (0.5, 0.5)) for a, b in product(range(3), range(3, 6))]
    anyone = [(pair, (0.5, 0.5)) for pair in combinations(range(6), 2)]
    assert s2a_bias(x, sizes, each) == pytest.approx(0.5 * inside)
    assert s2a_bias(x, sizes, anyone) == pytest.approx((6 - 2) / (2 * 5) * (inside + between))
    alike = np.repeat([1.0, -1.0], 3)
    assert s2a_bias(alike, sizes, each) == 0.0
    assert s2a_bias(alike, sizes, anyone) > 0.5


@pytest.mark.parametrize(("rule", "K"), [("uniform", 2), ("one_each", 2), ("per_component", 20)])
def test_the_fractions_on_the_page_are_those_of_the_law(rule, K):
    """The table's fractions follow from n, K and the sizes alone."""
    intra, inter = page.kappas(rule, "2 islands", K)
    uniform = (100 - K) / (K * 99)
    each = K // 2
    stratified = (50 - each) / (each * 49) / 2
    assert intra == pytest.approx(uniform if rule == "uniform" else stratified)
    assert inter == pytest.approx(uniform if rule == "uniform" else 0.0)


def test_wrong_labels_leave_4w_1_minus_w_of_the_bias_between_islands():
    """Measured over seeds and rounds with islands that agree inside; right labels leave nothing."""
    x = np.repeat([1.0, -1.0], 50)
    for K in (2, 20):
        for wrong in (0.0, 0.1, 0.5, 1.0):
            moves = []
            for seed, t in product(range(60), range(20)):
                devices, weights = plugin.believed_islands(server_context(seed, t, K), wrong=wrong)
                assert len(set(devices.tolist())) == K
                moves.append(weights @ x[devices])
            left = page.remaining(wrong) * (100 - K) / (K * 99)
            assert np.mean(np.square(moves)) == pytest.approx(left, rel=0.2, abs=1e-12)
            assert abs(np.mean(moves)) <= 4 * np.std(moves) / math.sqrt(len(moves)) + 1e-12


def test_any_labels_leave_the_average_unbiased():
    """Every believed island counts by its believed size and is drawn uniformly: summed over its
    draws, each device has the weight 1/n, also on unequal islands with half of the labels wrong."""
    sizes, rounds = (14, 6), 8000
    weight_n = np.zeros(20)
    for t in range(rounds):
        devices, weights = plugin.believed_islands(server_context(3, t, 4, sizes), wrong=0.5)
        weight_n[devices] += weights / rounds
    assert weight_n == pytest.approx(np.full(20, 1 / 20), rel=0.15)


def test_the_wrong_labels_are_as_many_as_asked_for_and_nested():
    """The same devices are mistaken in every round, and those of 10 % are among those of 30 %."""
    mistaken = []
    true = np.repeat([0, 1], 50)
    for wrong in run.WRONG:
        found = [plugin.labels(server_context(5, t, 2), wrong) != true for t in (0, 7)]
        assert (found[0] == found[1]).all()
        assert found[0].sum() == round(100 * wrong)
        mistaken.append(found[0])
    assert all((small <= large).all() for small, large in pairwise(mistaken))
    other = plugin.labels(server_context(6, 0, 2), 0.3) != true
    assert (other != mistaken[1]).any()


# The script


def test_no_configuration_is_run_twice_and_every_part_has_no_server():
    """Lanes of a part are different experiments; each part has its control without a server."""
    for name in ("mnist", "labels", "long"):
        study = run.STUDIES[name]
        for part in study.parts:
            base = part.base(study.table, [])
            sys.path.insert(0, str(STUDY))
            try:
                keys = [lane.of(base).key() for lane in part.lanes]
            finally:
                sys.path.remove(str(STUDY))
            assert len(keys) == len(set(keys))
            assert run.Lane() in part.lanes


def test_stepsizes_are_extended_where_the_edge_is_chosen():
    """Beyond a first or last stepsize that any seed chooses; not where the middle is chosen."""

    def further(best):
        etas = run.GRID[2:5]
        found = {
            (eta, seed): {"x": -abs(place - one)}
            for place, eta in enumerate(etas)
            for seed, one in enumerate(best)
        }
        return run.further_stepsizes(found, len(best), ["x"])

    assert further([1, 1, 1]) == []
    assert further([0, 0, 0]) == [run.GRID[1]]
    assert further([2, 2, 2]) == [run.GRID[5]]
    # The first seed alone would choose the middle; its stepsize is chosen on the others.
    assert further([1, 2, 2]) == [run.GRID[5]]


def test_stretches_are_means_over_their_rounds():
    """A curve that equals its round has the means 50.5 and 150.5; round 0 does not count."""
    curve = list(range(201))
    row = {"round": curve, "average_accuracy": [curve, curve]}
    assert page.kept.stretches(row).tolist() == [[50.5, 150.5]] * 2


# Kept data, by numpy and scipy alone


def kept(study):
    return json.loads((STUDY / "data" / f"{study}.json").read_text(encoding="utf-8"))


def is_new():
    return all((STUDY / "data" / f"{n}.json").exists() for n in ("labels", "long"))


needs_data = pytest.mark.skipif(not is_new(), reason="run studies/selection/run.py first")


def scores(rows, measure="average_accuracy", tuned_by=None, **fields):
    """Scores of each seed at the stepsize that is best on the mean of the other seeds."""
    fields = {"fleet": "2 islands", "topology": "ring", "wrong": None} | fields
    if fields["primitive"] == "none":
        fields |= {"period": None}
    (row,) = (r for r in rows if all(r.get(name) == v for name, v in fields.items()))
    tuning, table = (np.array(row[n], dtype=float) for n in (tuned_by or measure, measure))
    found = []
    for seed in range(table.shape[1]):
        others = np.delete(tuning, seed, axis=1)
        ended = np.isfinite(others).sum(axis=1)
        mean = np.where(ended == ended.max(), np.nan_to_num(others).sum(axis=1), -np.inf)
        found.append(table[mean.argmax(), seed])
    return np.array(found)


def told(new, old):
    """`+1.23 ± 0.45` of the difference, by scipy."""
    step = new - old
    half = stats.t.ppf(0.975, len(step) - 1) * stats.sem(step)
    return f"{step.mean():+.2f} ± {half:.2f}"


def clear(pairs):
    """For each pair 1, -1 or 0: Holm's procedure by hand over scipy's paired t tests."""
    p = [stats.ttest_rel(new, old).pvalue for new, old in pairs]
    found, alive = [0] * len(p), True
    for place, one in enumerate(np.argsort(p)):
        alive = alive and p[one] * (len(p) - place) <= 0.05
        found[one] = int(np.sign((pairs[one][0] - pairs[one][1]).mean())) if alive else 0
    return found


def summary():
    text = (ROOT / "docs" / "selection" / "README.md").read_text(encoding="utf-8")
    return text.partition("## In two minutes")[2].partition("## The law")[0]


@needs_data
def test_the_page_is_made_from_the_kept_data():
    """docs/selection/README.md is what the script makes of the data."""
    text = (ROOT / "docs" / "selection" / "README.md").read_text(encoding="utf-8")
    assert page.page(page.Results()) == text


def two_and_twenty(rows, regime, H, measure):
    same = {"measure": measure, "regime": regime, "primitive": "s2a", "period": H}
    return (
        scores(rows, selection="one_each", sampled=2, **same),
        scores(rows, selection="uniform", sampled=20, **same),
    )


@needs_data
@pytest.mark.parametrize("regime", ["islands differ", "both differ"])
def test_two_for_twenty_in_the_summary_is_that_of_the_data(regime):
    """One of each island minus 20 at random, and minus no server, by both measures."""
    rows, text = kept("mnist")["rows"], summary()
    for H, measure in product((5, 20), ("average_accuracy", "device_accuracy")):
        few, many = two_and_twenty(rows, regime, H, measure)
        alone = scores(rows, measure, regime=regime, primitive="none")
        assert f"{told(few, many)} points" in text
        assert f"{told(few, alone)} for H = {H}" in text


@needs_data
def test_the_headings_on_two_for_twenty_hold():
    """Two do what twenty do only where they are clearly behind in no cell, and fall behind only
    where they are in some; Holm over all regimes, periods and both measures."""
    rows, text = kept("mnist")["rows"], summary()
    measures = ("average_accuracy", "device_accuracy")
    places = list(product(run.REGIMES, (5, 20), measures))
    signs = dict(zip(places, clear([two_and_twenty(rows, *one) for one in places]), strict=True))
    behind = {r: any(signs[one] < 0 for one in places if one[0] == r) for r in run.REGIMES}
    assert ("Two do what twenty do where" in text) == (not behind["islands differ"])
    assert ("differ too, two fall behind" in text) == behind["both differ"]


@needs_data
def test_gains_of_wrong_labels_in_the_summary_are_those_of_the_data():
    """Means over both regimes and periods by seed, for both K; clear by Holm over all eight."""
    rows, text, pairs = kept("labels")["rows"], summary(), {}
    for K, wrong in product((2, 20), (0.0, *run.WRONG)):
        labels = {"selection": "believed_islands", "wrong": wrong}
        labels = labels if wrong else {"selection": "one_each"}
        found = []
        for regime, H in product(("islands differ", "both differ"), (5, 20)):
            same = {"regime": regime, "primitive": "s2a", "period": H, "sampled": K}
            found.append((scores(rows, **same, **labels),
                          scores(rows, selection="uniform", **same)))  # fmt: skip
        pairs[K, wrong] = tuple(np.mean(found, axis=0))
    for (K, _), pair, sign in zip(pairs, pairs.values(), clear(list(pairs.values())), strict=True):
        verdict = f" points, {'clear' if sign else 'not clear'}" if K == 2 else ""
        assert told(*pair) + verdict in text


@needs_data
def test_the_long_runs_in_the_summary_are_those_of_the_data():
    """Leads over the first and the last 100 rounds, and beside no server, from the curves."""
    rows, text = kept("long")["rows"], summary()

    def stretch(low, high, primitive, selection=None, sampled=None):
        (row,) = (
            r
            for r in rows
            if (r["primitive"], r["selection"], r["sampled"]) == (primitive, selection, sampled)
        )
        rounds = np.array(row["round"])
        return np.array(row["average_accuracy"])[:, (rounds > low) & (rounds <= high)].mean(axis=1)

    for rule in ("uniform", "per_component"):
        first = [stretch(0, 100, primitive, rule, 20) for primitive in ("s2s", "s2a")]
        last = [stretch(900, 1000, primitive, rule, 20) for primitive in ("s2s", "s2a")]
        assert told(*first) in text
        step = (last[0] - last[1]).mean()
        assert any(f"{step + shift:+.2f}" in text for shift in (-0.01, 0, 0.01))
    seeds = {len(row["seeds"]) for row in rows}
    assert len(seeds) == 1
    assert f"1,000 rounds, {seeds.pop()} seeds" in text


@needs_data
def test_own_labels_in_the_summary_are_those_of_the_data():
    """S2S minus S2A on islands of 70 and 30, tuned for own labels and for the average model."""
    rows, text = kept("mnist")["rows"], summary()
    for H, tuned_by in product((5, 20), ("own_accuracy", "average_accuracy")):
        same = {"fleet": "70 and 30", "regime": "islands differ", "period": H, "sampled": 20}
        s2s, s2a = (
            scores(rows, "own_accuracy", tuned_by, primitive=p, selection="uniform", **same)
            for p in ("s2s", "s2a")
        )
        assert told(s2s, s2a) in text


@needs_data
def test_measured_bias_of_every_island_is_below_that_of_uniform_sampling():
    """Where islands differ, the measured bias ratio of one of each is that of the inside alone."""
    rows = kept("mnist")["rows"]
    for rule, K in (("one_each", 2), ("per_component", 20)):
        found = []
        for name in ("inter_share", "bias_ratio"):
            fields = {"regime": "islands differ", "primitive": "s2a", "period": 5, "sampled": K}
            found.append(scores(rows, name, "average_accuracy", selection=rule, **fields))
        share, ratio = found
        each = K // 2
        inside = (50 - each) / (each * 49) / 2
        assert share.mean() > 0.5
        assert ratio.mean() == pytest.approx((inside * (1 - share)).mean(), rel=0.5)


@needs_data
def test_no_kept_row_is_there_twice_and_every_part_has_no_server():
    """A configuration is in a file once; each fleet and regime has a row without a server."""
    for study in ("mnist", "labels", "long"):
        rows = kept(study)["rows"]
        names = ("fleet", "regime", "topology", "primitive", "selection", "sampled", "period")
        keys = [tuple(row.get(name) for name in (*names, "wrong")) for row in rows]
        assert len(keys) == len(set(keys))
        assert {key[:2] for key in keys} == {key[:2] for key in keys if key[3] == "none"}
