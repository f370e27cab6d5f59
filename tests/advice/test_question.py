"""Questions that may be asked, and the costs of candidates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.advice.pilot import stride
from skerry.advice.question import BETAS, Among, Question, read_among, read_prices
from skerry.advice.settings import (
    NO_SERVER,
    Budget,
    Candidate,
    Entry,
    budget_of,
    nearby,
    space_of,
)
from skerry.config.experiment import Experiment
from skerry.config.fields import Server
from skerry.config.presets import PRESETS
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.measure.ledger import Ledger
from skerry.plugins import registry
from skerry.theory.communication import ONE_EACH, Prices


def test_blend_stands_for_several_betas() -> None:
    """`blend` without a beta means the usual ones; with one, that one; doubles count once."""
    assert read_among("s2s, blend").primitives == (
        ("s2s", None),
        *(("blend", beta) for beta in BETAS),
    )
    assert read_among("blend:0.3,s2a,s2a").primitives == (("blend", 0.3), ("s2a", None))


@pytest.mark.parametrize(
    ("among", "own", "sizes", "tried"),
    [
        ("s2s", "uniform", (4, 8), ("uniform", "one_each")),
        ("s2s", "one_each", (6, 6), ("one_each",)),
        ("s2s", "round_robin", (12,), ("round_robin",)),
        ("s2s", "uniform", (1, 1, 1), ("uniform",)),
        ("s2s,one_each,uniform", "round_robin", (4, 8), ("one_each", "uniform")),
    ],
)
def test_a_rule_that_samples_every_island_is_tried(among, own, sizes, tried) -> None:
    """Beside the experiment's own rule, where there are several islands with links."""
    assert read_among(among).selections_for(Server(selection=own), sizes) == tried


def space(*settings: str, sizes=(4, 8), limit=None, **asked):
    experiment = Experiment.parse(
        {}, [f"network.devices={sum(sizes)}", "server.sampled=4", *settings]
    )
    asked.setdefault("among", read_among(None))
    question = Question(limit=limit, **asked)
    budget = Budget(question.prices, sum(sizes), 0, 0, experiment.rounds, limit)
    return space_of(question, experiment, budget, sizes)


def test_every_space_has_no_server_and_the_experiments_own_setting() -> None:
    """`none` is always run; K, H and the stepsize of the experiment are among the values."""
    found = space("server.sampled=5", "server.period=7", "training.stepsize=0.2")
    entries = found.entries
    assert Entry(NO_SERVER, 0.2) in entries
    assert Entry(Candidate("s2a", None, 5, 7, "uniform"), 0.2) in entries
    one_each = {e.candidate.sampled for e in entries if e.candidate.selection == "one_each"}
    assert one_each == {2, 4, 8}  # as many from every island
    assert len(entries) == len(set(entries))


def test_values_that_are_asked_for_are_not_extended() -> None:
    found = space(sampled=(4,), periods=(5, 10), stepsizes=(0.1,), among=read_among("s2a"))
    assert found.describe()["period"] == [5, 10]
    assert all(found.extended(axis, up) is None for axis in found.values for up in (True, False))
    with pytest.raises(SkerryError, match="K must be at most the number of devices"):
        space(sampled=(40,))


def test_ranges_are_extended_to_their_natural_ends() -> None:
    """K up to n and down to 1, H below the number of rounds, each a few times at most."""
    found = space("rounds=30", "server.sampled=4")
    for axis in ("sampled", "period", "stepsize"):
        for upper in (True, False):
            while (wider := found.extended(axis, upper)) is not None:
                assert len(wider.values[axis]) == len(found.values[axis]) + 1
                found = wider
    assert found.values["sampled"][0] == 1
    assert found.values["sampled"][-1] == 12
    assert found.values["period"][0] == 1
    assert found.values["period"][-1] == 29


def test_rare_server_rounds_are_tried_where_a_budget_pays_for_no_others() -> None:
    """With 100 rounds and 6 uploads, the usual periods are too frequent."""
    tight = space(sizes=(6, 6), limit=6, prices=Prices(downlink=0.0))
    affordable = [e for e in tight.entries if tight.budget.allows(e.candidate)]
    assert any(entry.candidate.has_server for entry in affordable)
    none = space(sizes=(6, 6), limit=0, prices=Prices(downlink=0.0))
    affordable = [e for e in none.entries if none.budget.allows(e.candidate)]
    assert affordable
    assert not any(entry.candidate.has_server for entry in affordable)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("s3s", "did you mean"),
        ("s2s:0.5", "only blend"),
        ("blend:2", "from 0"),
        ("blend:1", "which is s2a"),
        ("", "unkn"),
    ],
)
def test_bad_names(names: str, said: str) -> None:
    """What is no primitive is told in one line."""
    with pytest.raises(SkerryError, match=said):
        read_among(names)


def test_prices() -> None:
    """Links that are not named keep their usual price."""
    assert read_prices("down=.2, broadcast=3") == Prices(downlink=0.2, broadcast=3.0)
    for text, said in (("sideways=1", "unknown link"), ("up=a", "number"), ("up=-1", "at least 0")):
        with pytest.raises(SkerryError, match=said):
            read_prices(text)


