"""Questions that may be asked, and the costs of candidates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.advice.candidates import (
    Budget,
    Candidate,
    Entry,
    budget_of,
    candidates,
    nearby,
    preset_candidates,
)
from skerry.advice.pilot import stride
from skerry.advice.question import BETAS, Among, Question, read_among, read_prices
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
    ("among", "own", "K", "sizes", "tried"),
    [
        ("s2s", "uniform", 4, (6, 6), ("uniform", "per_component")),
        ("s2s", "one_each", 4, (6, 6), ("one_each",)),
        ("s2s", "uniform", 5, (6, 6), ("uniform", "per_component", "one_each")),
        ("s2s", "uniform", 4, (4, 8), ("uniform", "per_component", "one_each")),
        ("s2s", "round_robin", 4, (12,), ("round_robin",)),
        ("s2s,one_each,uniform", "round_robin", 4, (4, 8), ("one_each", "uniform")),
    ],
)
def test_rules_that_meet_every_island_are_tried(among, own, K, sizes, tried) -> None:
    """Beside the experiment's own, each once: on equal islands two of them are the same."""
    server = Server(selection=own, sampled=K)
    assert read_among(among).selections_for(server, sizes) == tried


def test_selections_alone_leave_the_usual_primitives() -> None:
    assert read_among("one_each").primitives == read_among(None).primitives
    kept = candidates(read_among("s2s").primitives, [(5, 5), (6, 5)], ["one_each"], sizes=(2, 2, 2))
    assert [candidate.sampled for candidate in kept] == [6]  # as many from every island


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
        {"seeds": 0},
        {"messages": -1},
        {"messages": 5, "bytes": 5},
        {"stepsizes": (0.1, 0.0)},
    ],
)
def test_bad_questions(faulty: dict) -> None:
    """A question that cannot be answered is refused before anything is computed."""
    with pytest.raises(SkerryError):
        Question(**faulty)


@given(
    period=st.integers(1, 12),
    offset=st.integers(0, 5),
    limit=st.floats(1, 500),
    primitive=st.sampled_from(["s2s", "s2a"]),
)
def test_a_budget_reaches_as_far_as_it_pays(
    period: int, offset: int, limit: float, primitive: str
) -> None:
    """The rounds of a budget can be paid for, and one round more cannot."""
    budget = Budget(Prices(d2d=0.1), 10, links=7, offset=offset, rounds=60, limit=limit)
    candidate = Candidate(primitive, None, 4, period)
    reach = budget.reach(candidate)
    assert reach == 0 or budget.cost(candidate, reach) <= limit
    assert reach == 60 or budget.cost(candidate, reach + 1) > limit


@pytest.mark.parametrize("primitive", ["s2s", "s2a", "blend"])
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
    assert budget.cost(candidate, experiment.rounds) == sent


METHODS = [name for name in PRESETS if name in registry.METHODS]


@pytest.mark.parametrize("preset", [*METHODS, "gradient_tracking_s2s", "fedavg", "gossip_pga"])
def test_what_presets_cost_is_what_they_send(small, preset: str) -> None:
    """Among them all methods: each with its own links, and what it sends beside models."""
    experiment = small("server.sampled=4")
    world = build_world(experiment)
    budget = budget_of(
        Question(among=Among(presets=(preset,)), prices=Prices(d2d=1)), experiment, world
    )
    (candidate,) = preset_candidates([preset], [(4, 3)], ["uniform"], experiment)
    run = Entry(candidate, 0.1).run(experiment, seed=3)
    assert (run.seed, run.training.stepsize, run.server.name) == (3, 0.1, preset)
    assert run.server.sampled == candidate.sampled
    stack = build_stack(build_world(run), [run])
    ledger = Ledger()
    for moment in simulate(stack):
        if moment.phase == "end":
            ledger.add_round(moment.stack, moment.server_rounds, moment.round - 1)
    assert budget.cost(candidate, experiment.rounds) == sum(ledger.totals[stack.keys[0]])


def test_presets_are_named_beside_primitives_and_rules() -> None:
    among = read_among("s2a, carry,one_each,gradient_tracking")
    assert among == Among((("s2a", None),), ("one_each",), ("carry", "gradient_tracking"))
    assert read_among(["carry"]).primitives == ()
    experiment = Experiment.parse({}, ["network.devices=12", "server.sampled=4"])
    kinds = preset_candidates(
        ["mtgc", "sd_gt", "carry"], [(4, 5)], ["uniform", "one_each"], experiment
    )
    found = [(c.label, c.kind, c.primitive, c.sampled, c.selection) for c in kinds]
    assert found == [
        ("mtgc", "mtgc", "s2a", 12, "uniform"),
        ("sd_gt", "sd_gt", "s2s", 4, "one_each"),
        ("carry", "carry", "s2s", 4, "uniform"),
        ("carry", "carry", "s2s", 4, "one_each"),
    ]
    assert "preset" not in Candidate("s2a", None, 4, 5).fields()
    with pytest.raises(SkerryError, match="'dsgd' has no server"):
        preset_candidates(["dsgd"], [(4, 5)], ["uniform"], experiment)


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
