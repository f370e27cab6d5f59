"""The whole of `skerry.advise`, on small fleets."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import networkx as nx
import numpy as np
import pytest
from torch import nn

from skerry.advice.advise import advise, advise_on
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
LONG = 60  # minutes: seeds, not time, end these races


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
    """On equal quadratics S2S has no bias and S2A has, so S2S has the lower loss: the advice is
    S2S, clearly, and it does not need all the seeds it may take."""
    advice = advise(exact(), among="s2s,s2a,uniform", minutes=LONG, seeds=16)
    assert advice.recommendation["primitive"] == "s2s"
    assert advice.verdict == "clear"
    assert advice.expected_gain > 0
    assert advice.interval[0] > 0
    assert len(advice.pilot.seeds) <= 16


def test_whom_to_sample_is_told() -> None:
    """Islands agree inside and differ from each other: one device of each is then as good as all of
    them, and two that may come from the same island are not."""
    experiment = exact().with_settings(
        "network.topology=complete", "server.primitive=s2a", "data.classes=2", "rounds=30"
    )
    advice = advise(experiment, among="s2a", minutes=LONG, seeds=8)
    assert advice.verdict == "clear"
    assert advice.recommendation["selection"] == "per_component"
    (uniform,) = advice.decision.selections
    assert uniform.entry.candidate.selection == "uniform"
    assert uniform.is_clear
    told = "\n".join(advice.lines())
    assert "Recommendation: s2a, sampled by per_component, K = 2" in told
    assert "The cheapest change: keep s2a and sample by per_component, which alone is" in told
    (listed,) = advice.to_json()["goals"]["global"]["selections"]
    assert listed["lane"]["selection"] == "uniform"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["server.sampled=12"], "K = n"),
        (["server.offset=9"], "first server round comes after 9 rounds"),
        (["network.devices=1", "network.components=1", "server.sampled=1"], "K = n"),
    ],
)
def test_equal_primitives_are_called_equal(small, settings: list[str], why: str) -> None:
    """Where all primitives are the same run, the advice says so and why."""
    advice = advise(small(*settings), minutes=LONG, seeds=2)
    assert advice.verdict == "equal"
    assert why in advice.equal
    assert advice.confidence is None
    assert str(advice).startswith("All primitives do the same")


FEWER = ["server.sampled_schedule=cosine", "server.sampled_end=2"]


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (["network.components=1"], "one island"),
        (["server.sampled=1"], "K = 1"),
        (["network.components=12", "data.inter=dirichlet"], "no device has a neighbour"),
        (["rounds=1"], ""),
        (["server.primitive=none"], ""),
        (["server.sampled=12", *FEWER], "no bounds: bounds hold for a K and an H that stay"),
    ],
)
def test_extreme_fleets_get_an_answer(small, settings: list[str], note: str) -> None:
    """Extreme fleets are answered like others, with a note on what is special."""
    advice = advise(small(*settings), minutes=LONG, seeds=2)
    assert advice.verdict in ("clear", "unclear")
    assert not note or any(note in line for line in advice.notes)
    json.dumps(advice.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("settings", "asked", "said"),
    [
        (["training.stepsize=1e30"], {}, "every run diverged, down to"),
        ([], {"goal": "own"}, "`goal` global"),
        ([], {"goal": "worst_tenth"}, "got `goal` worst_tenth"),
        ([], {"budget": 1}, "does not pay for a single server round"),
        (["server.sampled_schedule=double"], {"budget": 99}, "a constant K and H"),
        (["network.devices=900"], {}, "too few"),
    ],
)
def test_what_cannot_be_answered_is_one_line(settings: list[str], asked: dict, said: str) -> None:
    """Divergence at all stepsizes, a goal that the model lacks, a budget below one server
    round, fewer data than devices: each is one line that says what to do."""
    with pytest.raises(SkerryError, match=said) as error:
        advise(exact(*settings), minutes=LONG, seeds=2, **asked)
    assert len(error.value.faults) == 1


def test_a_stepsize_that_diverges_is_left(tmp_path) -> None:
    """Where the experiment's own stepsize diverges, smaller ones are found; a stop rule, which
    would end every run after its first round, is left out."""
    advice = advise(exact("training.stepsize=30", "stop=train_loss >= 0"), minutes=LONG, seeds=2)
    assert advice.best.stepsize < 2
    assert any("diverge" in note for note in advice.notes)
    assert any("stop is left out" in note for note in advice.notes)


def test_a_fixed_plan_gives_the_same_answer(small) -> None:
    """With seeds as the limit and not time, two advices are equal to the last bit."""
    first, second = (advise(small(), minutes=LONG, seeds=3).to_json() for _ in range(2))
    for advice in (first, second):
        del advice["pilot"]["seconds"]
        del advice["summary"]  # it tells how long more seeds would take
    assert first == second


def test_nobody_left_behind_can_be_the_goal(small, tmp_path) -> None:
    """Asked for, the worst tenth decides, by what the pilot recorded; else it costs nothing: the
    pilot's runs are those that they always were."""
    advice = advise(
        small(), goal="worst_tenth", among="s2s,s2a,uniform", minutes=LONG, seeds=2, out=tmp_path
    )
    scored = {}
    with Store.read(tmp_path) as store:
        keys = [run.key for run in store.runs()]
        for run, history in store.histories(keys):
            late = history["round"] > 0.8 * run.experiment.rounds
            worst = history["own_accuracy_worst_tenth"][late].mean()
            server, stepsize = run.experiment.server, run.experiment.training.stepsize
            at = (server.primitive, server.sampled, server.period, stepsize)
            scored.setdefault(at, []).append(worst)
    best = advice.best.candidate
    found = scored[(best.primitive, best.sampled, best.period, advice.best.stepsize)]
    assert advice.decision.score.mean == pytest.approx(np.mean(found))
    assert "ccuracy of the worst tenth of the devices on their own labels" in str(advice)
    assert json.loads((tmp_path / FILE).read_text())["goals"].keys() == {
        "global", "own", "both", "worst_tenth",
    }  # fmt: skip
    usual = advise(small(), among="s2s,s2a,uniform", minutes=LONG, seeds=1)
    assert "fairness" not in usual.pilot.base.evaluate.measures
    assert usual.to_json()["goals"].keys() == {"global", "own", "both"}


