"""What a person sees: sentences, colours, tables. Figures have tests of their own."""

import math
from collections import Counter

import pytest
from rich.console import Console

import skerry
from skerry.analysis.cells import Cells, ComparedCells
from skerry.analysis.compare import compare, find_best_label
from skerry.analysis.rebuild import first_server_round, sampled_devices
from skerry.analysis.results import Lane, Results
from skerry.analysis.statistics import estimate
from skerry.config.experiment import Experiment
from skerry.config.measures import traits
from skerry.config.presets import with_preset
from skerry.engine.participation.sampler import Sampler
from skerry.engine.world import build_world
from skerry.report.screens.run import describe_leaders, save_figures, summary_table
from skerry.report.style import colours, label_styles
from skerry.report.words import describe_network, describe_runs


@pytest.fixture(scope="module")
def results():
    experiment = Experiment.parse(
        {},
        ["network.devices=10", "server.sampled=3", "rounds=6", "data.dataset=synthetic",
         "data.samples=200", "data.test_samples=50", "training.batch=8"],
    )  # fmt: skip
    return skerry.run(experiment, compare=["s2s", "s2a", "blend:0.25", "blend:0.75"], seeds=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "100 devices on 2 rings of 50"),
        (["network.components=1"], "100 devices on one ring of 100"),
        (["network.components=[60, 40]"], "100 devices on 2 rings of 60, 40"),
        (["network.components=100"], "100 devices without links"),
        (["network.topology=regular"], "100 devices on 2 regular graphs of 50"),
        (
            ["network.topology=regular", "network.dynamic=true"],
            "100 devices on 2 regular graphs of 50, redrawn every round",
        ),
    ],
)
def test_a_fleet_is_told_as_a_person_would(settings, words):
    assert describe_network(Experiment.parse({}, settings)) == words


def test_islands_of_a_file_are_told_as_islands():
    network = Experiment.parse({}, ["network.topology=links.csv"]).model_copy()
    assert (
        describe_network(network, (5, 4))
        == "9 devices on 2 islands of 5, 4 devices, from links.csv"
    )
    assert describe_network(network, (5,)) == "5 devices on one links.csv of 5"


def test_counts_of_one_are_singular():
    study = describe_runs([Experiment.parse({}, ["rounds=1", "server.period=1"])])
    assert "every round;" in study
    assert study.endswith("1 round, 1 seed")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "server samples 20 every 5 rounds;"),
        (["server.sampled_schedule=double"], "server samples 20 at first, every 5 rounds;"),
        (["server.period_schedule=double"], "server samples 20 every 5 rounds at first;"),
        (
            ["server.period_schedule=double", "server.sampled_schedule=double"],
            "server samples 20 every 5 rounds, both at first;",
        ),
    ],
)
def test_a_server_that_changes_is_told_as_it_is_at_first(settings, words):
    plain = Experiment.parse({}, settings)
    assert words in describe_runs([with_preset(plain, "tt_hf"), plain])


def test_a_deadline_is_told():
    settings = ["clock.file=wifi_home", "server.deadline=0.5", "server.over_sample=4"]
    words = "every 5 rounds; clock wifi_home; the first of 24 called; deadline 0.5 s;"
    assert words in describe_runs([Experiment.parse({}, settings)])


def test_a_primitive_has_one_colour_everywhere_and_no_two_share_one():
    few = colours(["s2a", "s2s"])
    many = colours(["s2s", "s2a", "blend(0.25)", "blend(0.5)", "none", "mine:own"])
    assert few["s2s"] == many["s2s"]
    assert few["s2a"] == many["s2a"]
    assert len(set(many.values())) == len(many)


def test_who_cannot_tell_colours_has_the_markers():
    many = label_styles(
        ["s2s", "s2a", "blend(0.1)", "blend(0.25)", "blend(0.5)", "none", "mine:own"]
    )
    assert len({look.marker for look in many.values()}) == len(many)


