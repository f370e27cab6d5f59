"""Figures: what is drawn is what was measured, it can be read, and it can be printed."""

import itertools
import re
from functools import partial
from pathlib import Path

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import typer
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from typer.testing import CliRunner

import skerry
from conftest import small
from skerry.analysis.run_table import results as answers_of
from skerry.analysis.statistics import estimate
from skerry.cli.commands.figure import KINDS, figure_command
from skerry.config.experiment import Data, Network
from skerry.data.partition import split
from skerry.engine.world import build_world
from skerry.errors import RecordsError, SkerryError, SkerryWarning, as_options
from skerry.network.fleet import build_fleet
from skerry.records.store import Store
from skerry.report.figure_kinds import FigureRequest, draw_figure
from skerry.report.figures import (
    cost,
    curves,
    front,
    gap_heat_map,
    labels,
    network,
    network_figure,
    overview,
    save_figure,
    sensitivity,
    server_ratios,
)
from skerry.report.figures.gaps import diverging
from skerry.report.figures.panels import Panel, arrange
from skerry.report.figures.series import band_over_seeds
from skerry.report.style import PRIMITIVES, WIDTHS, paper, safe_text
from skerry.theory.operators import delta, kappa

PRIMITIVES_RUN = ["s2s", "s2a", "blend:0.25", "blend:0.75", "none"]
WIFI = {
    "compute": {"spread": 0.5, "watts": 4.0, "idle_watts": 0.5},
    "d2d": {"latency": "5 ms", "joules_per_byte": 2e-7},
    "uplink": {"bandwidth": "1 MB/s", "latency": "60 ms", "joules_per_byte": 5e-6},
    "downlink": {"latency": "60 ms"},
}
HOSTILE = ["$\\frac{1", "a$b$c", "_hidden", "x\x00\ny", "50% & <tag>", "n" * 300]

app = typer.Typer()
app.command("figure")(figure_command)


def draw(*arguments: object) -> str:
    """What the command prints; its errors are raised."""
    found = CliRunner().invoke(app, list(map(str, arguments)))
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout


