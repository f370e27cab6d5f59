"""The whole of `skerry.advise`, on small fleets."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import networkx as nx
import numpy as np
import pytest
from torch import nn

from skerry.advice.advise import Advice, advise, advise_on
from skerry.advice.pilot import AdviceProgress
from skerry.advice.question import Question, Timer, read_among
from skerry.analysis.run_table import RunTable
from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.records.store import Store
from skerry.report.page.advice_file import FILE
from skerry.runs.executors.here import Here
from skerry.theory.communication import Prices

FIELDS = {"primitive", "beta", "selection", "sampled", "period", "stepsize"}
LONG = 60  # minutes: seeds, not time, end these pilots


def ask(experiment: Experiment, **asked) -> Advice:
    """An advice from a few settings and seeds."""
    few = {"sampled": [5], "periods": [3], "stepsizes": [0.1], "seeds": 2, "minutes": LONG}
    return advise(experiment, **(few | asked))


def exact(*settings: str) -> Experiment:
    """Quadratics with one curvature: the average model under S2S is that of full averaging."""
    table = {
        "rounds": 20,
        "network": {"devices": 8, "components": 2},
        "data": {"dataset": "synthetic", "features": 4, "samples": 160, "scaling": "unit"},
        "model": {"name": "quadratic"},
        "server": {"sampled": 2, "period": 4},
        "training": {"batch": 8, "stepsize": 0.3},
    }
    return Experiment.parse(table, settings)


def test_a_known_winner_wins() -> None:
    """On equal quadratics S2S has no bias and S2A has, so the average model needs no server, and
    S2S is as good as none; S2A is never recommended."""
    asked = {"sampled": [2], "periods": [4], "stepsizes": [0.3], "goal": "global", "seeds": 12}
    advice = ask(exact(), **asked)
    assert advice.recommendation["primitive"] == "none"
    assert advice.answer.none_is_level
    forced = ask(exact(), among="s2s,s2a", **asked)
    assert forced.recommendation["primitive"] == "s2s"
    (s2a,) = [p for p in forced.answer.points if p.entry.candidate.primitive == "s2a"]
    assert s2a.behind.low > 0


def test_whom_to_sample_is_told() -> None:
    """Islands agree inside and differ from each other: one device of each is then as good as all of
    them, and two that may come from the same island are not."""
    experiment = exact().with_settings(
        "network.topology=complete", "server.primitive=s2a", "data.classes=2", "rounds=30"
    )
    asked = {"sampled": [2, 4], "periods": [4], "stepsizes": [0.3], "goal": "global"}
    advice = ask(experiment, among="s2a", seeds=8, **asked)
    assert advice.recommendation["selection"] == "one_each"
    assert advice.recommendation["sampled"] == 2
    told = "\n".join(advice.lines())
    assert "every 4 rounds, ask 1 device of every island and send the average to all" in told


def test_where_no_server_round_comes_all_is_equal(small) -> None:
    """Where all settings are the same run, the advice says so and why."""
    advice = ask(small("server.offset=9"))
    assert advice.verdict == "equal"
    assert "first server round comes after 9 rounds" in advice.equal
    assert advice.confidence is None
    assert str(advice).startswith("All settings do the same")


CLOCKED = ["clock.file=wifi_home"]
FEWER = ["server.sampled_schedule=cosine", "server.sampled_end=2"]


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (["network.components=1"], "one island"),
        (["network.components=12", "data.inter=dirichlet"], "no device has a neighbour"),
        (["network.devices=1", "network.components=1", "server.sampled=1"], "one island"),
        (["rounds=1"], ""),
        (["server.primitive=none"], ""),
        (["server.sampled=12", *FEWER], "K or H follows a schedule"),
    ],
)
def test_extreme_fleets_get_an_answer(small, settings: list[str], note: str) -> None:
    """Extreme fleets are answered like others, with a note on what is special."""
    advice = ask(small(*settings), sampled=None, periods=None)
    assert advice.verdict in ("clear", "unclear")
    assert not note or any(note in line for line in advice.notes)
    json.dumps(advice.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("settings", "asked", "said"),
    [
        (["training.stepsize=1e30"], {"stepsizes": None}, "every run diverged, down to"),
        ([], {"goal": "own"}, "`goal` global"),
        ([], {"goal": "worst_tenth"}, "got `goal` worst_tenth"),
        ([], {"budget": 1, "prices": Prices(d2d=1)}, "messages between devices, which cost 320"),
        ([], {"budget_uploads": 9, "budget": 9}, "Give one of them"),
        (["server.sampled_schedule=double"], {"budget": 99}, "a constant K and H"),
        ([], {"sampled": [9]}, "K must be at most the number of devices"),
        ([], {"periods": [3, 20]}, "H must be below the number of rounds"),
        (["network.devices=900"], {}, "too few"),
        ([*CLOCKED, "server.over_sample=3"], {}, "Leave out server.over_sample, and try it on"),
        ([*CLOCKED, "server.deadline=2"], {}, r"with server.deadline the clock decides .*got 2\)"),
    ],
)
def test_what_cannot_be_answered_is_one_line(settings: list[str], asked: dict, said: str) -> None:
    """Divergence at all stepsizes, a goal that the model lacks, a budget below the links'
    messages, fewer data than devices: each is one line that says what to do."""
    with pytest.raises(SkerryError, match=said) as error:
        ask(exact(*settings), **({"sampled": [2]} | asked))
    assert len(error.value.faults) == 1


def test_a_budget_that_pays_for_no_server_round_has_an_answer(small) -> None:
    """None: no server, at no cost, and nothing else was compared."""
    advice = ask(small(), budget=3)
    assert ask(small(), budget=3, among="s2s,s2a").recommendation == advice.recommendation
    assert advice.recommendation["primitive"] == "none"
    assert advice.verdict == "alone"
    assert "use no server" in advice.lines()[0]
    assert "0 messages of 3 allowed" in advice.lines()[0]


def test_a_stepsize_that_diverges_is_left() -> None:
    """Where the experiment's own stepsize diverges, smaller ones are found; a stop rule, which
    would end every run after its first round, is left out."""
    stop = "stop=train_loss >= 0"
    advice = ask(exact("training.stepsize=30", stop), sampled=[2], stepsizes=None, seeds=4)
    assert advice.entry.stepsize < 10
    assert any("exploded and count as worst" in note for note in advice.notes)
    assert any("stop is left out" in note for note in advice.notes)


def test_a_fixed_plan_gives_the_same_answer(small) -> None:
    """With seeds as the limit and not time, two advices are equal to the last bit."""
    first, second = (ask(small(), periods=[3, 6], seeds=3).to_json() for _ in range(2))
    for advice in (first, second):
        del advice["pilot"]["seconds"]
        del advice["question"]["seconds"]
    assert first == second


def test_the_worst_tenth_can_be_the_goal(small, tmp_path) -> None:
    """Asked for, the worst tenth decides, by what the pilot recorded; else it is not measured."""
    advice = ask(small(), goal="worst_tenth", among="s2s,s2a,uniform", out=tmp_path)
    scored = {}
    with Store.read(tmp_path) as store:
        keys = [run.key for run in store.runs()]
        for run, history in store.histories(keys):
            late = history["round"] > 0.8 * run.experiment.rounds
            worst = history["own_accuracy_worst_tenth"][late].mean()
            if run.experiment.seed in advice.pilot.fresh:
                scored.setdefault(run.experiment.server.primitive, []).append(worst)
    point = advice.answer.recommendation
    assert point.score.mean == pytest.approx(np.mean(scored[point.entry.candidate.primitive]))
    assert "ccuracy of the worst tenth of the devices on their own labels" in str(advice)
    assert set(advice.pilot.scores.goals) == {"global", "own", "both", "worst_tenth"}
    usual = ask(small(), among="s2s,uniform")
    assert "fairness" not in usual.pilot.base.evaluate.measures
    assert set(usual.pilot.scores.goals) == {"global", "own", "both"}


def test_the_answer_is_strict_json(small) -> None:
    """The JSON has what is promised, no NaN, and repeats the question."""
    advice = ask(small(), budget_uploads=40, sampled=[2, 4], seeds=3)
    table = json.loads(json.dumps(advice.to_json(), allow_nan=False))
    assert table["recommendation"].keys() == FIELDS
    promised = "goal question headline points curve statements constants pilot sensitivity notes"
    assert set(promised.split()) <= table.keys()
    question = table["question"]
    assert (question["budget"], question["cost_unit"]) == (40, "uploads")
    assert question["varied"]["sampled"] == [2, 4]
    assert question["fixed"]["H"] == "3"
    assert {effect["basis"] for effect in table["sensitivity"]} == {"pilot", "theory"}
    conditions = " ".join(effect["condition"] for effect in table["sensitivity"])
    for words in ("budget were halved", "budget were doubled", "average model", "one more island"):
        assert words in conditions
    costs = [point["cost"] for point in table["curve"]]
    assert costs == sorted(costs)
    assert costs[0] == 0
    assert max(costs) <= 40
    named = {role for point in table["curve"] for role in point["roles"]}
    assert named == {"recommended", "best", "cheapest", "none"}


def test_the_pilot_is_an_ordinary_store(small, tmp_path) -> None:
    """With `out` the runs can be read as any others, and are not computed twice."""
    first = ask(small(), out=tmp_path)
    assert first.pilot.runs > 0
    labels = RunTable.read(tmp_path).read_measure("own_accuracy").labels
    assert set(labels) >= {"s2s", "s2a", "blend(0.5)", "none"}
    written = json.loads((tmp_path / FILE).read_text())
    assert written["recommendation"] == first.recommendation
    again = ask(small(), out=tmp_path)
    assert again.pilot.runs == 0
    assert again.recommendation == first.recommendation
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "skerry.sqlite"]


def test_faults_leave_no_traces(tmp_path) -> None:
    """An experiment that cannot be built makes no folder."""
    with pytest.raises(SkerryError):
        advise(exact("network.devices=900"), out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_two_advices_share_a_folder(small, tmp_path) -> None:
    """Asked at the same time in one folder, both come to the answer that either has alone: what one
    of them is computing the other waits for."""
    start = Barrier(2)

    class Together(AdviceProgress):
        waited = False

        def doing(self, words: str) -> None:
            if words.startswith("trying") and not self.waited:
                self.waited = True
                start.wait(timeout=60)

    def alone(out=None, progress=None) -> dict:
        advice = ask(small(), out=out, progress=progress).to_json()
        del advice["pilot"]["seconds"]
        del advice["question"]["seconds"]
        del advice["pilot"]["runs"]
        return advice

    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(alone, tmp_path, Together()) for _ in range(2)]
        found = [one.result(timeout=120) for one in asked]
    assert found == [alone(), alone()]
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "skerry.sqlite"]


def test_what_is_broken_off_is_forgotten(small, tmp_path) -> None:
    """After Ctrl-C the folder holds finished runs only, and the same question goes on."""

    class Stop(AdviceProgress):
        stop = False

        def doing(self, words: str) -> None:
            self.stop = words.startswith("confirming")

        def tick(self, task, tick) -> None:
            if self.stop:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(small(), out=tmp_path, progress=Stop())
    with Store.read(tmp_path) as store:
        kept = store.runs()
    assert {run.status for run in kept} == {"finished"}
    again = ask(small(), out=tmp_path)
    assert 0 < again.pilot.runs < again.pilot.scores.runs


def test_costs_are_those_of_whole_runs(small) -> None:
    """No setting that is recommended costs more than the budget, in messages or in bytes."""
    advice = ask(small("rounds=12"), budget=60, sampled=None, periods=None, seeds=2)
    assert 0 <= advice.answer.recommendation.cost <= 60
    by_bytes = ask(small(), budget_bytes=60 * 4 * (6 + 1) * 4, among="none,s2s")
    assert by_bytes.pilot.budget.limit == 60
    assert "MB" in by_bytes.lines()[0]


def test_own_graph_data_and_model() -> None:
    """Users' own graphs, arrays and modules are advised on as built-in ones are."""
    graph = nx.disjoint_union_all([nx.path_graph(2), nx.cycle_graph(3), nx.complete_graph(4)])
    dice = np.random.default_rng(0)
    x, y = dice.normal(size=(180, 5)).astype(np.float32), np.arange(180) % 3
    experiment = Experiment.parse(
        {}, ["rounds=6", "server.sampled=3", "data.inter=iid", "training.batch=4"]
    )
    advice = ask(
        experiment,
        graph=graph,
        dataset=(x, y, x[:60], y[:60]),
        model=lambda problem: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)),
    )
    assert sorted(advice.sizes) == [2, 3, 4]
    assert advice.constants is not None


class FakeClock:
    """Every look at it takes a while."""

    def __init__(self, each: float):
        self.now, self.each = 0.0, each

    def __call__(self) -> float:
        self.now += self.each
        return self.now


def test_time_is_kept(small, tmp_path) -> None:
    """By a clock that ticks with every round, the answer comes in time; more time buys more runs,
    and where there is hardly any, rounds are left out and the answer says so."""
    experiment = small("rounds=40", "data.intra=dirichlet")
    runs = []
    for seconds in (6, 60, 150):
        clock = FakeClock(0.05)
        timer, here = Timer(seconds, clock), Here(device="cpu")
        question = Question(among=read_among("none,s2s,s2a"), seeds=50)
        folder = tmp_path / f"{seconds}"
        advice = advise_on(question, experiment, here, folder, timer, AdviceProgress())
        runs.append(advice.pilot.runs)
        assert len(advice.pilot.fresh) >= 2
        if seconds > 6:
            assert clock.now <= seconds
            assert advice.pilot.base.rounds == 40
        else:
            assert advice.pilot.base.rounds < 40
            assert "for lack of time" in str(advice)
    assert runs == sorted(runs)
