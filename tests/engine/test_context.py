"""One context for every plug-in that asks for it; those that do not are called as ever."""

import networkx as nx
import numpy as np
import pytest
import torch

import skerry
from oracle import trajectory
from skerry.engine.world import build_world
from skerry.methods.method import Method
from skerry.plugins.context import Context
from skerry.plugins.options import options_of
from trajectories import assert_same_trajectories

told = []


def keep(context):
    assert isinstance(context, Context)
    told.append(context)


def wheel(size, network, rng, *, spokes=1, context):
    keep(context)
    return nx.wheel_graph(size)


def alike(graph, context):
    keep(context)
    return np.full((len(graph), len(graph)), 1 / len(graph))


def falling(t, rounds, training, *, context):
    keep(context)
    return 1 / (context.number + 1)


def pulled(X_nld, sampled_k, delivered_ld, server, *, strength=0.5, context):
    keep(context)
    X_nld.lerp_(delivered_ld, strength / (context.number + 1))
    return len(X_nld)


def drawn(who, *, context):
    keep(context)
    assert (context.round, context.number) == (who.round, who.number)
    assert (context.islands_n == who.islands_n).all()
    return context.stream("mine", context.round).permutation(context.devices)[: who.sampled]


class Steady:
    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld, server, *, context):
        keep(context)
        return average_ld


class Watching(Method):
    def after_step(self, lanes, kept):
        keep(lanes.context)


ASKING = {
    "network.topology": wheel,
    "training.schedule": falling,
    "server.primitive": pulled,
    "server.selection": drawn,
    "server.optimizer": Steady,
    "method.name": Watching,
}


@pytest.mark.parametrize("field", ASKING)
def test_a_plug_in_knows_where_the_run_stands(small, field):
    section, _, name = field.partition(".")
    experiment = small("network.components=[5,7]").replace(**{section: {name: ASKING[field]}})
    told.clear()
    skerry.run(experiment)
    assert {one.seed for one in told} == {experiment.seed}
    assert {one.sizes for one in told} == {(5, 7)}
    assert {one.names[-1] for one in told} == {"11"}
    server_rounds = {(one.round, one.number) for one in told}
    if section == "server":
        assert {(0, 0), (3, 1), (6, 2)} <= server_rounds
    elif section != "network":
        assert {(0, 0), (1, 1), (3, 1), (4, 2)} <= server_rounds


def test_mixing_is_told_too(small):
    told.clear()
    skerry.run(small().replace(network={"mixing": alike, "topology": "complete"}))
    assert {one.sizes for one in told} == {(6, 6)}


def test_context_is_no_option(small):
    name = small().replace(server={"primitive": pulled}).server.primitive
    assert options_of("primitive", name).names == ("strength",)
    told.clear()
    skerry.run(small().replace(server={"primitive": pulled, "strength": 0.25}))
    assert told[-1].options == {"strength": 0.25}


def test_a_dataset_may_have_an_option_of_that_name():
    """It is asked before there is a fleet: `context` may be the length of its texts."""

    def texts(data, seed, *, context=8):
        return None

    name = skerry.Data(dataset=texts, context=16).dataset
    assert options_of("dataset", name).names == ("context",)


def test_a_schedule_that_asks_equals_the_loop(small):
    lanes = [
        small(f"server.period={period}").replace(training={"schedule": falling})
        for period in (2, 3)
    ]
    assert_same_trajectories(build_world(lanes[0], dtype=torch.float64), lanes, 1e-12)
    first, second = (list(trajectory(build_world(one), one))[-1] for one in lanes)
    assert not torch.equal(first, second)
