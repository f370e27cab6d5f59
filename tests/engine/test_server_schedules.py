"""Schedules of the server: beta, K and H over a run, held against the reference and by hand."""

import math
from itertools import product

import pytest
import torch

import skerry
from recorded_runs import PlugPulledError, assert_same, record
from skerry.config.experiment import Experiment, Server
from skerry.engine.participation.sampler import Sampler
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.plugins import registry
from skerry.plugins.context import Context
from trajectories import assert_same_trajectories

SCHEDULES = sorted(registry.SERVER_SCHEDULES)
ENDS = {
    "beta": ("server.primitive=blend", "server.beta=0.9", "server.beta_end=0.1"),
    "sampled": ("server.sampled=2", "server.sampled_end=9"),
    "period": ("server.period=1", "server.period_end=4"),
}
CHANGES = ("server.switch_round=6", "server.change_every=4", "rounds=14")


def lanes_of(base, settings):
    return [base.with_settings(*each) for each in settings]


def changing(field, schedule):
    return (*ENDS[field], f"server.{field}_schedule={schedule}")


# As in the loop


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("field", ENDS)
def test_a_schedule_alone(small, field, schedule):
    base = small(*CHANGES, *changing(field, schedule))
    assert_same_trajectories(build_world(base), [base], 1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_all_schedules_beside_each_other(small, dtype, tolerance):
    """Lanes whose beta, K and H change do what each does in the loop, and so do their neighbours
    whose stay."""
    base = small(*CHANGES, "network.components=[3,4,5]")
    lanes = [
        *(changing(field, schedule) for field, schedule in product(ENDS, SCHEDULES)),
        *((f"server.primitive={primitive}",) for primitive in ("s2s", "s2a", "blend", "none")),
        (*changing("beta", "switch"), *changing("sampled", "step"), *changing("period", "double")),
        (*changing("beta", "cosine"), "fleet.awake=0.5", "server.selection=per_component"),
        (*changing("beta", "switch"), "server.beta_end=0", "server.optimizer=fedavgm"),
        (
            *changing("beta", "switch"),
            "server.beta_end=0",
            "server.optimizer=fedavgm",
            "server.weights=data",
        ),
        (*changing("period", "inverse_sqrt"), "server.selection=round_robin", "server.period=4"),
    ]
    world = build_world(base, dtype=dtype)
    assert_same_trajectories(world, lanes_of(base, lanes), tolerance)


def test_s2a_first_and_s2s_later(small):
    """A switch from 1 to 0 is S2A until that round, and S2S from there on, to the bit."""
    base = small("rounds=9", "server.period=2")
    switched = base.with_settings(
        "server.primitive=blend",
        "server.beta=1",
        "server.beta_end=0",
        "server.beta_schedule=switch",
        "server.switch_round=5",
    )
    world = build_world(base)

    def models(experiment):
        stack = build_stack(world, [experiment])
        return [m.state.X_nld.clone() for m in simulate(stack) if m.phase == "end"]

    found, s2a = models(switched), models(base.with_settings("server.primitive=s2a"))
    assert all(map(torch.equal, found[:6], s2a[:6]))  # the server rounds 0, 2 and 4 are S2A
    sampled = world.server_order(6)[: base.server.sampled]
    others = [i for i in range(world.n) if i not in sampled.tolist()]
    assert (found[6][others] != found[6][sampled[0]]).any()
    assert torch.equal(found[6][sampled], found[6][sampled[:1]].expand_as(found[6][sampled]))


def test_lanes_that_do_not_mix_in_server_rounds(small):
    """Beside others that do, and whose server comes at other times."""
    base = small(*CHANGES)
    rests = "network.mix_with_server=false"
    lanes = [
        (),
        (rests,),
        (rests, "server.period=5", "server.primitive=s2a"),
        (rests, *changing("period", "double"), "fleet.awake=0.6"),
        (rests, "server.primitive=none"),
    ]
    world = build_world(base, dtype=torch.float64)
    assert_same_trajectories(world, lanes_of(base, lanes), 1e-12)


def test_links_that_rest_carry_nothing(small):
    """Of 14 rounds 5 are server rounds."""
    base = small(*CHANGES, "server.period=3")
    always, rested = (
        skerry.run(base.with_settings(f"network.mix_with_server={value}"))[0].final
        for value in ("true", "false")
    )
    assert 14 * rested["d2d_messages"] == 9 * always["d2d_messages"]


@pytest.mark.parametrize("stop_after", [0, 5, 9])
def test_a_run_with_schedules_that_was_stopped_ends_as_it_would_have(small, tmp_path, stop_after):
    base = small(*CHANGES)
    lanes = lanes_of(base, [changing(f, s) for f, s in product(ENDS, SCHEDULES)])
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, stop_after)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


