"""What is told of methods: pages, memory, faults; and methods of a user's own."""

from pathlib import Path

import pytest

import skerry
from six_quadratics import six, six_world
from skerry.config.experiment import MethodChoice
from skerry.engine.rehearsal import rehearse
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack, method_of
from skerry.engine.world import build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.methods.method import count_companions
from skerry.plugins import registry
from skerry.runs.memory import measure_footprint
from skerry.runs.variants import expand

METHODS = {name: registry.resolve("method", name) for name in registry.METHODS}
ROOT = Path(__file__).parents[2]
NO_LINKS = ("network.gossip_steps=0", "server.primitive=s2a")
KEPT = {
    "sgd": 0,
    "gradient_tracking": 2,
    "sd_gt": 5,
    "mtgc": 2,
    "scaffold": 1,
    "fedvarp": 1,
    "mifa": 1,
    "fedprox": 1,
    "carry": 1,
}


def test_every_method_has_a_row():
    assert METHODS.keys() == KEPT.keys()
    for name, method in METHODS.items():
        assert method.name == name
        assert method.__module__ == f"skerry.methods.{'method' if name == 'sgd' else name}"
        assert method.rule and method.keeps and method.sends and method.exact, name  # noqa: PT018
    assert [name for name, row in METHODS.items() if row.is_experimental] == ["carry"]


@pytest.mark.parametrize("name", registry.METHODS)
def test_the_page_says_what_the_table_says(name):
    page, row = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8"), METHODS[name]
    assert f"| `{name}` | {row.rule} | {row.exact} |" in page
    assert f"| `{name}` | {row.keeps} | {row.sends} |" in page


def test_a_plan_leaves_room_for_what_is_kept(small):
    """As much as the lane that keeps most."""
    base = small("server.offset=2")
    plain = measure_footprint(build_world(base))
    assert plain.for_lanes([base]) == plain
    for name, kept in KEPT.items():
        lanes = [base, *expand(base, [name])] if name != "sgd" else [base]
        found = plain.for_lanes(lanes)
        assert found.companions == kept
        assert found.need(2) == plain.need(2) + kept * 2 * plain.lane
    roomy = plain.for_lanes(expand(base, ["sd_gt"]))
    assert roomy.lanes() <= plain.lanes()


def test_what_is_kept_is_as_large_as_was_planned(small):
    base = small("server.offset=2")
    world = build_world(base)
    for lane in expand(base, [name for name in KEPT if name != "sgd"]):
        *_, moment = simulate(build_stack(world, [lane]))
        arrays = moment.state.companions.arrays.values()
        assert sum(a.ndim == 3 for a in arrays) == KEPT[lane.method.name]
        assert all(a.shape[-1] == world.learner.d for a in arrays)
        method = method_of(lane)
        assert method is not None
        assert count_companions(method) == KEPT[lane.method.name]


# Methods of a user's own


def test_a_users_own_method_runs_beside_others_and_is_told_its_options(small):
    base = small("method.name=good_plugins:HeavyBall")
    still = base.with_settings("method.momentum=0.0")
    ball, none, plain = skerry.run([base, still, small()])
    assert none.final["average_loss"] == pytest.approx(plain.final["average_loss"], rel=1e-5)
    assert ball.final["average_loss"] != pytest.approx(plain.final["average_loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("wrong_start", "start must give a dict of tensors"),
        ("wrong_aggregate", "aggregate must give a Traffic"),
        ("raises", "failed (ValueError: boom)"),
        ("no_method", "must be a class that inherits from skerry.methods.method.Method"),
    ],
)
def test_a_method_that_breaks_its_contract_is_told_before_the_work(small, name, told):
    experiment = small(f"method.name=bad_methods:{name}")
    with pytest.raises(SkerryError) as error:
        rehearse(build_world(experiment), [experiment])
    assert told in str(error.value)


def test_a_method_without_a_server_is_rehearsed_with_few_devices(small):
    settings = "server.primitive=none", "network.devices=4"
    for name in ("good_plugins:HeavyBall", "bad_methods:wrong_aggregate"):  # never called
        experiment = small(f"method.name={name}", *settings)
        rehearse(build_world(experiment), [experiment])


def test_devices_awake_with_certainty_do_not_sleep(small):
    settings = "method.name=scaffold", *NO_LINKS, "network.devices=5"
    small(*settings, "availability.awake=[1.0,1.0,1.0,1.0,1.0]")
    with pytest.raises(ExperimentError, match="sleep"):
        small(*settings, "availability.awake=[1.0,1.0,0.9,1.0,1.0]")


def test_the_section_is_read_like_others():
    assert MethodChoice(name="fedprox", mu=0.5).options_for("method") == {"mu": 0.5}
    assert six().deciding()["method"] == {"name": "sgd"}
    assert six("method.mu=0.5").key() == six().key()
    assert six("method.name=fedprox").world_key() == six().world_key()


# What is not defined is told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["method.name=gradient_tracking", "training.local_steps=2"], "training.local_steps = 1"),
        (["method.name=carry", "server.primitive=s2a"], 'server.primitive = "s2s" or "none"'),
        (["method.name=carry", "server.optimizer=fedavgm"], 'server.optimizer = "fedavg"'),
        (
            ["method.name=carry", "server.period_schedule=step", "server.period_end=6"],
            'server.period_schedule = "constant"',
        ),
        (["method.name=carry", "training.weights=data"], 'training.weights = "equal"'),
        (["method.name=sd_gt", "server.offset=2"], "every island"),
        (["method.name=sd_gt", "server.selection=one_each"], "whole period"),
        (["method.name=mtgc", "server.offset=2"], "all devices at the server"),
        (["method.name=scaffold"], "network.gossip_steps = 0"),
        (["method.name=scaffold", *NO_LINKS, "fleet.awake=0.5"], "sleep"),
        (["method.name=mifa", *NO_LINKS, "fleet.awake=0.5"], "reach_asleep"),
        (["method.name=fedprox", "method.mu=-1"], "method.mu must be at least 0"),
        (["method.name=crary"], "did you mean 'carry'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_not_defined_is_told_in_a_line(small, settings, told):
    with pytest.raises(ExperimentError) as error:
        small(*settings)
    assert told.lower() in str(error.value).lower()


def test_an_island_that_was_missed_is_told():
    lane = six("method.name=sd_gt", "server.selection=six_quadratics:one_island")
    with pytest.raises(SkerryError, match="needs every island at the server"):
        list(simulate(build_stack(six_world(lane), [lane])))