def test_the_answer_is_strict_json(small) -> None:
    """The JSON has what is promised, and no NaN."""
    advice = advise(small(), minutes=LONG, seeds=3)
    table = json.loads(json.dumps(advice.to_json(), allow_nan=False))
    assert table["recommendation"].keys() == FIELDS
    promised = "confidence expected_gain interval constants bounds pilot sensitivity notes"
    assert set(promised.split()) <= table.keys()
    assert table["goals"].keys() == {"global", "own", "both"}
    assert {effect["basis"] for effect in table["sensitivity"]} == {"pilot", "theory"}
    low, high = table["interval"]
    assert low <= table["expected_gain"] <= high


def test_the_pilot_is_an_ordinary_store(small, tmp_path) -> None:
    """With `out` the runs can be read as any others, and are not computed twice."""
    first = advise(small(), minutes=LONG, seeds=3, out=tmp_path)
    assert first.pilot.runs > 0
    assert set(RunTable.read(tmp_path).read_measure("own_accuracy").labels) >= {
        "s2s",
        "s2a",
        "blend(0.5)",
    }
    written = json.loads((tmp_path / FILE).read_text())
    assert written["recommendation"] == first.recommendation
    again = advise(small(), minutes=LONG, seeds=3, out=tmp_path)
    assert again.pilot.runs == 0
    assert again.recommendation == first.recommendation
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "skerry.sqlite"]


def test_a_dearer_downlink_is_weighed_over_all_rounds(small) -> None:
    """The pilot looks at its last rounds only, yet who ends early for lack of money is compared
    where it would end; the runs for it are not kept among the pilot's."""
    advice = advise(small("rounds=30"), among="s2s,s2a", minutes=LONG, seeds=2)
    assert advice.pilot.base.evaluate.after == 24
    (told,) = [one for one in advice.sensitivity if "downlink" in one.condition]
    assert told.basis == "pilot"
    assert advice.pilot.runs == sum(map(len, advice.pilot.scores.values.values()))


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
        def doing(self, words: str) -> None:
            if words.startswith("seed 0"):
                start.wait(timeout=60)

    def ask(out=None, progress=None) -> dict:
        advice = advise(small(), minutes=LONG, seeds=2, out=out, progress=progress).to_json()
        del advice["pilot"]["seconds"]
        del advice["pilot"]["runs"]
        del advice["summary"]  # it tells how long more seeds would take
        return advice

    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask, tmp_path, Together()) for _ in range(2)]
        found = [one.result(timeout=120) for one in asked]
    assert found == [ask(), ask()]
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "skerry.sqlite"]