# By hand


@pytest.mark.parametrize(
    ("schedule", "options", "by_round"),
    [
        ("constant", {}, {0: 8, 50: 8, 99: 8}),
        ("cosine", {}, {0: 8, 25: 2 + 6 * (1 + math.sqrt(0.5)) / 2, 50: 5, 100: 2}),
        ("inverse_sqrt", {}, {0: 8, 15: 4, 75: 2}),  # server rounds 0, 3, 15
        ("switch", {"switch_round": 50}, {0: 8, 49: 8, 50: 2, 99: 2}),
        ("step", {"change_every": 25}, {0: 8, 24: 8, 25: 6, 50: 4, 75: 2, 99: 2}),
        ("step", {"change_every": 200}, {0: 8, 99: 8}),
        ("double", {"change_every": 25}, {0: 2}),
    ],
)
def test_values_of_the_specification(schedule, options, by_round):
    function = registry.resolve("beta schedule", schedule)
    for t, value in by_round.items():
        context = Context(round=t, rounds=100, number=t // 5, start=8, end=2)
        assert function(context, **options) == pytest.approx(value), t


def test_a_period_that_doubles():
    """H = 2 until round 10, then 4, 8, 16; not more than its end."""
    server = Server(period=2, period_schedule="double", change_every=10, offset=1)
    assert server.server_rounds(40) == (1, 3, 5, 7, 9, 11, 15, 19, 23, 31)
    capped = Server(period=2, period_schedule="double", change_every=10, offset=1, period_end=4)
    assert capped.server_rounds(40) == (1, 3, 5, 7, 9, 11, 15, 19, 23, 27, 31, 35, 39)


def test_server_rounds_that_do_not_change_are_a_range():
    assert Server(period=3, offset=1).server_rounds(10) == range(1, 10, 3)
    assert Server(period=3, primitive="none", period_schedule="double").server_rounds(10) == range(
        0
    )


def test_numbers_stay_in_their_range():
    """K and H are whole and at least 1, beta is at most 1."""
    server = Server(
        primitive="blend",
        beta=0.75,
        beta_schedule="double",
        sampled=3,
        sampled_schedule="inverse_sqrt",
        period=3,
        period_schedule="inverse_sqrt",
        change_every=1,
    )
    assert server.server_rounds(100)[:6] == (0, 3, 5, 7, 9, 10)  # 3, 2.12, 1.73, 1.5, 1.34
    assert [server.at(t, 100).sampled for t in (0, 3, 7, 50)] == [3, 2, 2, 1]
    assert [server.at(t, 100).beta for t in (0, 3, 50)] == [0.75, 1.0, 1.0]


def test_a_server_that_stands_still_is_itself():
    server = Server(primitive="blend")
    assert server.at(7, 10) is server


@pytest.mark.parametrize("rule", ["uniform", "per_component"])
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "constant"])
def test_samples_stay_nested(small, rule, schedule):
    """Whatever K is in a round, its sample is the beginning of that of everybody."""
    base = small(*CHANGES, "server.period=1", f"server.selection={rule}")
    world = build_world(base)
    moving = Sampler(world, base.with_settings(*changing("sampled", schedule)))
    everybody = Sampler(world, base.with_settings("server.sampled=12"))
    counts = set()
    for t in range(14):
        some, all_of_them = (one.sample(t).devices_k.tolist() for one in (moving, everybody))
        assert some == all_of_them[: len(some)]
        counts.add(len(some))
    assert len(counts) > 1


def test_messages_follow_the_number_sampled(small):
    base = small(*CHANGES, *changing("sampled", "switch"), "server.period=3")
    moments = [m for m in simulate(build_stack(build_world(base), [base])) if m.server_rounds]
    assert [(m.round - 1, m.server_rounds[0].uplink) for m in moments] == [
        (0, 2), (3, 2), (6, 9), (9, 9), (12, 9),
    ]  # fmt: skip


# Names and keys