def test_a_blend_has_the_same_look_whatever_stands_beside_it():
    alone, beside = (
        label_styles(["blend(0.25)"]),
        label_styles(["blend(0.1)", "blend(0.25)", "mine:own"]),
    )
    assert alone["blend(0.25)"] == beside["blend(0.25)"]


def test_the_table_has_a_row_for_each_primitive_and_fits_eighty_columns(results):
    console = Console(width=80, record=True)
    console.print(summary_table(results))
    text = console.export_text()
    assert all(name in text for name in results.labels())
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_verdicts_name_the_best_and_how_sure_that_is(results):
    about_average, about_own = describe_leaders(results)
    assert about_average.startswith("Best for the average model: ")
    assert about_own.startswith("Best for devices on their own labels: ")
    means = {name: results.of(name).final("own_accuracy").mean() for name in results.labels()}
    assert max(means, key=means.get) in about_own


def lane(primitive, seed, status="finished", **final):
    experiment = Experiment.parse({}, [f"seed={seed}", f"server.primitive={primitive}"])
    return Lane(experiment.key(), experiment, status, final, {})


def test_a_lead_needs_two_that_finished():
    """Who diverged leads nobody; without a common seed there is no difference."""
    diverged = [lane(name, 0, "diverged", own_accuracy=9.0) for name in ("s2s", "s2a")]
    own = lane("s2s", 0, own_accuracy=5.0), lane("s2s", 1, own_accuracy=6.0)
    about = "Best for devices on their own labels: "
    assert describe_leaders(Results(tuple(diverged))) == [f"{about}no run finished."]
    assert describe_leaders(Results((*own, diverged[1]))) == [f"{about}only s2s finished."]
    other = lane("s2a", 2, own_accuracy=4.0)
    assert describe_leaders(Results((*own, other))) == [
        f"{about}s2s, but it has no seed in common with s2a."
    ]
    same = lane("s2a", 1, own_accuracy=4.0)
    assert describe_leaders(Results((*own, same))) == [
        f"{about}s2s, 2.00 points above s2a (not tested: one seed)."
    ]


def test_a_lead_has_its_interval_over_common_seeds():
    ours = [lane("s2s", seed, own_accuracy=value) for seed, value in enumerate((5.0, 7.0))]
    theirs = [lane("s2a", seed, own_accuracy=4.0) for seed in range(2)]
    (told,) = describe_leaders(Results((*ours, *theirs)))
    half = estimate([1.0, 3.0]).half_width
    assert told.endswith(f"s2s, 2.00 ± {half:.2f} points above s2a (not tested: two seeds).")
    (level,) = describe_leaders(
        Results((*theirs, *(lane("s2s", s, own_accuracy=4.0) for s in range(2))))
    )
    assert level.endswith("s2a and s2s, equal (0.00 ± 0.00 points).")


def test_the_headings_are_those_of_the_measures():
    table = summary_table(Results((lane("s2s", 0, average_loss=0.5, disagreement=0.25, bias=1.0),)))
    shown = ["average_loss", "disagreement"]
    assert [column.header for column in table.columns] == ["", *(traits(m).heading for m in shown)]


def test_ringed_are_those_of_the_first_server_round(small):
    """It may be a later one; without a server nobody is ringed."""
    late = small("server.offset=2", "server.period=3")
    t = first_server_round(late)
    assert t == 2
    world = build_world(late)
    assert sampled_devices(late, world.fleet, t) == world.server_order(t)[:5].tolist()
    assert sampled_devices(late, world.fleet, t + 1) == []
    alone = small("server.primitive=none")
    assert sampled_devices(alone, world.fleet, first_server_round(alone)) == []


@pytest.mark.parametrize(
    "settings",
    [
        ("server.selection=per_component",),
        ("server.selection=one_each", "server.sampled=4"),
        ("server.selection=bernoulli", "server.sample_prob=0.3"),
        ("server.selection=round_robin",),
        ("fleet.awake=0.6",),
        ("server.selection=per_component", "fleet.on=3", "fleet.off=2", "fleet.together=islands"),
    ],
)
def test_ringed_are_those_whom_the_engine_samples(small, settings):
    """Under every rule that the seed decides, whoever sleeps."""
    asked = small("server.period=2", "rounds=20", *settings)
    world = build_world(asked)
    sampler = Sampler(world, asked)
    for t in asked.server.server_rounds(asked.rounds):
        sample = sampler.sample(t)
        met = [] if sample is None else sample.devices_k.tolist()
        assert sampled_devices(asked, world.fleet, t) == met


