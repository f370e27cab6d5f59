"""The study of methods: its controls, its tuning, and its main numbers by a second path."""

import importlib.util
import json
import math
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "methods"


def script(name):
    spec = importlib.util.spec_from_file_location(f"methods_{name}", STUDY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run, page = script("run"), script("page")


def flat(tables, prefix=""):
    found = {}
    for name, value in tables.items():
        inside = isinstance(value, dict)
        found |= flat(value, f"{prefix}{name}.") if inside else {f"{prefix}{name}": value}
    return found


def changed(study, period, old, new):
    """The fields in which two lanes of the study differ."""
    base = run.base_experiment(run.STUDIES[study], "devices differ", period, 100)
    one, other = (flat(run.lane(base, *lane).model_dump(mode="json")) for lane in (old, new))
    return {name for name in one | other if one.get(name) != other.get(name)} - {"server.name"}


def memory_pairs():
    """Each method with memory of the MNIST study and its control, for each kind of server."""
    for server, methods in run.STUDIES["mnist"].parts[0][1].items():
        for method in methods:
            if method in page.CONTROL:
                even = server == page.ONE_EACH and method == "sd_gt"
                yield (server, "s2s" if even else page.CONTROL[method]), (server, method)


@pytest.mark.parametrize("period", [5, 20])
def test_a_control_differs_from_its_method_in_the_memory_alone(period):
    """The same links, samples, server rounds and delivery: only [method] differs."""
    pairs = [*memory_pairs(), page.LADDER["memory"]]
    assert len(pairs) == 8 + 4 + 3 + 1  # MTGC is in the list of its server, too
    for old, new in pairs:
        fields = changed("mnist", period, old, new)
        assert fields
        assert all(name.startswith("method.") for name in fields), (old, new, fields)


def test_each_step_from_s2a_to_mtgc_changes_one_thing():
    """Participation changes K, links change the islands, memory changes the method."""
    for study in run.STUDIES:
        steps = {name: changed(study, 20, *pair) for name, pair in page.LADDER.items()}
        assert steps["participation"] == {"server.sampled"}
        assert "network.topology" in steps["links"]
        assert all(name.startswith("network.") for name in steps["links"])
        assert steps["memory"] == {"method.name"}
    other = [changed("mnist", 20, *pair) for pair in page.OTHER_ORDER.values()]
    assert other == [steps["links"], {"server.sampled"}]


def test_no_configuration_is_run_twice():
    """A lane that does not depend on whom the server samples is run once."""
    for study in run.STUDIES.values():
        base = run.base_experiment(study, "both differ", 5, 100)
        keys = [
            run.lane(base, server, method).key()
            for regimes, methods in study.parts
            if "both differ" in regimes
            for server, names in methods.items()
            for method in names
        ]
        assert len(keys) == len(set(keys))


def test_stepsizes_are_extended_where_the_edge_is_chosen():
    """Beyond a chosen edge, for any seed, up to the limits; not where the middle is chosen."""
    steps, limits = [0.01, 0.0316, 0.1, 0.316], (0.001, 3.16)

    def further(best, steps=steps, limits=limits):
        scores = [[-abs(place - one) for one in best] for place in range(len(steps))]
        return run.further_stepsizes(steps, scores, limits)

    assert further([1, 2, 2]) == []
    assert further([0, 0, 0]) == [0.00316]
    assert further([3, 3, 3]) == [1.0]
    assert further([3, 3, 3], limits=(0.001, 0.316)) == []
    assert further([0], steps=[0.001, 0.00316]) == []
    assert further([1], steps=[0.0316, 0.1], limits=(0.01, 0.316)) == [0.316]
    # The third seed alone would choose 0.1; its stepsize is chosen on the others: 0.316.
    assert further([3, 3, 2]) == [1.0]


def test_a_stepsize_that_diverges_is_chosen_only_where_no_other_seed_shows_it():
    """The stepsize that finishes on more of the other seeds comes first, then the better one."""
    assert run.chosen_places([[80.0, 81.0, 80.0], [90.0, math.nan, 91.0]]) == [0, 1, 0]


def test_server_rounds_count_by_their_share():
    """A score is the mean over all rounds, though devices are scored in some of them."""
    rounds = np.arange(101)
    full = {"round": rounds, "x": np.where(rounds % 20 == 0, 90.0, 70.0)}
    some = full | {"x": np.where((rounds % 3 == 0) | (rounds == 100), full["x"], np.nan)}
    assert run.score(full, "x", 20) == pytest.approx(full["x"][-20:].mean())
    assert run.score(some, "x", 20) == pytest.approx(full["x"][-20:].mean())
    assert math.isnan(run.score({}, "x", 20))


# Kept data


def kept(study):
    return json.loads((STUDY / "data" / f"{study}.json").read_text(encoding="utf-8"))


needs_control = pytest.mark.skipif(
    not any(row["method"] == "hier_favg" for c in kept("mnist")["cells"] for row in c["rows"]),
    reason="the kept study is older than its control; run studies/methods/run.py mnist",
)


def scores(cells, regime, period, server, method):
    """Scores of each seed at the stepsize that is best on the mean of the other seeds."""
    (cell,) = (
        c for c in cells if (c["regime"], c["period"], c["server"]) == (regime, period, server)
    )
    (row,) = (row for row in cell["rows"] if row["method"] == method)
    table = np.array(row["scores"]["device_accuracy"], dtype=float)
    assert not row["diverged"]
    seeds = range(table.shape[1])
    return [table[np.delete(table, seed, axis=1).mean(axis=1).argmax(), seed] for seed in seeds]


@needs_control
@pytest.mark.parametrize(("regime", "period"), [("devices differ", 20), ("islands differ", 20)])
def test_the_split_on_the_page_is_that_of_the_data(regime, period):
    """The steps from S2A to MTGC, computed from the kept scores with numpy alone."""
    cells = kept("mnist")["cells"]
    lanes = ((page.RANDOM, "s2a"), (page.ALL, "s2a"), (page.ALL, "hier_favg"), (page.ALL, "mtgc"))
    by_lane = [np.array(scores(cells, regime, period, *lane)) for lane in lanes]
    steps = [b - a for a, b in pairwise(by_lane)]
    told = []
    for step in (*steps, by_lane[-1] - by_lane[0]):
        half = stats.t.ppf(0.975, len(step) - 1) * step.std(ddof=1) / math.sqrt(len(step))
        told.append(f"{step.mean():+.2f} ± {half:.2f}")
    text = (ROOT / "docs" / "methods" / "README.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| {regime} | {period} | "))
    assert [part.strip(" *") for part in line.split("|")][4:8] == told