def composed(kind: str, folder: Path, **asked) -> Figure:
    """The figure that the command would write."""
    if kind == "timeline":
        asked.setdefault("clock", WIFI)
    with paper():
        return draw_figure(kind, FigureRequest(folder=folder, **asked)).figure


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two periods, two numbers of sampled devices, five primitives, three seeds."""
    folder = tmp_path_factory.mktemp("store")
    for sampled, period in itertools.product((3, 6), (2, 3)):
        asked = small(f"server.sampled={sampled}", f"server.period={period}")
        skerry.run(asked, compare=PRIMITIVES_RUN, seeds=3, out=folder)
    return folder


@pytest.fixture(scope="module")
def one_cell(store):
    """The histories of one cell."""
    frame = skerry.load(store)
    in_cell = (frame["sampled"] == 3) & (frame["period"] == 3)
    return frame[in_cell & (frame["primitive"] != "none")]


def axis():
    return Figure().add_subplot()


def lines_of(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def bars_of(axis):
    """The points and intervals of a figure, by label."""
    return {found.get_label(): found for found in axis.containers}


def drawn_texts(figure):
    """Every text that is seen, with the box it takes."""
    figure.draw_without_rendering()
    found = [text for text in figure.texts if text.get_text()]
    for legend in figure.legends:
        found += legend.get_texts()
    for one in figure.axes:
        if not one.axison:
            found += [one.title, *one.texts]
            continue
        found += [one.title, one.xaxis.label, one.yaxis.label, *one.texts]
        found += [one.xaxis.get_offset_text(), one.yaxis.get_offset_text()]
        found += [t.label1 for a in (one.xaxis, one.yaxis) for t in a._update_ticks()]
    seen = [text for text in found if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(), text) for text in seen]


def lie_on_each_other(a, b):
    (_, box, text), (_, other, beside) = a, b
    across = min(box.x1, other.x1) - max(box.x0, other.x0)
    down = min(box.y1, other.y1) - max(box.y0, other.y0)
    if min(across, down) <= 1:
        return False
    turn = np.radians(text.get_rotation())
    if turn % (np.pi / 2) and text.get_rotation() == beside.get_rotation():
        # Parallel lines of names: what counts is how far they are apart, not their boxes.
        size = text.get_fontsize() * text.get_figure().dpi / 72
        return abs(box.x1 - other.x1) * np.sin(turn) < 0.9 * size
    return True


def assert_readable(figure):
    texts = drawn_texts(figure)
    assert texts
    for text, box, _ in texts:
        inside = box.x0 >= -1 and box.y0 >= -1
        inside &= box.x1 <= figure.bbox.width + 1 and box.y1 <= figure.bbox.height + 1
        assert inside, f"'{text}' is cut off"
    for a, b in itertools.combinations(texts, 2):
        assert not lie_on_each_other(a, b), f"'{a[0]}' lies on '{b[0]}'"


# What is drawn is what was measured


def test_curves_show_the_mean_over_seeds_and_its_interval(one_cell):
    shown = curves(one_cell, "average_accuracy", axis())
    runs = one_cell[one_cell["primitive"] == "s2a"].pivot(
        index="round", columns="seed", values="average_accuracy"
    )
    line = lines_of(shown)["s2a"]
    assert list(line.get_xdata()) == list(range(8))
    assert np.allclose(line.get_ydata(), runs.mean(axis="columns"))
    over = [estimate(row) for row in runs.to_numpy()]
    band = shown.collections[-1].get_paths()[0].vertices
    last = {round(y, 6) for x, y in band if x == 7}
    assert {round(min(100, over[-1].high), 6), round(over[-1].low, 6)} <= last


def test_curves_mark_the_rounds_in_which_the_server_calls(one_cell):
    """Rounds 0, 3 and 6 have a period of 3; on the axis a round is where it is done."""
    shown = curves(one_cell, "own_accuracy", axis())
    marks = [line.get_xdata()[0] for line in shown.get_lines() if len(line.get_xdata()) == 2]
    assert marks == [1, 4, 7]


def test_lanes_that_meet_at_different_rounds_have_no_marks(store):
    shown = curves(skerry.load(store), "own_accuracy", axis())
    assert all(len(line.get_xdata()) > 2 for line in shown.get_lines())


def test_runs_of_one_seed_are_averaged_before_the_interval_is_taken():
    """Two runs of each of two seeds are two independent numbers, not four."""
    frame = pd.DataFrame({"seed": [0, 0, 1, 1], "round": [1] * 4, "m": [1.0, 3.0, 5.0, 7.0]})
    band = band_over_seeds(frame, "m", "round")
    assert band.mean == [4.0]
    assert band.half[0] == pytest.approx(estimate([2.0, 6.0]).half_width)


def test_a_gap_map_shows_the_paired_differences(store):
    answers = answers_of(store, "own_accuracy")
    shown = gap_heat_map(answers.frame(), "server.period", "server.sampled", axis())
    mesh = shown.collections[0]
    expected = [
        [answers.comparisons[(k, h), "s2s"].difference.mean for k in (3, 6)] for h in (2, 3)
    ]
    assert answers.cells.fields == ("server.sampled", "server.period")
    assert np.allclose(mesh.get_array(), expected)
    assert [text.get_text() for text in shown.get_xticklabels()] == ["3", "6"]
    assert [text.get_text() for text in shown.get_yticklabels()] == ["2", "3"]
    numbers = [float(text.get_text().replace("−", "-")) for text in shown.texts]
    assert np.allclose(numbers, np.ravel(expected), atol=0.06)


def gaps(differences, verdicts):
    """A frame as answers give it, with these gaps along the periods."""
    rows = [
        {"server.period": h, "primitive": "s2s", "against": "s2a", "measure": "own_accuracy",
         "difference": gap, "verdict": verdict}
        for h, (gap, verdict) in enumerate(zip(differences, verdicts, strict=True), start=1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_zero_of_a_gap_map_is_white_and_each_side_has_the_winners_colour():
    shown = gap_heat_map(
        gaps([-2.0, 0.0, 2.0], ["loss", "tie", "win"]), None, "server.period", axis()
    )
    mesh = shown.collections[0]
    assert [to_hex(mesh.to_rgba(value)).upper() for value in (-2.0, 0.0, 2.0)] == [
        PRIMITIVES["s2a"],
        "#FFFFFF",
        PRIMITIVES["s2s"],
    ]


def test_where_low_is_better_the_lower_one_gives_its_colour():
    assert to_hex(diverging("s2s", "s2a", low_is_better=True)(0.0)).upper() == PRIMITIVES["s2s"]


def test_two_blends_have_colours_that_can_be_told_apart_in_a_gap_map():
    shades = diverging("blend(0.25)", "blend(0.75)")
    apart = np.abs(np.subtract(to_rgb(shades(0.0)), to_rgb(shades(1.0)))).max()
    assert apart > 0.4


def test_gaps_without_a_clear_lead_are_hatched_and_missing_ones_are_grey():
    frame = gaps([1.0, 2.0, np.nan, 3.0], ["win", "tie", None, "untested"])
    shown = gap_heat_map(frame, None, "server.period", axis())
    hatched = [patch.get_x() for patch in shown.patches if patch.get_hatch()]
    assert np.allclose(hatched, [1, 3], atol=0.05)
    assert shown.collections[0].get_array().mask.tolist() == [[False, False, True, False]]


def test_sensitivity_shows_means_and_intervals_against_the_sampled_share(store):
    answers = answers_of(store, by=["server.sampled"])
    shown = sensitivity(answers.frame(), "server.sampled", axis(), devices=12)
    line, _, (interval,) = bars_of(shown)["s2a"]
    found = [answers.estimates[(k,), "s2a"] for k in (3, 6)]
    assert line.get_xdata().tolist() == [0.25, 0.5]
    assert np.allclose(line.get_ydata(), [one.mean for one in found])
    ends = [segment[:, 1].tolist() for segment in interval.get_segments()]
    assert np.allclose(ends, [[one.low, one.high] for one in found])


def test_a_front_shows_both_accuracies_and_rings_the_best_blend(store):
    finals = skerry.finals(store)
    finals = finals[(finals["sampled"] == 3) & (finals["period"] == 2)]
    shown = front(finals, axis())
    means = {}
    for beta in (0.25, 0.75):
        runs = finals[(finals["primitive"] == "blend") & (finals["beta"] == beta)]
        means[beta] = runs[["device_accuracy", "own_accuracy"]].mean().to_numpy()
        point = bars_of(shown)[f"blend({beta})"][0]
        assert np.allclose([point.get_xdata()[0], point.get_ydata()[0]], means[beta])
    ring = lines_of(shown)["best blend"]
    best = max(means.values(), key=sum)
    assert np.allclose([ring.get_xdata()[0], ring.get_ydata()[0]], best)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("disagreement_ratio", {"s2s": 1.0, "s2a": 0.0, "blend(0.25)": 0.5625}),
        ("bias_ratio", {"s2s": 0.0, "s2a": 1.0, "blend(0.25)": 0.0625}),
    ],
)
def test_the_theory_is_drawn_beside_what_was_measured(store, measure, expected):
    """Lines are the share of the dial times delta or kappa, points the means over server rounds."""
    frame = skerry.load(store)
    shown = server_ratios(frame, axis(), measure)
    K = np.arange(1, 13)
    exact = {"disagreement_ratio": delta, "bias_ratio": kappa}[measure](12, K)
    colours = {name: bar[0].get_color() for name, bar in bars_of(shown).items()}
    theory = {line.get_color(): line for line in shown.get_lines() if len(line.get_xdata()) == 12}
    for name, share in expected.items():
        line = theory[colours[name]]
        assert np.allclose(line.get_xdata(), K / 12)
        assert np.allclose(line.get_ydata(), share * exact)
    points = bars_of(shown)["s2s"][0]
    runs = frame[frame["primitive"] == "s2s"].groupby(["sampled", "seed"])[measure].mean()
    assert np.allclose(points.get_ydata(), runs.groupby("sampled").mean())


def test_the_theory_is_that_of_the_rule_in_use(tmp_path):
    """Of islands sampled in proportion: what the rule leaves inside and between islands, times what
    there was before each server round. Two of six in both: f = 1/3, delta_6 = 4/5."""
    fleet = small("server.sampled=4", "server.period=2", "rounds=6")
    rules = [
        fleet.with_settings(f"server.selection={rule}") for rule in ("uniform", "per_component")
    ]
    skerry.run(rules, compare=["s2s", "s2a"], seeds=2, out=tmp_path)
    figure = composed("bound", tmp_path)
    frame = skerry.load(tmp_path)
    frame = frame[(frame["selection"] == "per_component") & frame["bias"].notna()]
    intra, inter = (frame[f"disagreement_{part}_before"] for part in ("intra", "inter"))
    theory = {
        ("disagreement", "s2s"): (1 - 0.8 / 3) * intra + 2 / 3 * inter,
        ("bias", "s2a"): 0.2 * intra,
    }
    panels = [one for one in figure.axes if one.get_title() == "per_component"]
    assert len(panels) == 2
    for shown, (measure, name) in zip(panels, theory, strict=True):
        colour = bars_of(shown)[name][0].get_color()
        drawn = [one for one in shown.get_lines() if one.get_markersize() == 9]
        (line,) = (one for one in drawn if one.get_color() == colour)
        ratio = theory[measure, name] / (intra + inter)
        assert line.get_xdata() == [4 / 12]
        assert line.get_ydata() == pytest.approx([ratio[frame["primitive"] == name].mean()])
    told = CliRunner().invoke(app, ["bound", str(tmp_path), "--out", str(tmp_path / "b.svg")])
    assert "what its rule leads to on average" in " ".join(told.output.split())


def test_cost_adds_up_what_the_server_sent_and_got(one_cell):
    shown = cost(one_cell, "average_accuracy", axis())
    ends = {name: line.get_xdata()[-1] for name, line in lines_of(shown).items()}
    # Three server rounds, 3 sampled of 12 devices.
    assert ends["s2s"] == 3 * (3 + 3)
    assert ends["s2a"] == 3 * (3 + 12)


@pytest.mark.parametrize("over", ["seconds", "joules", "bytes", "all_messages"])
def test_curves_over_a_cost_lie_at_the_mean_cost_of_each_round(store, one_cell, over):
    """The values are those over the rounds; each lies at the mean over seeds of what was spent."""
    priced = skerry.load(store, clock=WIFI)
    priced = priced[priced["key"].isin(one_cell["key"])]
    links = [] if over in ("seconds", "joules") else ["uplink", "downlink"]
    links += ["d2d"] * over.startswith("all_")
    columns = [f"{link}_{over.removeprefix('all_')}" for link in links] or [over]
    found = lines_of(curves(priced, "own_accuracy", axis(), over=over))
    plain = lines_of(curves(priced, "own_accuracy", axis()))
    for name in ("s2s", "s2a"):
        ours = priced[priced["primitive"] == name]
        spent = ours[columns].sum(axis="columns").groupby(ours["round"]).mean()
        assert found[name].get_xdata() == pytest.approx(spent.to_numpy())
        assert np.array_equal(found[name].get_ydata(), plain[name].get_ydata())
    assert found["s2s"].get_xdata()[-1] <= found["s2a"].get_xdata()[-1]


def test_a_run_that_stopped_early_spends_nothing_more():
    """Over the rounds a mean stays at its round; over seconds it lies at the mean cost, where a
    finished run that a rule has stopped counts with its last value."""
    frame = pd.DataFrame({
        "key": list("aab"), "seed": [0, 0, 1], "round": [1, 2, 1], "status": "finished",
        "label": "s2s", "average_loss": [3.0, 1.0, 5.0], "seconds": [2.0, 6.0, 4.0],
    })  # fmt: skip
    (line,) = curves(frame, "average_loss", axis(), over="seconds").get_lines()
    assert line.get_xdata().tolist() == [3.0, 5.0]
    (line,) = curves(frame, "average_loss", axis()).get_lines()
    assert line.get_xdata().tolist() == [1, 2]
    assert line.get_ydata().tolist() == [4.0, 3.0]


def test_final_values_of_time_can_be_drawn_under_a_clock(store):
    """Measures of the clock are measures like others: against a field, and against a score."""
    shown = composed("sensitivity", store, clock=WIFI, measures=("waiting",), compare=("s2a",))
    point = bars_of(shown.axes[0])["s2a"][0]
    expected = skerry.results(store, "waiting", clock=WIFI).cells.readings[3, 2][0]["s2a"]
    assert point.get_ydata()[0] == pytest.approx(np.mean(list(expected.values())))
    assert composed("front", store, clock=WIFI, x="seconds", by=()).axes


def test_runs_that_no_clock_can_price_are_left_out(tmp_path):
    """Their samples depend on the data; only the requested runs are priced."""
    for rule in ("weighted", "uniform"):
        skerry.run(small(f"server.selection={rule}"), out=tmp_path)
    asked = ("curves", tmp_path, "--over", "seconds", "--clock", clock_file(tmp_path))
    with pytest.raises(RecordsError, match="cannot be priced afterwards"):
        draw(*asked, "--where", "selection=weighted")
    with pytest.warns(SkerryWarning, match="1 of 2 runs has no price and is left out"):
        draw(*asked, "--out", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").exists()


def clock_file(folder: Path) -> Path:
    file = folder / "slow.toml"
    file.write_text('[uplink]\nlatency = "200 ms"\n')
    return file


def test_labels_are_drawn_as_shares_of_each_devices_data():
    y = np.arange(200) % 5
    sizes = (3, 4)
    partition = split(y, 5, sizes, Data(intra="dirichlet"), 1)
    shown = labels(partition, sizes, axis())
    share = partition.label_counts / partition.sizes[:, None]
    drawn = np.concatenate([mesh.get_array() for mesh in shown.collections[:2]], axis=1)
    assert np.allclose(drawn, share.T)


def test_the_network_is_drawn_with_all_its_devices_and_links():
    fleet = build_fleet(Network(devices=9, components=(3, 5, 1)), 0)
    shown = network(fleet, axis(), sampled=[0, 4])
    links, dots = shown.collections
    assert len(dots.get_offsets()) == 9
    assert len(links.get_segments()) == 3 + 5
    assert len({tuple(place) for place in dots.get_offsets()}) == 9


def test_the_ringed_devices_are_those_that_the_server_meets(store):
    """Round 4 is t = 3, a server round where the period is 3."""
    asked = {"where": {"period": ["3"], "sampled": ["6"], "seed": ["2"]}, "round": 4}
    dots = composed("network", store, **asked).axes[0].collections[1]
    ringed = np.flatnonzero(np.ravel(dots.get_sizes()) > min(dots.get_sizes()))
    world = build_world(small("seed=2"))
    assert sorted(ringed) == sorted(world.server_order(3)[:6].tolist())


def test_nobody_is_ringed_between_server_rounds(store):
    found = composed("network", store, where={"period": ["3"]}, round=3).axes[0]
    assert "no server round" in found.get_title().replace("\n", " ")
    assert len(set(found.collections[1].get_sizes())) == 1


# What is asked for is what is drawn


def test_every_cell_has_a_panel_unless_fields_are_named(store):
    assert len(composed("curves", store).axes) == 4
    assert len(composed("curves", store, by=("period",)).axes) == 2
    assert len(composed("curves", store, where={"period": ["2"]}).axes) == 2
    assert len(composed("curves", store, by=(), measures=("bias", "train_loss")).axes) == 2


def test_what_is_averaged_over_and_left_out_is_said(store, tmp_path):
    said = draw("curves", store, "--by", "period", "-o", tmp_path / "a.png")
    assert "Averaged over server.sampled, seed by seed." in said


def test_only_the_primitives_asked_for_are_drawn(store):
    found = composed("curves", store, compare=("s2a", "blend:0.25"), by=())
    assert [text.get_text() for text in found.legends[0].get_texts()] == ["blend(0.25)", "s2a"]


def test_runs_without_a_server_stand_in_every_panel(store):
    found = composed("curves", store, compare=("s2s", "none"))
    assert [sum("none" in lines_of(one) for one in found.axes)] == [4]


def test_a_condition_may_name_several_values_and_seeds(store):
    both = composed("curves", store, where={"period": ["2", "3"], "seed": ["1"]}, by=())
    assert all(not one.collections for one in both.axes), "one seed has no band"


def test_sensitivity_holds_the_other_axis_at_its_smallest_value(store):
    left, right = composed("sensitivity", store, measures=("own_accuracy",)).axes
    titles = [one.get_title().replace("\u00a0", " ") for one in (left, right)]
    assert titles == ["period 2", "sampled 3"]
    answers = answers_of(store, "own_accuracy")
    shown = bars_of(right)["s2a"][0].get_ydata()
    assert np.allclose(shown, [answers.estimates[(3, h), "s2a"].mean for h in (2, 3)])


def test_a_field_can_be_told_by_line_styles(store):
    found = composed("curves", store, lines="period", by=(), where={"sampled": ["3"]})
    texts = [text.get_text() for text in found.legends[0].get_texts()]
    assert texts[-2:] == ["2", "3"]
    (shown,) = found.axes
    styles = {line.get_linestyle() for line in shown.get_lines() if line.get_label() == "s2s"}
    assert len(styles) == 2


def test_a_primitive_has_the_same_colour_and_marker_in_every_figure(store):
    looks = set()
    for kind in ("curves", "sensitivity", "front", "cost", "bound"):
        shown = composed(kind, store).axes[0]
        handles, names = shown.get_legend_handles_labels()
        handle = handles[names.index("s2a")]
        line = handle.lines[0] if hasattr(handle, "has_yerr") else handle
        looks.add((line.get_color(), line.get_marker()))
    assert looks == {(PRIMITIVES["s2a"], "s")}


def test_a_users_own_primitive_looks_the_same_in_panels_that_lack_another():
    both = pd.DataFrame(
        {"key": list("abc"), "seed": 0, "round": 1, "m": 1.0,
         "label": ["mine:a", "mine:b", "mine:b"], "cell": [1, 1, 2]}
    )  # fmt: skip
    from skerry.report.figures.series import label_styles_in, with_known_labels

    known = with_known_labels(both, "label")
    parts = [label_styles_in(known[known["cell"] == cell]["label"]) for cell in (1, 2)]
    assert parts[0]["mine:b"] == parts[1]["mine:b"]


def test_bound_knows_how_many_devices_a_graph_file_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nx.write_edgelist(nx.cycle_graph(8), "ring.edgelist", data=False)
    table = {"network": {"topology": "ring.edgelist"}, "data": {"dataset": "synthetic"}}
    asked = skerry.Experiment.parse(table, ["rounds=3", "server.sampled=4"])
    skerry.run(asked, compare=["s2s"], seeds=2, out=tmp_path)
    point = bars_of(composed("bound", tmp_path).axes[0])["s2s"][0]
    assert point.get_xdata().tolist() == [0.5]
    assert len(composed("network", tmp_path).axes[0].collections[1].get_offsets()) == 8
    nx.write_edgelist(nx.path_graph(8), "ring.edgelist", data=False)
    with pytest.raises(SkerryError, match="has changed since the runs were recorded"):
        composed("network", tmp_path)


# It can be read


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_lies_on_another_or_is_cut_off(store, kind, width):
    assert_readable(composed(kind, store, width=WIDTHS[width]))


@pytest.mark.parametrize("kind", ["curves", "gap", "sensitivity", "network"])
def test_a_title_finds_room(store, kind):
    title = "A title that tells at some length what is to be seen below it, and why that matters"
    assert_readable(composed(kind, store, title=title))


def test_long_names_and_many_values_find_room():
    fields = {"network.topology": [f"a/rather/long/path/{i}.graphml" for i in range(6)]}
    frame = pd.DataFrame(fields | {"server.sampled": [1, 2, 4, 50, 99, 100]})
    for name in ("s2s", "s2a"):
        columns = {"primitive": name, "measure": "own_accuracy", "against": "s2a"}
        numbers = {"mean": 1.0, "high": 2.0, "difference": 1.25, "verdict": "win"}
        frame = frame.assign(**(columns | numbers)) if name == "s2s" else frame
    for along in ("network.topology", "server.sampled"):
        with paper():
            assert_readable(arrange([Panel("", partial(sensitivity, frame, along))], 3.3))
            assert_readable(arrange([Panel("", partial(gap_heat_map, frame, None, along))], 3.3))


def test_an_overview_and_a_network_picture_can_be_read(store, one_cell):
    assert_readable(overview(one_cell, "a study\nin two lines"))
    assert_readable(network_figure(build_fleet(small().network, 0), "a fleet", sampled=[1]))


def test_an_overview_shows_what_there_is(one_cell):
    runs = one_cell.assign(label=one_cell["primitive"])
    counted = runs[["key", "label", "seed", "round", "uplink_messages", "d2d_bytes"]]
    assert [one.get_ylabel() for one in overview(counted, "").axes] == [
        "messages to the server",
        "d2d bytes",
    ]
    assert overview(counted.assign(uplink_messages=np.nan, d2d_bytes=np.inf), "").axes


@pytest.mark.parametrize("name", HOSTILE)
def test_foreign_names_are_drawn_letter_by_letter(one_cell, name, tmp_path):
    """No mathematics, no hidden entries, no characters that files forbid."""
    frame = one_cell.assign(label=name, **{"network.topology": name})
    with paper():
        panel = Panel(safe_text(name), partial(curves, frame, "own_accuracy"))
        found = arrange([panel], 3.3, title=safe_text(name))
        assert_readable(found)
        for suffix in ("svg", "pdf"):
            save_figure(found, tmp_path / f"a.{suffix}")
    (entry,) = found.legends[0].get_texts()
    text, is_math = entry._preprocess_math(entry.get_text())
    assert not is_math
    assert text.split()[0].strip("…")[:30] == re.split(r"[\x00 ]", name)[0][:30]


# It can be printed


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_writes_every_format(store, kind, tmp_path):
    starts = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for suffix, start in starts.items():
        file = tmp_path / f"a.{suffix}"
        clock = ["--clock", clock_file(tmp_path)] if kind == "timeline" else []
        assert f"Wrote {file}." in draw(kind, store, "-o", file, *clock)
        assert file.read_bytes().startswith(start)
    assert sorted(p.name for p in tmp_path.glob("a.*")) == ["a.pdf", "a.png", "a.svg"]


def test_fonts_go_along_and_the_same_figure_is_the_same_file(store, tmp_path):
    contents = {}
    for suffix, again in itertools.product(("pdf", "svg"), (0, 1)):
        file = tmp_path / f"{again}.{suffix}"
        draw("front", store, "-o", file, "--width", "full")
        contents[suffix, again] = file.read_bytes()
    assert contents["pdf", 0] == contents["pdf", 1]
    assert contents["svg", 0] == contents["svg", 1]
    assert b"/CIDFontType2" in contents["pdf", 0]
    assert b"/Type3" not in contents["pdf", 0]
    assert b"<text" not in contents["svg", 0]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_is_as_wide_as_the_column(store, width, tmp_path):
    draw("curves", store, "--by", "period", "--width", width, "-o", tmp_path / "a.svg")
    points = re.search(r'width="([\d.]+)pt"', (tmp_path / "a.svg").read_text())
    assert float(points[1]) == pytest.approx(72 * WIDTHS[width])


@pytest.mark.parametrize("size", [7, 10, 16])
def test_a_title_stays_inside_the_picture(one_cell, size):
    """Also at the letters of a user's own settings."""
    words = "100 devices on 2 rings of 50; server samples 20 every 5 rounds; " * 3
    with mpl.rc_context({"font.size": size}):
        figure = overview(one_cell, words)
        figure.canvas.draw()
        title = figure._suptitle.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.width


