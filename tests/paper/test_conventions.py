"""Conventions of the first author's other code, on made-up studies whose distances are known."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skerry_paper.agreement import baselines, distance_change, printed_of
from skerry_paper.conventions import (
    MIDDLE,
    STUDIES,
    Convention,
    ConventionRuns,
    convention_runs,
    single_changes,
)
from skerry_paper.plans import SAMPLE_RULES
from skerry_paper.printed import CELL, REGIME
from skerry_paper.study import StudyData, final_column, last_20_column
from skerry_paper.summary import summary_parts
from skerry_paper.targets import TARGETS
from skerry_paper.views import view_of

MEASURES = ("own_accuracy", "own_accuracy_weighted", "label_mix_accuracy", "average_accuracy")
THAT_CODE = SAMPLE_RULES[0]
NOISE = (-0.02, 0.0, 0.02)
"""What each seed adds to every gap, relative to how far it is off; its mean is zero."""


def made_up(
    dataset: str = "mnist",
    off: float = 1.0,
    rule: tuple[float, str, float] = THAT_CODE,
    stepsize: float = MIDDLE,
    **only: Any,
) -> pd.DataFrame:
    """Runs in which every gap of the final round on own tests is `off` points above the printed one
    (a dash is 0), and twice as far off under all other scores."""
    cells = printed_of(dataset).fillna({"gap": 0.0})
    for name, value in only.items():
        cells = cells[cells[name] == value]
    rows = []
    for cell in cells.to_dict("records"):
        for seed, noise in enumerate(NOISE):
            for primitive, side in (("s2s", 0.5), ("s2a", -0.5)):
                row = {name: cell[name] for name in CELL} | {
                    "scaling": "standard", "model": "linear", "islands": "50, 50",
                    "dynamic": False, "primitive": primitive, "beta": float(primitive == "s2a"),
                    "optimizer": "fedavg", "stepsize": stepsize, "rounds": 100, "seed": seed,
                    "samples": rule[0], "sampling": rule[1], "weight_decay": rule[2],
                    "own_tests": "dealt",
                }  # fmt: skip
                for measure in MEASURES:
                    for column in (final_column(measure), last_20_column(measure)):
                        wide = off if column == final_column("own_accuracy") else 2 * off
                        row[column] = 80 + side * (cell["gap"] + wide + noise * wide)
                rows.append(row)
    return pd.DataFrame(rows)


def runs_of(*parts: pd.DataFrame, dataset: str = "mnist") -> ConventionRuns:
    return ConventionRuns(studies_of(*parts, dataset=dataset), dataset)


def studies_of(*parts: pd.DataFrame, dataset: str = "mnist") -> dict[str, StudyData]:
    name = STUDIES[dataset]
    curves = pd.DataFrame({"run": pd.Series(dtype=int), "round": pd.Series(dtype=int)})
    return {name: StudyData(name, {}, pd.concat(parts, ignore_index=True), curves)}


@pytest.mark.parametrize("base", [Convention(), Convention(stepsize=MIDDLE)])
def test_single_changes_change_exactly_one_thing(base: Convention) -> None:
    """Every convention beside the base differs from it in one field, and no two are the same."""
    every = single_changes(base)
    assert every["as in that code"] == base
    changed = [one for one in every.values() if one != base]
    assert len(set(changed)) == len(changed)
    for one in changed:
        differing = [name for name, value in asdict(one).items() if value != asdict(base)[name]]
        assert len(differing) == 1, one


def test_every_field_of_a_convention_is_changed_by_some_comparison() -> None:
    """No convention is taken for granted: each field has a comparison that changes it."""
    base = Convention(stepsize=MIDDLE)
    fields = {
        name
        for one in single_changes(base).values()
        for name, value in asdict(one).items()
        if value != asdict(base)[name]
    }
    assert fields == asdict(base).keys()


def test_known_gaps_give_the_known_distance() -> None:
    """Gaps a point above the printed ones are a point away, and two points under other scores."""
    runs = runs_of(made_up(off=1.0))
    found = runs.agreement(Convention(stepsize=MIDDLE))
    assert found.cells == len(printed_of("mnist"))
    assert found.rms == pytest.approx(1.0)
    assert found.rank_correlation == pytest.approx(1.0)
    for other in ("label_mix_accuracy", "own_accuracy_weighted", "average_accuracy"):
        wide = runs.agreement(Convention(stepsize=MIDDLE, scoring=other))
        assert wide.rms == pytest.approx(2.0)


def test_regime_means_are_those_of_the_printed_cells() -> None:
    """Ours are `off` above the printed means, in which a dash counts as 0."""
    runs = runs_of(made_up(off=0.3))
    printed = printed_of("mnist").fillna({"gap": 0.0}).groupby(REGIME)["gap"].mean()
    means = list(runs.regime_means(Convention(stepsize=MIDDLE)))
    assert len(means) == 4
    for intra, inter, theirs, ours in means:
        assert theirs == pytest.approx(printed["mnist", intra, inter])
        assert ours == pytest.approx(theirs + 0.3)


def test_comparisons_use_only_common_cells() -> None:
    """All samples were run on the ring alone: the base is taken there, too, where it is 3 points
    off, whatever it is elsewhere."""
    whole = (1.0, "epochs", 0.0)
    runs = runs_of(
        made_up(off=3.0, topology="ring"),
        made_up(off=0.0, topology="grid"),
        made_up(off=1.0, rule=whole, topology="ring"),
    )
    base, other = Convention(stepsize=MIDDLE), Convention(samples=1.0, stepsize=MIDDLE)
    change = distance_change(runs.gaps(base), runs.gaps(other), runs.printed)
    assert (change.base, change.change) == pytest.approx((3.0, -2.0))


def test_what_was_not_run_is_not_compared() -> None:
    """A rule without runs is absent, and cells without a partner leave nothing to compare."""
    whole = (1.0, "epochs", 0.0)
    runs = runs_of(made_up(topology="ring"), made_up(rule=whole, topology="grid"))
    base = Convention(stepsize=MIDDLE)
    assert runs.has(base)
    assert not runs.has(Convention(stepsize=0.1))
    assert not runs.has(Convention(weight_decay=5e-4, stepsize=MIDDLE))
    other = Convention(samples=1.0, stepsize=MIDDLE)
    assert distance_change(runs.gaps(base), runs.gaps(other), runs.printed).cells == 0


def test_tuned_gaps_need_several_stepsizes() -> None:
    """One stepsize is no choice; of two, the better score on the other seeds is taken."""
    one = runs_of(made_up())
    assert not one.has(Convention())
    better = made_up(off=0.5, stepsize=0.1)
    better[final_column("own_accuracy")] += 5
    both = runs_of(made_up(off=4.0), better)
    assert both.agreement(Convention()).rms == pytest.approx(0.5)


def test_the_change_of_a_distance_is_over_common_seeds() -> None:
    """A seed that only one side has does not count; equal seeds leave no interval."""
    base = runs_of(made_up(off=1.0)).gaps(Convention(stepsize=MIDDLE))
    other = base.assign(by_seed=[np.array([*one[:2] + 1.0, np.nan]) for one in base["by_seed"]])
    wide = base.assign(by_seed=[np.array([*one[:2], 999.0]) for one in base["by_seed"]])
    found = distance_change(wide, other, printed_of("mnist"))
    assert found.change == pytest.approx(1.0, abs=0.01)
    assert found.half < 0.5
    same = distance_change(base, base, printed_of("mnist"))
    assert (same.change, same.half) == pytest.approx((0.0, 0.0))
    assert np.isnan(same.p)
    assert distance_change(base.iloc[:0], base, printed_of("mnist")).cells == 0


def test_the_verdict_stands_beside_the_baselines() -> None:
    """The sentence names the closest stepsize with its distance, and zero and always S2S."""
    studies = studies_of(made_up(off=2.0), made_up(off=1.0, stepsize=0.1))
    told = view_of(TARGETS["conventions"], studies).verdict
    baseline = baselines(printed_of("mnist"))
    assert "at stepsize 0.1, the closest, 1.00 ± " in told
    assert f"zero {baseline['zero'].rms:.2f}" in told
    assert f"always S2S {baseline['always S2S'].rms:.2f}" in told


def front(*parts: pd.DataFrame) -> str:
    """The front page of made-up conventions alone."""
    studies = studies_of(*parts)
    views = {name: view_of(TARGETS[name], studies) for name in ("fig1", "fig6", "fig14", "blend")}
    found = summary_parts({}, views, studies)
    return "\n\n".join(one if isinstance(one, str) else one.to_markdown() for one in found)


@pytest.mark.parametrize(
    ("off", "words"),
    [
        (0.1, "closer to the printed gaps than both baselines"),
        (1.0, "closer to the printed gaps than `zero`, no closer than `always S2S`"),
        (9.0, "no closer to the printed gaps than `zero`"),
    ],
)
def test_the_front_page_says_how_close_it_is(off: float, words: str) -> None:
    """The verdict follows the distance: close, between the baselines, and far away."""
    text = front(made_up(off=off))
    assert words in text.splitlines()[0]
    assert f"{off:.2f} ± " in text


def test_the_front_page_names_the_convention_that_makes_the_difference() -> None:
    """Another stepsize is 3 points farther off, weight decay nothing: only the first is clear."""
    text = front(
        made_up(off=1.0),
        made_up(off=4.0, stepsize=0.1),
        made_up(off=1.0, rule=(0.2, "epochs", 5e-4)),
    )
    (changes,) = [line for line in text.splitlines() if "Clear changes." in line]
    told = changes.partition("Clear changes.")[2]
    assert "stepsize 0.1 (+3.00)" in told
    assert "weight decay" not in told
    cells = printed_of("mnist")["gap"].notna().sum()
    assert f"| weight decay 0.0005 | +0.00 ± 0.00 | {cells} |" in text


def test_data_sets_without_runs_are_left_out() -> None:
    """Only data sets with a study of their conventions are shown."""
    assert convention_runs({}) == []
    assert [one.dataset for one in convention_runs(studies_of(made_up()))] == ["mnist"]