def test_nobody_is_ringed_where_data_or_models_decide(small):
    for rule in ("weighted", "importance", "skerry.engine.participation.selection:uniform"):
        asked = small(f"server.selection={rule}")
        assert sampled_devices(asked, build_world(small()).fleet, 0) is None


def test_pictures_are_named_after_their_study(results, tmp_path):
    """Another study in the same folder keeps its own."""
    for study in (results, results.of("s2a")):
        for picture in save_figures(study, tmp_path):
            assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 4


def three(**values):
    """Lanes of three primitives, a value for each seed."""
    return Results(
        tuple(
            lane(name, seed, own_accuracy=value)
            for name, found in values.items()
            for seed, value in enumerate(found)
        )
    )


S2A = (90.0, 91.0, 89.5, 90.5, 90.2)


def test_a_lead_is_what_results_calls_one():
    """An interval that just leaves out zero is no clear lead where the corrected test of `skerry
    results` calls it a tie; and the two agree wherever the second is compared with the first."""
    gaps = (0.3, 0.9, 0.3, 1.0, 0.1)
    found = three(
        s2s=[a + b for a, b in zip(S2A, gaps, strict=True)],
        s2a=S2A,
        none=[a - 0.05 * (-1) ** i for i, a in enumerate(S2A)],
    )
    gap = estimate(gaps)
    assert gap.mean > gap.half_width
    (told,) = describe_leaders(found)
    readings = {
        name: dict(enumerate(found.of(name).final("own_accuracy"))) for name in found.labels()
    }
    cells = Cells("own_accuracy", None, (), {(): [readings]}, {}, Counter(finished=15))
    answers = ComparedCells(cells, "s2a")
    verdict = answers.verdict(answers.comparisons[(), "s2s"])
    assert verdict == "tie"
    assert "s2s, 0.52 ±" in told
    p = answers.comparisons[(), "s2s"].t_holm
    assert told.endswith(f"above s2a (not a clear lead: p {p:.3f} after Holm's correction).")


def test_a_lead_beside_others_is_corrected_for_them():
    """Where neither is what the others are compared with, the family is that of the best."""
    readings = {
        "s2a": dict(enumerate(S2A)),
        "s2s": {seed: value + 2.0 + 0.3 * (-1) ** seed for seed, value in enumerate(S2A)},
        "none": {seed: value + 1.0 + 0.2 * seed for seed, value in enumerate(S2A)},
    }
    found = find_best_label(readings, lower_is_better=False)
    family = compare(
        [[*readings["s2s"].values()]] * 2, [[*readings[n].values()] for n in ("none", "s2a")]
    )
    assert (found.best, found.second) == ("s2s", "none")
    assert found.gap.mean == pytest.approx(family[0].difference.mean)
    assert found.p == pytest.approx(family[0].t_holm)
    assert found.is_clear == (family[0].t_holm <= 0.05)


def test_the_best_of_losses_is_the_lowest():
    readings = {"s2s": {0: 0.5, 1: 0.7}, "s2a": {0: 0.4, 1: 0.6}}
    found = find_best_label(readings, lower_is_better=True)
    assert (found.best, found.second) == ("s2a", "s2s")
    assert found.gap.mean == pytest.approx(-0.1)
    # The same difference in both seeds is no test, here as in the tables of `skerry results`.
    assert (found.is_clear, found.untested) == (False, "two seeds")
    assert compare([[0.5, 0.7]], [[0.4, 0.6]])[0].verdict() == "untested"
    assert find_best_label({"s2s": {0: 0.5}, "s2a": {0: math.nan}}, lower_is_better=True) is None