def test_pictures_are_written_whole_or_not_at_all(one_cell, tmp_path):
    save_figure(overview(one_cell, "a study"), tmp_path / "0.png")

    class Fails(Figure):
        def savefig(self, path, **kwargs):
            super().savefig(path, **kwargs)
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        save_figure(Fails(), tmp_path / "1.png")
    assert [p.name for p in tmp_path.iterdir()] == ["0.png"]


# Stores as they come


def record(folder, runs):
    """A store with a run for each (settings, status, accuracies by round)."""
    with Store.open(folder) as store:
        for settings, status, accuracies in runs:
            experiment = small(f"rounds={len(accuracies) - 1}", *settings)
            facts = {"materials": {}, "world": experiment.world_key(), "device": "cpu"}
            store.begin({experiment.key(): experiment}, versions={}, **facts)
            columns = {"round": list(range(len(accuracies))), "average_accuracy": accuracies}
            store.append({experiment.key(): columns})
            if status != "running":
                store.finish(experiment.key(), status, wall_seconds=1.0)


def test_gaps_in_a_history_are_bridged(tmp_path):
    record(tmp_path, [([], "finished", [1.0, np.nan, 3.0])])
    (line,) = composed("curves", tmp_path).axes[0].get_lines()
    assert line.get_xdata().tolist() == [0, 2]