def test_labels_tell_how_beta_changes():
    def label(**fields):
        return Server(primitive="blend", beta=1.0, **fields).label

    assert label(beta_schedule="cosine", beta_end=0.0) == "blend cosine(1-0)"
    assert (
        label(beta_schedule="switch", beta_end=0.0, switch_round=50)
        == "blend switch(1-0, switch_round 50)"
    )
    assert label(beta_schedule="inverse_sqrt") == "blend inverse_sqrt(1)"
    assert label(beta_schedule="adaptive") == "blend adaptive(1, bias_cost 8, adapt_over 5)"
    assert label(beta_schedule="step", beta_end=0.5) == "blend step(1-0.5, change_every 30)"
    assert Server(primitive="s2a", beta_schedule="cosine", beta_end=0.0).label == "s2a"
    assert Server(primitive="blend", beta_schedule="cosine", beta_end=0.0).dial is None


@pytest.mark.parametrize(
    ("settings", "is_another_run"),
    [
        (["server.change_every=7"], False),
        (["server.switch_round=7"], False),
        (["server.beta_end=0.3", "server.sampled_end=3", "server.period_end=3"], False),
        (["server.beta_schedule=inverse_sqrt"], False),  # s2s has no beta
        (["server.name=ours"], False),
        (["server.primitive=none", "server.period_schedule=double"], True),
        (["server.sampled_schedule=double"], True),
        (["server.period_schedule=double"], True),
    ],
)
def test_fields_that_play_no_part_leave_the_key(settings, is_another_run):
    base = Experiment()
    assert (base.with_settings(*settings).key() != base.key()) is is_another_run


def test_fields_of_schedules_are_in_the_key():
    def key(*settings):
        return Experiment.parse({}, settings).key()

    blend = ("server.primitive=blend", "server.beta_schedule=switch", "server.beta_end=0.0")
    keys = {
        key(*blend, "server.switch_round=5"),
        key(*blend, "server.switch_round=6"),
        key(*blend, "server.switch_round=6", "server.beta_end=0.1"),
        key("server.period_schedule=double"),
        key("server.period_schedule=double", "server.change_every=7"),
        key("server.period_schedule=double", "server.period_end=7"),
    }
    assert len(keys) == 6


# A user's own, and faults


def every_other(context):
    return context.start if context.number % 2 else 1.0


def with_options(context, *, change_every, not_a_field=3):
    return context.start + change_every * not_a_field


def too_much(context):
    return 1.5


def too_few(context):
    return 0


def no_number(context):
    return "more"


def raises(context):
    raise ValueError("boom")


def test_a_schedule_of_ones_own(small):
    base = small(*CHANGES, *changing("beta", f"{__name__}:every_other"))
    assert_same_trajectories(build_world(base), [base], 1e-5)
    found = [base.server.at(t, 14).beta for t in base.server.server_rounds(14)]
    assert found == [1.0, 0.9, 1.0, 0.9, 1.0]


def test_options_of_ones_own_are_fields():
    server = Server(sampled_schedule=f"{__name__}:with_options", change_every=4)
    assert server.at(0, 10).sampled == 20 + 4 * 3


@pytest.mark.parametrize(
    ("field", "name", "message"),
    [
        ("beta", "too_much", "server.beta, a number from 0 to 1 .got 1.5 in round 0"),
        ("beta", "no_number", "server.beta, a number from 0 to 1 .got 'more' in round 0"),
        ("period", "no_number", "server.period, a number of at least 1"),
        ("sampled", "too_few", "server.sampled, a number of at least 1 .got 0 in round 0"),
        ("sampled", "raises", "failed .ValueError: boom"),
    ],
)
def test_a_wrong_schedule_is_told(field, name, message):
    server = Server(primitive="blend", **{f"{field}_schedule": f"{__name__}:{name}"})
    ask = server.server_rounds if field == "period" else lambda rounds: server.at(0, rounds)
    with pytest.raises(SkerryError, match=message):
        ask(10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["server.beta_schedule=cosine"], "goes from server.beta to an end .* Set server.beta_end"),
        (["server.sampled_schedule=step"], "Set server.sampled_end"),
        (["server.period_schedule=switch", "server.period_end=9"], "Set server.switch_round"),
        (["server.beta_schedule=cosin"], "did you mean 'cosine'"),
        (["server.sampled_end=101"], "server.sampled_end must be between 1 and network.devices"),
        (["server.beta_end=1.5"], "server.beta_end must be at most 1"),
        (
            [
                "network.mix_with_server=false",
                "server.period_schedule=adaptive",
                "server.period_target=1",
            ],
            "needs server rounds that are known beforehand",
        ),
        (["server.change_every=0"], "server.change_every must be at least 1"),
    ],
)
def test_a_schedule_that_lacks_something_is_told(settings, message):
    with pytest.raises(ExperimentError, match=message):
        Experiment.parse({}, settings)