@needs_control
def test_the_verdict_on_memory_is_that_of_the_data():
    """MTGC beside HierFAVG: the range, and how often it is clear, by scipy and Holm by hand."""
    cells = kept("mnist")["cells"]
    lanes = {
        "few": (page.RANDOM, "s2a"),
        "all": (page.ALL, "s2a"),
        "complete": (page.RANDOM, "s2a_complete"),
        "hier": (page.ALL, "hier_favg"),
        "mtgc": (page.ALL, "mtgc"),
    }
    steps = ("few all", "all hier", "hier mtgc", "few mtgc", "few complete", "complete hier")
    family = []
    for regime in run.REGIMES:
        for period in (5, 20):
            found = {
                name: np.array(scores(cells, regime, period, *lane)) for name, lane in lanes.items()
            }
            for step in steps:
                old, new = step.split()
                p = stats.ttest_rel(found[new], found[old]).pvalue
                family.append((p, step, (found[new] - found[old]).mean()))
    ordered, clear, alive = sorted(family), [], True
    for place, (p, step, mean) in enumerate(ordered):
        alive = alive and p * (len(ordered) - place) <= 0.05
        if alive and step == "hier mtgc":
            clear.append(mean)
    memory = [mean for _, step, mean in family if step == "hier mtgc"]
    study = page.Study(STUDY / "data" / "mnist.json")
    (line,) = (line for line in page.split_sentences(study) if "MTGC beside HierFAVG" in line)
    assert f"{min(memory):+.2f} to {max(memory):+.2f} points" in line
    up, down = sum(m > 0 for m in clear), sum(m < 0 for m in clear)
    assert clear_counts(line, len(memory)) == (up, down)
    text = (ROOT / "docs" / "methods" / "README.md").read_text(encoding="utf-8")
    assert line in text
    assert line in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def clear_counts(line, cells):
    """In how many cells a sentence says that a method is clearly better, and clearly worse."""
    found = []
    for word in ("better", "worse"):
        number = re.search(rf"clearly {word} in (\d+)", line)
        everywhere = f"clearly {word} in all {cells} cells" in line
        found.append(cells if everywhere else int(number[1]) if number else 0)
    return tuple(found)


def test_the_page_is_made_from_the_kept_data():
    """docs/methods/README.md and docs/methods.md say what the page script makes of the data."""
    studies = {name: page.Study(STUDY / "data" / f"{name}.json") for name in page.TITLES}
    written = (ROOT / "docs" / "methods" / "README.md").read_text(encoding="utf-8")
    assert page.page(studies) == written
    assert page.which_help(studies) in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("study", ["mnist", "cifar10"])
def test_scored_seeds_did_not_choose_their_stepsize(study):
    """CIFAR-10: seed 0 chooses and is left out. MNIST: the kept choice is that of other seeds."""
    found = kept(study)
    about = found["about"]
    for cell in found["cells"]:
        for row in cell["rows"]:
            assert len(row["device_accuracy"]) == len(about["scored_seeds"])
            if about["tuned_on"] == "seed 0":
                assert 0 not in about["scored_seeds"]
                assert len(set(row["chosen"])) == 1
            elif about["tuned_on"] == "the other seeds" and not row["diverged"]:
                lane = cell["regime"], cell["period"], cell["server"], row["method"]
                assert row["device_accuracy"] == scores(found["cells"], *lane)