def test_one_seed_is_drawn_without_an_interval(tmp_path):
    runs = [([f"server.period={h}"], "finished", [1.0, 2.0]) for h in (2, 3)]
    record(tmp_path, runs)
    assert not composed("curves", tmp_path, by=()).axes[0].collections
    assert bars_of(composed("sensitivity", tmp_path).axes[0])["s2s"][2] == ()


def test_diverged_and_unfinished_runs_are_named_and_left_out(tmp_path):
    record(tmp_path, [([], "finished", [1.0, 2.0]), (["seed=1"], "diverged", [1.0, 1e9])])
    record(tmp_path, [(["seed=2"], "running", [1.0, 1e9])])
    said = draw("curves", tmp_path, "-o", tmp_path / "a.png")
    assert "Not drawn: runs that are not finished (1 diverged, 1 running)." in said
    (line,) = composed("curves", tmp_path).axes[0].get_lines()
    assert line.get_ydata().tolist() == [1.0, 2.0]


def test_a_frame_with_lanes_that_diverged_can_be_drawn(one_cell):
    """What is finite is drawn, however large; a loss then goes by its decades."""
    lost = one_cell["primitive"] == "s2a"
    for value in (np.nan, np.inf, 1e12):
        frame = one_cell.assign(average_loss=one_cell["average_loss"].mask(lost, value))
        shown = curves(frame, "average_loss", axis())
        assert ("s2a" in lines_of(shown)) == np.isfinite(value)
        assert shown.get_yscale() == ("log" if value == 1e12 else "linear")
    nothing = one_cell.assign(average_loss=np.nan)
    with pytest.raises(SkerryError, match="no run has a finite value of average_loss"):
        curves(nothing, "average_loss", axis())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curvs"], "unknown figure 'curvs'; did you mean 'curves'"),
        (["curves", "-o", "a.gif"], r"must be a .png, .svg, .pdf file \(got 'a.gif'\)"),
        (["curves", "--measure", "own_acuracy"], "did you mean 'own_accuracy'"),
        (["gap", "--measure", "bias", "--measure", "train_loss"], "shows one measure"),
        (["gap", "--compare", "s2s"], "a gap compares two primitives"),
        (["gap", "--compare", "s2s,s3a"], "unknown primitive 's3a'"),
        (["gap", "--where", "period=2", "--where", "sampled=3"], "needs a field that varies"),
        (["curves", "--rows", "period"], "curves has no use for --rows. It takes: --measure"),
        (["curves", "--where", "period"], r"a condition reads field=value \(got 'period'\)"),
        (["curves", "--where", "perod=2"], "unknown field 'perod'; did you mean"),
        (["curves", "--where", "period=7"], r"no run in .* has period = 7 \(got 2, 3\)"),
        (["gap", "--where", "period=7"], r"has period = 7 \(got 2, 3\)"),
        (["curves", "--where", "primitive=s2a"], "Use --compare s2a"),
        (["network", "--round", "8"], "--round must be between 1 and 7"),
        (["curves", "--width", "wide"], "unknown width 'wide'"),
        (["cost", "--x", "pigeons"], "unknown horizontal axis 'pigeons'"),
        (
            ["curves", "--over", "secnds"],
            "unknown horizontal axis 'secnds'; did you mean 'seconds'",
        ),
        (
            ["curves", "--over", "joules"],
            "the runs have no joules.* Give one, such as --clock wifi",
        ),
        (["curves", "--clock", "wify_home"], "no clock 'wify_home'; did you mean 'wifi_home'"),
        (["curves", "--measure", "seconds"], "no finished run .* measured seconds"),
        (["timeline"], "a timeline needs a clock.* Give one, such as --clock wifi_home"),
        (["labels", "--clock", "wifi_home"], "labels has no use for --clock"),
        (["bound", "--measure", "bias"], "unknown measure of the theory 'bias'"),
        (["curves", "--by", "seed"], "unknown field 'seed'"),
    ],
)
def test_mistakes_are_told_in_one_line(store, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, *options = arguments
    with pytest.raises(SkerryError) as error:
        draw(kind, store, *options)
    told = as_options(str(error.value))
    assert re.search(message, told)
    assert "\n" not in told
    assert not list(tmp_path.iterdir())


def test_a_folder_without_answers_says_so(tmp_path):
    for kind in KINDS:
        with pytest.raises(RecordsError, match="no store at"):
            draw(kind, tmp_path / "nowhere")
    Store.open(tmp_path).close()
    for kind in KINDS:
        with pytest.raises(RecordsError, match="no runs are recorded in"):
            draw(kind, tmp_path)
    record(tmp_path, [([], "running", [1.0, 2.0])])
    for kind in set(KINDS) - {"network", "labels"}:
        with pytest.raises(RecordsError, match=r"none of the runs in .* is finished"):
            draw(kind, tmp_path)
    record(tmp_path, [(["server.period=9"], "finished", [1.0, 2.0])])
    with pytest.raises(SkerryError, match=r"a gap needs two primitives \(got s2s alone\)"):
        draw("gap", tmp_path)


def test_too_many_panels_are_refused_with_a_way_out(tmp_path):
    record(tmp_path, [([f"server.period={h}"], "finished", [1.0, 2.0]) for h in range(1, 27)])
    with pytest.raises(SkerryError, match=r"at most 24 panels \(got 26\). Choose runs with"):
        draw("curves", tmp_path)


def test_what_was_given_from_python_cannot_be_rebuilt(tmp_path):
    graph = nx.cycle_graph(12)
    asked = skerry.Experiment.parse(
        small().model_dump(exclude={"network"}), ["server.sampled=3", "rounds=2"]
    )
    skerry.run(asked, graph=graph, out=tmp_path)
    with pytest.raises(SkerryError, match="was given from Python"):
        composed("network", tmp_path)
    assert composed("labels", tmp_path).axes


def test_figures_fetch_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "cache"))
    experiment = skerry.Experiment.parse({"data": {"dataset": "mnist"}})
    with Store.open(tmp_path) as store:
        facts = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}
        store.begin({experiment.key(): experiment}, **facts)
    with pytest.raises(SkerryError, match="Fetch it first: skerry data fetch mnist"):
        composed("labels", tmp_path)


def test_help_lists_the_kinds_in_words():
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert all(f"{name}: {kind.says}" in said for name, kind in KINDS.items())
