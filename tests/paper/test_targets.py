"""Targets and plans: the paper's own numbers, and the runs behind them."""

import re
from pathlib import Path

import pytest

from skerry.errors import SkerryError
from skerry_paper.plans import FEW_LOOKS, PLANS, PlanSlice, count_plan_runs, runs_of
from skerry_paper.targets import ALL, TARGETS, Request

OWN = [
    *("protocol", "blend", "timing", "stepsizes", "drops", "variants", "guidelines"),
    "conventions",
]


def needs_of(names, datasets, profile):
    return Request.parse(names).restrict_to(datasets).needs(profile)


def test_every_table_and_figure_of_the_paper_is_a_target():
    """Six tables and fourteen figures, as LaTeX counts them, and studies of our own."""
    tables = [f"table{number}" for number in range(1, 7)]
    figures = [f"fig{number}" for number in range(1, 15)]
    assert list(TARGETS) == [*tables, *figures, *OWN]


def test_every_need_is_a_slice_of_its_plan():
    """A slice names axes of its plan, and values that these have."""
    for target in TARGETS.values():
        for need in target.needs:
            axes = PLANS[need.study].axes
            for axis, values in need.only.items():
                assert axis in axes, (target.name, axis)
                assert set(values) <= set(axes[axis]), (target.name, axis)


def test_all_in_full_is_the_paper_grid():
    """The whole MNIST grid is 9,600 runs; every target's runs are in its plan's grid."""
    needs = needs_of([ALL], ["mnist"], "full")
    assert PlanSlice("mnist") in needs
    assert len(PLANS["mnist"].experiments("full", {})) == 9600


def test_a_request_needs_nothing_of_other_data_sets():
    """Table 1 has two data sets; what is asked of one needs no run of the other."""
    assert {need.study for need in needs_of(["table1"], ["cifar10"], "full")} == {"cifar10"}
    assert {need.study for need in needs_of([ALL], ["cifar100"], "full")} == {"cifar100"}


def test_the_whole_grid_stands_for_its_slices():
    """All in full asks for MNIST's grid once, quick for the slices that are shown."""
    full, quick = (needs_of([ALL], ["mnist"], profile) for profile in ("full", "quick"))
    assert [need for need in full if need.study == "mnist"] == [PlanSlice("mnist")]
    assert len([need for need in quick if need.study == "mnist"]) > 1


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_runs_of_overlapping_slices_are_counted_once(profile):
    """Table 3 and table 5 share the cells with K/n = .2 and H = 5."""
    three, five, both = (
        len(runs_of(needs_of(names, ["mnist"], profile), profile))
        for names in (["table3"], ["table5"], ["table3", "table5"])
    )
    table3 = runs_of(needs_of(["table3"], ["mnist"], profile), profile)
    shared = [run for run in table3 if run.server.sampled == 20]
    assert both == three + five - len(shared)
    for target in TARGETS.values():
        if target.name in ("table3", "fig2", "fig7", "fig9"):
            assert count_plan_runs(target.needs, profile) == len(runs_of(target.needs, profile))


def test_few_looks_see_every_phase_of_the_shortest_period_once():
    """Looks at rounds 84, 88, ..., 100 see each round since the server round once when H = 5."""
    looks = [r for r in range(1, 101) if r > FEW_LOOKS["after"] and r % FEW_LOOKS["every"] == 0]
    assert sorted(r % 5 for r in looks) == [0, 1, 2, 3, 4]


def test_all_is_every_table_and_figure_of_the_paper():
    """The studies that it does not have are asked for by name."""
    found = [target.name for target in Request.parse([ALL]).targets]
    assert found == [name for name in TARGETS if name not in OWN]
    assert [t.name for t in Request.parse([ALL, "blend"]).targets] == [*found, "blend"]


def test_an_unknown_target_names_its_neighbours():
    with pytest.raises(SkerryError, match="unknown target 'tabel3'; did you mean 'table3'"):
        Request.parse(["tabel3"])


def test_a_target_that_is_not_about_the_data_set_says_so():
    with pytest.raises(SkerryError, match="table4 has no runs on mnist"):
        Request.parse(["table4"]).restrict_to(["mnist"])


def test_theory_needs_no_runs():
    assert runs_of(needs_of(["fig1", "fig6"], ["mnist"], "full"), "full") == []


def test_the_numbers_are_those_of_the_documentation():
    """docs/reproduction names every target."""
    page = (Path(__file__).parents[2] / "docs/reproduction/README.md").read_text(encoding="utf-8")
    assert set(TARGETS) <= set(re.findall(r"\[`(\w+)`\]", page))
