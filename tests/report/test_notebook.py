"""In a notebook: tables, pictures, progress, and what is kept on request."""

import pickle
import sys
from html import escape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

import skerry
from conftest import small
from skerry.analysis.results import Results
from skerry.errors import SkerryError
from skerry.report import notebook
from skerry.report.figure_kinds import KINDS
from skerry.runs.executors.here import Here
from skerry.runs.progress import ProgressGroup
from skerry.theory import Parameters, best_blend, bound


@pytest.fixture(scope="module")
def results():
    asked = [small(f"server.period={period}") for period in (2, 3)]
    return skerry.run(asked, compare=["s2s", "s2a"], seeds=2, keep_models=True, keep_devices=True)


# Looks


def test_results_are_a_table_as_on_the_screen(results):
    one = Results(tuple(lane for lane in results if lane.experiment.server.period == 2))
    html = one._repr_html_()
    assert html.count("<tr>") == 3  # a heading, s2s, s2a
    assert "12 devices on 2 rings of 6" in html
    assert "Best for the average model" in html
    assert repr(results) == (
        "<Results: 8 lanes, s2s · period 2, s2a · period 2, s2s · period 3, s2a · period 3, "
        "seeds: 2>"
    )
    assert "no lanes" in Results(())._repr_html_()


def test_a_summary_shows_what_fits_and_has_everything(results, monkeypatch):
    """Without arguments, the first measures fit on a line, and a sentence names the way to the
    others, all of which the frame has. It pickles as a plain frame; a changed one is shown
    whole."""
    found = results.summary()
    *rows, told = str(found).splitlines()
    assert rows[0].split()[:3] == ["average_accuracy", "device_accuracy", "own_accuracy"]
    assert 80 < len(rows[0]) <= 100
    assert len(rows) == 5
    shown, names = len(rows[0].split()), len(results.measures)
    assert told.startswith(f"{names - shown} more measures, such as results.summary('")
    assert told.split("'")[1] in results.measures
    assert escape(told) in found._repr_html_()
    assert set(found.columns) == {f"{m}{end}" for m in results.measures for end in ("", " ±")}
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert type(again) is pd.DataFrame
    pd.testing.assert_frame_equal(again, pd.DataFrame(found))
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    assert len(str(found).splitlines()[0]) <= 60
    found["mine"] = 1.0
    assert "mine" in str(found)
    assert "mine" in found._repr_html_()


def test_completion_lists_public_names(results):
    """What follows a dot: fields and methods of Skerry, options of the functions that are named,
    nothing private and nothing of pydantic; keys of tables of names."""
    experiment = skerry.Experiment(model={"name": "mlp", "hidden": 5})
    listed = {name for name in dir(experiment) if not name.startswith("__")}
    assert {"server", "rounds", "replace", "with_settings", "load"} <= listed
    assert not [name for name in listed if name[0] == "_" or hasattr(BaseModel, name)]
    assert [n for n in dir(experiment.model) if n[0] != "_"] == [
        "hidden",
        "name",
        "private",
        "weights",
    ]
    assert {"sampled", "period", "label"} <= {*dir(experiment.server)}
    assert {"summary", "plot", "of"} <= {*dir(results)}
    assert {"run", "Experiment", "theory"} <= {*dir(skerry)}
    assert not [name for name in dir(skerry) if name[0] == "_" and name != "__version__"]
    assert "fedavg" in skerry.PRESETS._ipython_key_completions_()


def test_a_lane_tells_its_last_values(results):
    lane = results[0]
    assert repr(lane).startswith("<Lane: s2s · period 2, seed 0, finished, average_accuracy ")
    assert lane._repr_html_().count("<tr>") == len(lane.final) + 1


def test_an_experiment_tells_what_is_not_as_usual():
    experiment = skerry.Experiment(rounds=7, server=skerry.Server(period=2))
    assert repr(experiment) == "Experiment(rounds=7, server=Server(period=2))"
    assert repr(skerry.Experiment()) == "Experiment()"
    html = experiment._repr_html_()
    assert html.count("<tr>") == 3  # a heading, rounds, server.period
    assert "server.period" in html