@pytest.mark.parametrize(
    "faulty",
    [
        {"goal": "speed"},
        {"minutes": 0},
        {"minutes": float("nan")},
        {"seeds": 1},
        {"limit": -1},
        {"limit": 5, "bytes": 5},
        {"stepsizes": (0.1, 0.0)},
        {"sampled": (0,)},
    ],
)
def test_bad_questions(faulty: dict) -> None:
    """A question that cannot be answered is refused before anything is computed."""
    with pytest.raises(SkerryError):
        Question(**faulty)


@pytest.mark.parametrize("primitive", ["s2s", "s2a", "blend", "none"])
def test_costs_are_those_of_a_run(small, primitive: str) -> None:
    """What a run is said to cost is what it sends."""
    experiment = small(f"server.primitive={primitive}", "server.offset=1")
    stack = build_stack(build_world(experiment), [experiment])
    ledger = Ledger()
    for moment in simulate(stack):
        if moment.phase == "end":
            ledger.add_round(moment.stack, moment.server_rounds, moment.round - 1)
    sent = sum(ledger.totals[stack.keys[0]])
    links = stack.world.fleet.links(0)
    budget = Budget(Prices(d2d=1), 12, links, offset=1, rounds=experiment.rounds)
    beta = 0.5 if primitive == "blend" else None
    server = experiment.server
    candidate = Candidate(primitive, beta, server.sampled, server.period)
    assert budget.cost(candidate) == sent


METHODS = [name for name in PRESETS if name in registry.METHODS]


@pytest.mark.parametrize("preset", [*METHODS, "gradient_tracking_s2s", "fedavg", "gossip_pga"])
def test_what_presets_cost_is_what_they_send(small, preset: str) -> None:
    """Among them all methods: each with its own links, and what it sends beside models."""
    experiment = small("server.sampled=4")
    world = build_world(experiment)
    budget = budget_of(
        Question(among=Among(presets=(preset,)), prices=Prices(d2d=1)), experiment, world
    )
    (candidate,) = preset_candidates([preset], (4,), (3,), "uniform", experiment)
    run = Entry(candidate, 0.1).run(experiment, seed=3)
    assert (run.seed, run.training.stepsize, run.server.name) == (3, 0.1, preset)
    assert run.server.sampled == candidate.sampled
    stack = build_stack(build_world(run), [run])
    ledger = Ledger()
    for moment in simulate(stack):
        if moment.phase == "end":
            ledger.add_round(moment.stack, moment.server_rounds, moment.round - 1)
    assert budget.cost(candidate) == sum(ledger.totals[stack.keys[0]])


def test_presets_are_named_beside_primitives_and_rules() -> None:
    among = read_among("s2a, carry,one_each,gradient_tracking")
    assert among == Among((("s2a", None),), ("one_each",), ("carry", "gradient_tracking"))
    assert read_among(["carry"]).primitives == ()
    experiment = Experiment.parse({}, ["network.devices=12", "server.sampled=4"])
    found = [
        (c.name, c.primitive, c.sampled, c.selection)
        for name in ("mtgc", "sd_gt", "carry")
        for c in preset_candidates([name], (4,), (5,), "uniform,one_each", experiment)
    ]
    assert found == [
        ("mtgc", "s2a", 12, "uniform"),
        ("sd_gt", "s2s", 4, "one_each"),
        ("carry", "s2s", 4, "uniform"),
        ("carry", "s2s", 4, "one_each"),
    ]
    assert "preset" not in Candidate("s2a", None, 4, 5).fields()
    with pytest.raises(SkerryError, match="'dsgd' has no server"):
        preset_candidates(["dsgd"], (4,), (5,), "uniform", experiment)


def preset_candidates(presets, sampled, periods, rules, experiment) -> list[Candidate]:
    """The settings of presets in a space of these values."""
    among = Among(selections=tuple(rules.split(",")), presets=tuple(presets))
    question = Question(among=among, sampled=sampled, periods=periods, stepsizes=(0.1,))
    sizes = experiment.network.sizes
    budget = Budget(ONE_EACH, sum(sizes), 0, 0, experiment.rounds)
    entries = space_of(question, experiment, budget, sizes).entries
    return [entry.candidate for entry in entries if entry.candidate.preset]


def test_a_shorter_run_has_its_part_of_the_money() -> None:
    """Half of the rounds have half of the budget; without one, there is nothing to share."""
    budget = Budget(ONE_EACH, 10, 0, 0, rounds=60, limit=100)
    assert budget.for_rounds(30).limit == 50
    assert Budget(ONE_EACH, 10, 0, 0, rounds=60).for_rounds(30).limit is None


@given(
    window=st.integers(0, 500),
    looks=st.integers(1, 5),
    periods=st.lists(st.integers(1, 40), min_size=1, max_size=3),
)
def test_evaluations_see_every_phase(window: int, looks: int, periods: list[int]) -> None:
    """Evaluations visit all rounds of a period in turn, whatever the period is."""
    step = stride(window, looks, periods)
    assert step == 1 or looks * step <= window
    for period in periods:
        assert len({(i * step) % period for i in range(period)}) == period


def test_neighbours_stay_inside() -> None:
    """K goes neither below one nor above n, H not below one, and nothing is its own neighbour."""
    for K, H in ((1, 1), (10, 1), (4, 5)):
        for _, sampled, period in nearby(10, K, H):
            assert 1 <= sampled <= 10
            assert period >= 1
            assert (sampled, period) != (K, H)