def test_what_is_broken_off_is_forgotten(small, tmp_path) -> None:
    """After Ctrl-C the folder holds finished runs only, and the same question goes on."""

    class Stop(AdviceProgress):
        def doing(self, words: str) -> None:
            self.stop = words.startswith("seed 1")

        def tick(self, task, tick) -> None:
            if self.stop:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        advise(small(), minutes=LONG, seeds=2, out=tmp_path, progress=Stop())
    with Store.read(tmp_path) as store:
        kept = store.runs()
    assert {run.status for run in kept} == {"finished"}
    assert {run.experiment.seed for run in kept} == {0}
    again = advise(small(), minutes=LONG, seeds=2, out=tmp_path)
    assert again.pilot.seeds == [0, 1]


def test_money_buys_rounds(small) -> None:
    """With a budget, K and H are chosen, nobody spends more than it, and the dearer primitive
    stops earlier."""
    advice = advise(small("rounds=12"), budget=60, stepsizes=[0.1], minutes=LONG, seeds=2)
    candidates = {entry.candidate for entry in advice.pilot.scores.values}
    servers = {(c.sampled, c.period) for c in candidates}
    assert len(servers) > 1
    for candidate in candidates:
        assert 0 < advice.cost(candidate) <= 60
    alike = [c for c in candidates if (c.sampled, c.period) == (5, 3)]
    reach = {c.primitive: advice.pilot.budget.reach(c) for c in alike}
    assert reach["s2a"] <= reach["s2s"]


def test_prices_alone_mean_equal_money(small) -> None:
    """Without a budget, everyone gets what the experiment's own setting costs."""
    advice = advise(small(), prices=Prices(downlink=0.5), among="s2s", minutes=LONG, seeds=1)
    own = 3 * 5 * 1.5  # three server rounds, five devices each way
    assert advice.pilot.budget.limit == own
    assert any("no budget" in note for note in advice.notes)


def test_bytes_are_messages_of_the_models_size(small) -> None:
    """A budget in bytes is one in messages, divided by what a message carries."""
    by_bytes = advise(
        small(), budget_bytes=60 * 4 * (6 + 1) * 4, among="s2s", minutes=LONG, seeds=1
    )
    assert by_bytes.pilot.budget.limit == 60


def test_own_graph_data_and_model() -> None:
    """Users' own graphs, arrays and modules are advised on as built-in ones are."""
    graph = nx.disjoint_union_all([nx.path_graph(2), nx.cycle_graph(3), nx.complete_graph(4)])
    dice = np.random.default_rng(0)
    x, y = dice.normal(size=(180, 5)).astype(np.float32), np.arange(180) % 3
    experiment = Experiment.parse(
        {}, ["rounds=6", "server.sampled=3", "data.inter=iid", "training.batch=4"]
    )
    advice = advise(
        experiment,
        graph=graph,
        dataset=(x, y, x[:60], y[:60]),
        model=lambda problem: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)),
        minutes=LONG,
        seeds=2,
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


def spent(experiment: Experiment, seconds: float, tmp_path) -> tuple[float, int, int]:
    clock = FakeClock(0.05)
    question = Question(among=read_among(None), seeds=50)
    timer, here = Timer(seconds, clock), Here(device="cpu")
    folder = tmp_path / f"{seconds}"
    advice = advise_on(question, experiment, here, folder, timer, AdviceProgress())
    return clock.now, len(advice.pilot.seeds), advice.pilot.base.rounds


def test_time_is_kept(small, tmp_path) -> None:
    """By a clock that ticks with every round, the answer comes in time; more time buys more
    seeds, and where there is hardly any, the pilot's rounds are cut and said so."""
    experiment = small("rounds=40", "data.intra=dirichlet")
    seeds = []
    for seconds in (15, 40):
        now, count, rounds = spent(experiment, seconds, tmp_path)
        assert now <= seconds
        assert rounds == 40
        seeds.append(count)
    assert seeds[0] < seeds[1]
    _, _, rounds = spent(experiment, 5, tmp_path)
    assert rounds < 40