def test_text_of_others_is_no_html():
    html = skerry.Experiment(name="<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html


def test_bounds_and_certificates():
    numbers = Parameters(100, 2, 20, 5, 0.5, 0.1, 0.1, 0.01, 1, 1, 0.1)
    found = bound(numbers, "s2s", "order", convex=True)
    assert repr(found).startswith("<Bound: ")
    assert repr(found).endswith(" rounds, s2s, order>")
    assert "<td" in found._repr_html_()
    certificate = best_blend(numbers, convex=True)
    assert repr(certificate).startswith("<Certificate: ")
    assert "Assumed:" in certificate._repr_html_()


# Pictures


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_every_figure_can_be_drawn(results, kind, tmp_path):
    picture = results.plot(kind, **({"clock": {}} if kind == "timeline" else {}))
    assert picture._repr_png_().startswith(b"\x89PNG")
    if kind == "curves":
        assert picture.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_figures_take_what_the_command_takes(results):
    picture = results.plot("curves", measure="own_accuracy,disagreement", where="period=2")
    assert len(picture.figure.axes) == 2
    clock = {"compute": {"seconds_per_step": 2.0}}
    timed = results.plot("curves", over="seconds", clock=clock, where="period=2")
    assert timed.figure.axes[0].get_lines()[0].get_xdata().tolist() == [2.0 * t for t in range(8)]
    with pytest.raises(
        SkerryError, match=r"a curves figure has no option rows\. Its options: measure"
    ):
        results.plot("curves", rows="period")
    with pytest.raises(SkerryError, match="unknown figure 'curvs'; did you mean 'curves'"):
        results.plot("curvs")
    with pytest.raises(SkerryError, match="Name a kind: curves"):
        results.plot(measure="own_accuracy")


# What is kept


def test_models_and_devices_on_request(results):
    lane = results.of("s2a")[0]
    assert lane.models.shape[0] == 12
    assert lane.models.dtype == np.float32
    away = lane.models - lane.models.mean(axis=0)
    assert (away**2).sum() / 12 == pytest.approx(lane.final["disagreement"], rel=1e-3)
    assert lane.devices["own_accuracy"].mean() == pytest.approx(lane.final["own_accuracy"])


def test_without_a_request_a_line_tells_how():
    (lane,) = skerry.run(small("rounds=1"))
    with pytest.raises(SkerryError, match=r"skerry\.run\(\.\.\., keep_models=True\)"):
        _ = lane.models
    with pytest.raises(SkerryError, match="keep_devices=True"):
        _ = lane.devices
    with pytest.raises(SkerryError, match="models stay where they are computed"):
        skerry.run(small("rounds=1"), keep_models=True, workers=2)


# Progress


class Counting(skerry.Progress):
    def __init__(self):
        self.rounds, self.done = [], 0

    def moment(self, moment):
        if moment.phase == "end":
            self.rounds.append(moment.round)

    def stack_done(self, task, finals):
        self.done += len(finals)


def test_a_watcher_hears_of_it():
    watcher, other = Counting(), Counting()
    skerry.run(small("rounds=3"), compare=["s2s", "s2a"], progress=ProgressGroup(watcher, other))
    assert watcher.rounds == other.rounds == [1, 2, 3]
    assert watcher.done == other.done == 2


def test_nothing_is_shown_where_nobody_looks(capfd):
    skerry.run(small("rounds=1"))
    assert capfd.readouterr() == ("", "")


class Terminal:
    """A stderr that somebody looks at."""

    def __init__(self):
        self.written = ""

    def write(self, text):
        self.written += text

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.mark.parametrize(("progress", "is_shown"), [(None, True), (True, True), (False, False)])
def test_a_terminal_has_bars(monkeypatch, progress, is_shown):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    skerry.run(small("rounds=2"), progress=progress)
    assert ("1 of 1 runs" in terminal.written) == is_shown
    assert ("building the data" in terminal.written) == is_shown


def test_a_log_says_at_once_what_is_done(capfd, monkeypatch):
    """`progress=True` prints its first line before the data are built, also for an advice."""
    monkeypatch.delattr(Here, "world")
    for work in (skerry.run, skerry.advise):
        with pytest.raises(AttributeError):
            work(small("rounds=1"), progress=True)
        assert capfd.readouterr().err.startswith("building the ")


def test_a_notebook_has_a_bar(monkeypatch):
    drawn = []
    handle = SimpleNamespace(update=drawn.append)

    def display(text, display_id):
        drawn.append(text)
        return handle

    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    ipython = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setattr(notebook, "import_module", lambda name: ipython)
    monkeypatch.setattr(notebook, "SHOW_SECONDS", 0.0)
    skerry.run(small("rounds=2"))
    assert "<progress" in drawn[0]
    assert "building the data" in drawn[0]
    assert "1 of 1 runs" in "".join(drawn)
    assert drawn[-1] == ""  # gone when all is done
