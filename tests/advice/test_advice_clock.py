"""Advice in seconds and joules: costs, targets, and answers under another clock."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import skerry
from conftest import small
from skerry.advice.advise import Advice, advise
from skerry.advice.fleet_clock import FleetClock, changed_clocks
from skerry.advice.question import Question, read_budget, read_goal_and_target, special_cases
from skerry.advice.screen import curve_sheet
from skerry.advice.settings import NO_SERVER, Budget, Candidate, Entry, write_cost
from skerry.advice.target import CostUnit
from skerry.analysis.run_table import RunTable
from skerry.clock.settings import Clock, read_clock
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.records.store import FILE
from skerry.report.page.advice_file import read_advice
from skerry.theory.communication import ONE_EACH

CLOCK = {
    "compute": {"seconds_per_step": .05, "spread": 0.4, "jitter": 0.1, "watts": 4, "idle_watts": 2},
    "d2d": {"bandwidth": "100 kB/s", "latency": "5 ms", "joules_per_byte": 1e-4},
    "uplink": {"bandwidth": "2 kB/s", "latency": "200 ms", "joules_per_byte": 1e-4},
    "downlink": {"bandwidth": "20 kB/s", "latency": "60 ms", "joules_per_byte": 1e-4},
    "server": {"bandwidth_out": "40 kB/s"},
}  # fmt: skip
FEW = {"sampled": [2, 6], "periods": [2, 6], "stepsizes": [0.3], "minutes": 60}


@pytest.mark.parametrize(
    ("settings", "candidate"),
    [
        ([], NO_SERVER),
        (["network.link_failure=0.3", "network.gossip_steps=2"], Candidate("s2s", None, 4, 2)),
        (["availability.awake=0.7", "server.offset=1"], Candidate("blend", 0.5, 3, 2)),
        (["training.local_epochs=1", "data.intra=dirichlet"], Candidate("s2a", None, 4, 3)),
        (["network.compression=int8"], Candidate("s2a", None, 4, 3, "one_each")),
        (
            ["server.sampled_schedule=cosine", "server.sampled_end=1"],
            Candidate("s2s", None, 8, 1),
        ),
        ([], Candidate("s2s", None, 4, 3, "uniform", "carry")),
        ([], Candidate("s2a", None, 4, 3, "uniform", "fedavg")),
    ],
)
def test_costs_are_those_of_real_runs(settings, candidate, tmp_path) -> None:
    """What a setting costs by the clock is what `skerry.load` tells of its run, in every round and
    on another seed, whatever changes the times, also where rounds are left out."""
    experiment, asked, seed = small(*settings), small(*settings, "rounds=11"), 1
    longer = FleetClock(read_clock(CLOCK), asked, build_world(asked), build_world)
    budget = Budget(ONE_EACH, 12, 0, 0, 11, clock=longer, unit="seconds").for_rounds(7)
    clock = budget.clock
    assert clock is not None
    skerry.run(Entry(candidate, 0.1).run(experiment, seed), out=tmp_path)
    found = skerry.load(tmp_path, clock=CLOCK)
    for unit in ("seconds", "joules"):
        told = [clock.spent(candidate, seed, t, unit) for t in found["round"]]
        assert told == pytest.approx(found[unit].tolist(), rel=1e-12)
        assert told[-1] > 0
    if not settings and candidate == NO_SERVER:
        mean = np.mean([clock.spent(NO_SERVER, s, 7, "seconds") for s in (0, 1, 2)])
        assert clock.cost(NO_SERVER, 7, "seconds") == pytest.approx(mean)


@pytest.fixture(scope="module")
def soonest(tmp_path_factory) -> tuple[Advice, "object"]:
    """Advice on when a fleet reaches 88 %, with its records."""
    out = tmp_path_factory.mktemp("soonest")
    advice = advise(
        small("rounds=30", "model.name=mlp"),
        goal="global 88% soonest",
        clock=CLOCK,
        among="s2s,s2a,uniform",
        seeds=4,
        out=out,
        **FEW,
    )
    return advice, out


def until(out, clock, target: float = 88.0) -> dict[tuple, dict[int, float]]:
    """By setting and seed, the seconds at the first round at or past the target; inf: never."""
    found: dict[tuple, dict[int, float]] = {}
    table = RunTable.read(out).priced(clock)
    for run in table.runs:
        server, history = run.experiment.server, table.histories[run.key]
        seconds = history["seconds"][history["average_accuracy"] >= target]
        name = (server.primitive, server.sampled, server.period) if server.is_there else ("none",)
        by_seed = found.setdefault(name, {})
        by_seed[run.experiment.seed] = seconds[0] if len(seconds) else math.inf
    return found


def setting(entry: Entry) -> tuple:
    c = entry.candidate
    return (c.primitive, c.sampled, c.period) if c.has_server else (c.primitive,)


def test_the_soonest_setting_is_that_of_brute_force(soonest) -> None:
    """Of all settings that were tried, priced from their records, the recommended one has the least
    mean logarithm of seconds, where never counts as 100 times the longest; what is printed are the
    means on fresh seeds."""
    advice, out = soonest
    by_setting, fresh = until(out, CLOCK), advice.pilot.fresh
    assert len(by_setting) == 9
    spent = [one for found in by_setting.values() for one in found.values()]
    never = 100 * max(one for one in spent if math.isfinite(one))
    served = {name: found for name, found in by_setting.items() if name != ("none",)}
    mean = {n: np.log([min(t, never) for t in f.values()]).mean() for n, f in served.items()}
    chosen = setting(advice.entry)
    assert chosen == min(mean, key=mean.__getitem__)
    for point in advice.answer.points:
        times = [by_setting[setting(point.entry)][seed] for seed in fresh]
        reached = [one for one in times if math.isfinite(one)]
        assert point.always == (len(reached) == len(fresh))
        assert point.score.count == len(reached)
        assert point.score.mean == pytest.approx(np.mean(reached))
        if point.apart is not None and point.apart.count:
            ahead = [by_setting[chosen][seed] for seed in fresh]
            pairs = np.array([(a, b) for a, b in zip(ahead, times, strict=True) if a + b < never])
            later = np.log(pairs[:, 1] / pairs[:, 0]).mean()
            assert point.apart.mean == pytest.approx(100 * math.expm1(later))
    told = write_cost("seconds", advice.answer.recommendation.score.mean).split()[0]
    assert f"\nReaches 88 % after {told} " in str(advice)


def test_another_clock_is_answered_from_the_same_runs(soonest) -> None:
    """Under another clock the time of the recommended setting is that of pricing the records under
    it, on the fresh seeds of the answer, so that a slower link is never sooner; another setting is
    named if those runs are expected to be sooner by more than the tolerance."""
    advice, out = soonest
    broadcasts = changed_clocks(Clock.parse({"downlink": {"broadcast": 5}, "devices": "a.csv"}))
    assert list(broadcasts) == ["the server could not broadcast"]
    clocks = changed_clocks(read_clock(CLOCK))
    assert clocks["the uplink were twice as slow"].uplink.latency == 0.4
    assert clocks["the uplink were twice as slow"].uplink.bandwidth == 1000
    told = {one.condition: one for one in advice.sensitivity}
    for words, changed in clocks.items():
        effect = told[f"if {words}"]
        by_setting = until(out, changed)
        times = by_setting[setting(advice.entry)]
        mean = np.mean([times[s] for s in advice.pilot.fresh if math.isfinite(times[s])])
        assert effect.answer.endswith(f"88 % after {write_cost('seconds', mean)}")
        if "broadcast" not in words:
            assert mean >= advice.answer.best.score.mean
        assert effect.changes != effect.answer.startswith(f"still {advice.entry.candidate.label}: ")
        if effect.changes:
            (then,) = [e for e in advice.pilot.scores.values if effect.answer.startswith(e.label)]
            pairs = [(t, times[s]) for s, t in by_setting[setting(then)].items() if s in times]
            log = np.log([pair for pair in pairs if math.isfinite(sum(pair))]).mean(axis=0)
            assert log[0] < log[1] - 0.05


def test_a_column_has_one_unit(soonest) -> None:
    """Cells are plain numbers, and the header has their unit."""
    advice, _ = soonest
    slow = replace(advice.answer.none, cost=300.0)
    sheet = curve_sheet(replace(advice, answer=replace(advice.answer, points=(slow,))))
    assert sheet.header[6:8] == ("time (min) of\nall rounds", "seconds\nuntil 88 %")
    assert sheet.rows[0][6] == "5.00"
    for point, row in zip(advice.answer.points, curve_sheet(advice).rows, strict=True):
        assert float(row[6]) == pytest.approx(point.cost, abs=0.05)
        assert point.never or float(row[7].split()[0]) == pytest.approx(point.score.mean, abs=0.05)


def test_notes_on_what_a_clock_counts() -> None:
    """Schedules and compression are counted by the clock, except what devices send to catch up."""

    def notes(*settings: str, cost: CostUnit = "seconds") -> str:
        question, experiment = Question(clock=read_clock(CLOCK), cost=cost), small(*settings)
        return "; ".join(special_cases(question, experiment, build_world(experiment)))

    cosine = "server.sampled_schedule=cosine", "server.sampled_end=1"
    assert "neither was varied" in notes(*cosine)
    assert "first value" not in notes(*cosine)
    assert "first value" in notes(*cosine, cost="messages")
    assert notes("network.compression=int8") == ""
    for changing in ("network.link_failure=0.3", "availability.awake=0.7"):
        assert notes("network.compression=int8", changing).startswith("links are compressed and")
        assert notes(changing) == ""


def test_clocks_are_in_the_json(soonest) -> None:
    """advice.json has the clock and the costs of every point in seconds and joules, and the page
    reads it."""
    advice, out = soonest
    table = read_advice([out / FILE])
    assert table is not None
    asked = table["question"]
    assert Clock.parse(asked["clock"]) == read_clock(CLOCK)
    assert asked["cost_unit"] == "seconds"
    assert asked["target"]["value"] == 88
    for point, told in zip(advice.answer.points, table["confirmed"], strict=True):
        cost = advice.pilot.budget.clock.cost(point.entry.candidate, 30, "joules")
        assert told["joules"] == pytest.approx(cost)
        assert told["seconds"] == pytest.approx(told["cost"]) == pytest.approx(point.cost)
        assert told["never"] == point.never
    assert json.loads(json.dumps(advice.to_json(), allow_nan=False))["verdict"] == advice.verdict


def test_budgets_and_targets_beyond_reach() -> None:
    """A budget in seconds is kept, in the same words; a target that no setting reaches is answered
    with the best score; and joules may be the cost without a budget."""
    few = FEW | {"clock": CLOCK, "among": "none,s2s,uniform", "seeds": 2, "sampled": [2]}
    none = advise(small(), budget_seconds="3 s", **few)
    assert none.pilot.budget.limit == 3
    assert none.answer.recommendation.cost <= 3
    assert "s of 3 s allowed" in none.lines()[0]
    conditions = " ".join(one.condition for one in none.sensitivity)
    assert "the server could broadcast" in conditions
    assert "a download cost" not in conditions
    never = advise(small(), goal="own 100% with fewest joules", **few)
    assert never.verdict == "never"
    assert never.lines()[0].startswith("Never: no setting that was tried reaches 100 %")
    assert "its best score is" in never.lines()[1]
    nearest = never.answer.recommendation
    assert nearest.top.mean == max(point.top.mean for point in never.answer.points)
    json.dumps(never.to_json(), allow_nan=False)
    joules = advise(small(), cost="joules", **few)
    assert joules.question.cost_unit == "joules"
    assert joules.answer.none.cost == joules.pilot.budget.clock.cost(NO_SERVER, 7, "joules")


@pytest.mark.parametrize(
    ("text", "goal", "value", "unit"),
    [
        ("88% soonest", "both", 88, "seconds"),
        ("own 88 % accuracy soonest", "own", 88, "seconds"),
        ("worst_tenth 0.3 with fewest joules", "worst_tenth", 0.3, "joules"),
    ],
)
def test_goals_with_a_target(text: str, goal: str, value: float, unit: str) -> None:
    name, target = read_goal_and_target(text)
    assert target is not None
    assert (name, target.value, target.unit) == (goal, value, unit)
    assert read_goal_and_target("global") == ("global", None)
    assert read_budget("joules", "3 kJ") == 3000
    assert read_budget("seconds", "2 h") == 7200


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"goal": "88% soonest", "clock": None}, "the goal '88% soonest' needs a clock"),
        ({"budget_seconds": 9, "clock": None}, "a budget of seconds needs a clock"),
        ({"cost": "joules", "clock": None}, "`cost` joules needs a clock"),
        ({"goal": "much soonest"}, "the target of a goal must be a score such as '88% soonest'"),
        ({"goal": "0.3 soonest"}, "judged by an accuracy, so a target is a percentage"),
        ({"goal": "88% sonest"}, "did you mean '88% soonest'"),
        ({"budget_seconds": "2 weeks"}, "a budget of seconds has the unknown unit 'weeks'"),
        ({"budget_seconds": 0.1}, "the budget of 0.1 s does not pay for 7 rounds without a server"),
        ({"budget_seconds": 9, "budget_joules": 9}, "got seconds and joules"),
        ({"budget_seconds": 9, "cost": "joules"}, "must be that of the budget"),
        ({"cost": "hours"}, "unknown cost 'hours'"),
        ({"clock": "wify_home"}, "did you mean 'wifi_home'"),
        ({"clock": {}, "budget_joules": 5}, "the clock has no energies"),
        ({"among": "s2a,importance"}, "`clock` cannot tell how long s2a, importance"),
        ({"clock": {"compute": {"slow": {"porch": 4.0}}}}, "names the device 'porch'"),
    ],
)
def test_what_cannot_be_asked_of_a_clock_is_one_line(asked: dict, said: str) -> None:
    with pytest.raises(SkerryError, match=said) as error:
        advise(small(), **({"clock": CLOCK, "seeds": 2} | FEW | asked))
    assert len(error.value.faults) == 1
