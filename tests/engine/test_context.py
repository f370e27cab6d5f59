"""One context for plug-ins of every kind: its facts are right, in row order, and only lent."""

from copy import deepcopy
from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import skerry
from oracle import trajectory
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import SkerryError
from skerry.network.fleet import build_fleet
from skerry.network.mixing import metropolis
from skerry.plugins.options import ARGUMENTS, options_of
from trajectories import assert_same_trajectories

told: list[tuple[str, skerry.Context]] = []


@pytest.fixture(autouse=True)
def _nothing_told():
    told.clear()


def keep(kind, context):
    assert isinstance(context, skerry.Context)
    told.append((kind, context))


def of(kind):
    return [context for name, context in told if name == kind]


# A plug-in of each kind, with its context in different places


def wheel(size, *, spokes=1, context):
    keep("topology", context)
    return nx.wheel_graph(size)


def alike(graph, context):
    keep("mixing", context)
    W = np.eye(len(graph))
    for i, j in graph.edges:  # doubly stochastic whatever the links are
        W[i, j] = W[j, i] = 1 / len(graph)
        W[i, i] -= 1 / len(graph)
        W[j, j] -= 1 / len(graph)
    return W


def points(context):
    keep("dataset", context)
    y = np.arange(120) % 3
    x = np.eye(3)[y] + 0.1 * context.random().normal(size=(120, 3))
    return x, y, x, y


def across(labels, classes, sizes, context):
    keep("inter partition", context)
    return np.array_split(context.random().permutation(len(labels)), np.cumsum(sizes)[:-1] * 12)


def inside(labels, context, indices, size):
    keep("intra partition", context)
    return np.array_split(indices, size)


class Firsts:
    def __init__(self, partition, batch, *, context):
        keep("sampling", context)
        self.own = [partition.indices(i) for i in range(len(partition.sizes))]
        self.batch = batch

    def indices(self, t, step, steps, context):
        keep("sampling of a step", context)
        return np.stack(
            [context.random(i).choice(own, self.batch) for i, own in enumerate(self.own)]
        )


def narrow(problem, context):
    keep("model", context)
    return nn.Linear(3, problem.outputs)


def loss(outputs, targets, *, context):
    keep("loss", context)
    return nn.functional.cross_entropy(outputs, targets)


def score(context, outputs, targets):
    keep("score", context)
    return outputs.amax(dim=-1).mean()


def falling(context):
    keep("schedule", context)
    return 1 / (context.number + 1)


def pulled(X_nld, sampled_k, delivered_ld, *, strength=0.5, context):
    keep("primitive", context)
    X_nld.lerp_(delivered_ld, strength / (context.number + 1))
    return len(X_nld)


def drawn(context):
    keep("selection", context)
    return context.random().permutation(np.flatnonzero(context.awake))[: context.sampled]


def rising(context):
    keep("sampled schedule", context)
    return context.start + context.number


class Steady:
    @staticmethod
    def start(x0_ld, context):
        keep("server optimizer", context)
        return {}

    @staticmethod
    def deliver(memory, average_ld, *, context):
        keep("server optimizer", context)
        return average_ld


class Watching(skerry.Method):
    def before_step(self, lanes):
        keep("method", lanes.context)

    def aggregate(self, lanes, server):
        keep("method", lanes.context)
        return super().aggregate(lanes, server)


def farthest(context, models):
    keep("measure", context)
    assert context.losses(models).shape == (len(context.devices),)
    return models.norm(dim=1).max()


def descent(gradient, state, context):
    keep("local optimizer", context)
    return gradient


class Halved(skerry.Compression):
    quality = 0.5

    def compress(self, V_rld, draws, context):
        keep("compression", context)
        assert len(context.rows) == len(V_rld)
        V_rld.mul_(0.5)


OWN = {
    "network": {"mixing": alike, "link_failure": 0.4},
    "availability": {"awake": 0.7},
    "data": {"dataset": points, "inter": across, "intra": inside},
    "model": {"name": narrow},
    "task": {"loss": loss, "score": score},
    "training": {"schedule": falling, "sampling": Firsts, "batch": 3, "local_steps": 2},
    "method": {"name": Watching},
    "server": {
        "primitive": pulled, "selection": drawn, "sampled_schedule": rising, "optimizer": Steady,
        "sampled": 2, "period": 2,
    },
    "evaluate": {"own": [farthest]},
}  # fmt: skip
OFTEN = ("schedule", "primitive", "selection", "server optimizer", "method", "measure")
"""Kinds that are called in rounds, with all facts."""
NAMES = ("porch", "barn", "yard", "loft", "gate", "mill", "dock", "hill", "weir")


def archipelago():
    """Two islands whose devices alternate in the order of the nodes."""
    graph = nx.Graph()
    graph.add_nodes_from(NAMES)
    for some in (NAMES[::2], NAMES[1::2]):
        nx.add_cycle(graph, some)
    return graph


def test_every_kind_is_told_the_facts_in_the_order_of_rows():
    """Names, islands, links, W, samples and sleep of a fleet whose nodes alternate between islands
    are those of the rows; a fact that is not known is refused in one line."""
    experiment = skerry.Experiment(rounds=5, **OWN)
    materials = Materials(graph=archipelago())
    world = build_world(experiment, materials)
    skerry.run(experiment, graph=archipelago())
    rows = (*NAMES[::2], *NAMES[1::2])
    fleet, awake = world.fleet_of(experiment), world.awake(experiment)
    kinds = {kind for kind, _ in told}
    assert kinds >= set(ARGUMENTS) - {
        "topology", "local optimizer", "beta schedule", "period schedule", "stop rule"
    } | {"model", "method"}  # fmt: skip
    assert {one.seed for kind, one in told if kind != "sampled schedule"} == {0}
    for kind in OFTEN:
        assert {one.round for one in of(kind)} >= ({0, 2, 4} if kind != "measure" else {0, 5})
        for one in of(kind):
            t = max(0, one.round - 1) if kind == "measure" else one.round
            assert one.devices == rows == tuple(world.fleet.labels)
            assert [one.graph.nodes[i]["label"] for i in range(9)] == list(rows)
            assert one.islands.tolist() == [0] * 5 + [1] * 4 == world.fleet.island_of.tolist()
            assert sorted(map(sorted, one.graph.edges)) == fleet.edges(t).tolist()
            assert (one.W.toarray() == fleet.matrix(t).toarray()).all()
            assert one.awake.tolist() == awake(t).tolist()
            assert one.awake_sizes.sum() == len(one.order) == one.awake.sum()
            order = world.server_order(t).numpy()
            assert one.order.tolist() == order[awake(t)[order]].tolist()
            assert one.samples.tolist() == world.partition.sizes.tolist()
            assert [one.name for one in one.parameters] == ["weight", "bias"]
            assert (one.sizes, one.rounds) == ((5, 4), 5)
            assert one.index("mill") == rows.index("mill")
            assert one.index(["mill", "porch"]) == [rows.index("mill"), 0]
            assert one.sampled == 2 + (one.round + 1) // 2 or kind == "measure"
            assert one.period == 2
            if kind != "measure":
                assert one.number == (one.round + 1) // 2
    assert len({fleet.links(t) for t in range(5)}) > 1  # links failed
    assert {tuple(one.rows) for one in of("mixing")} == {(0, 1, 2, 3, 4), (5, 6, 7, 8)}
    assert {tuple(one.rows) for one in of("intra partition")} == {(0, 1, 2, 3, 4), (5, 6, 7, 8)}
    assert {one.devices for one in of("inter partition")} == {rows}
    unknown = {
        "dataset": "graph", "model": "devices", "loss": "round", "inter partition": "W",
        "sampling": "round", "sampled schedule": "seed", "mixing": "W", "selection": "distances",
        "schedule": "estimates", "primitive": "x_test",
    }  # fmt: skip
    for kind, fact in unknown.items():
        with pytest.raises(SkerryError, match=f"context.{fact} is not known while [a-z ,]+[.]"):
            getattr(of(kind)[0], fact)
    with pytest.raises(SkerryError, match="no device 'prch'; did you mean 'porch'"):
        of("primitive")[0].index("prch")
    with pytest.raises(AttributeError, match="has no 'rond'; did you mean 'round'"):
        _ = of("primitive")[0].rond


def test_nothing_in_a_context_can_be_changed(small):
    """Its fields, its arrays, the graph and W are read-only; the engine's own arrays are not."""
    experiment = small("server.selection=weighted").replace(server={"primitive": pulled})
    skerry.run(experiment)
    context = of("primitive")[-1]
    with pytest.raises(FrozenInstanceError):
        context.round = 3
    for array in (context.awake, context.samples, context.order, context.islands, context.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(nx.NetworkXError, match="Frozen"):
        context.graph.add_edge(0, 7)
    with pytest.raises(ValueError, match="read-only"):
        context.W.data[0] = 0


def test_steps_and_messages_are_told_their_rows(small, monkeypatch):
    """A local optimizer is called with some devices, a compression with those that send."""
    monkeypatch.setattr("skerry.engine.stack.CPU_WORKING_SET", 1)  # one device at a time
    monkeypatch.setattr("skerry.engine.compression.PORTION", 1)
    skerry.run(
        small("server.period=1").replace(
            training={"optimizer": descent, "local_steps": 2},
            network={"compression": Halved},
            server={"compression": Halved},
            rounds=2,
        )
    )
    steps = {(one.round, one.step, *one.rows) for one in of("local optimizer")}
    assert steps >= {(t, 2 * t + s, i) for t in (0, 1) for s in (0, 1) for i in range(12)}
    assert {len(one.rows) for one in of("compression")} == {1}
    assert {row for one in of("compression") for row in one.rows} == set(range(12))


# Random numbers


def coin(context):
    keep("selection", context)
    return context.order[: context.sampled]


def tosses(contexts, **same):
    return [(one.round, context_number(one, **same)) for one in contexts]


def context_number(context, *words, **same):
    return context.random(*words, **same).random()


def test_random_numbers_are_new_each_round_and_the_same_for_all_lanes(small):
    """And after a resume; words separate purposes, and `same` keeps them over the rounds."""
    lanes = [
        small(f"server.sampled={K}", "server.period=2").replace(server={"selection": coin})
        for K in (2, 3)
    ]
    stack = build_stack(build_world(lanes[0]), lanes)
    states = {m.round: deepcopy(m.state) for m in simulate(stack) if m.phase == "end"}
    seen = tosses(of("selection"))
    assert len(seen) == 8
    assert seen[::2] == seen[1::2]  # two lanes
    assert len(set(seen)) == len({number for _, number in seen}) == 4  # four server rounds
    kept = {number for _, number in tosses(of("selection"), same=True)}
    assert len(kept) == 1
    one = of("selection")[0]
    numbers = {context_number(one, *words) for words in ((), ("a",), ("b",), ("a", 1))}
    assert len(numbers) == 4
    told.clear()
    list(simulate(stack, states[3]))
    assert tosses(of("selection")) == seen[4:]


def flipped(X_nld, sampled_k, delivered_ld, context):
    keep("primitive", context)
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)


def test_kinds_islands_and_seeds_draw_differently(small):
    base = small("network.components=[6,6]").replace(
        network={"topology": wheel}, server={"selection": coin, "primitive": flipped}
    )
    skerry.run(base, seeds=2)
    islands = {context_number(one, "a") for one in of("topology")}
    assert len(islands) == 2 * len({one.seed for one in of("topology")}) == 4
    first = [of(kind)[-1] for kind in ("selection", "primitive")]
    assert len({context_number(one) for one in first}) == 2


def test_hooks_of_a_method_draw_differently(small):
    """What a step draws is not what mixing or the server draws in the same round."""
    drawn = set()

    class Drawing(skerry.Method):
        mixed_arrays = 0

        def after_step(self, lanes, before):
            drawn.add((lanes.context.round, "step", context_number(lanes.context)))

        def mix(self, lanes, mix):
            drawn.add((lanes.context.round, "mix", context_number(lanes.context)))

        def aggregate(self, lanes, server):
            drawn.add((lanes.context.round, "server", context_number(lanes.context)))
            return super().aggregate(lanes, server)

    base = small("server.period=1", "rounds=3").replace(method={"name": Drawing})
    list(simulate(build_stack(build_world(base), [base])))
    assert len(drawn) == len({number for _, _, number in drawn}) == 9


def test_a_loss_has_no_numbers_of_a_round(small):
    def noisy(outputs, targets, *, context):
        noise = torch.tensor(context.random().normal())
        return nn.functional.cross_entropy(outputs, targets) + noise

    with pytest.raises(SkerryError, match="same=True"):
        skerry.run(small().replace(task={"loss": noisy}))


def test_a_sampling_must_not_draw_the_same_in_every_round(small):
    class Frozen(Firsts):
        def indices(self, t, step, steps):
            return of("sampling")[-1].random().integers(0, 9, (12, 2))

    with pytest.raises(SkerryError, match=r"Use context.random\(\.\.\., same=True\)"):
        skerry.run(small("training.batch=2").replace(training={"sampling": Frozen}))


# Lanes, islands and rounds


class Noted(skerry.Method):
    def after_step(self, lanes, before):
        context = lanes.context
        facts = (context.round, context.number, context.period, context.sampled)
        keep("method", context)
        lanes.X_nld.mul_(1 + 1e-3 * sum(facts))


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_lanes_with_different_servers_are_told_their_own_period(small, schedule):
    """A method that computes with H, K and the server rounds gives what it gives alone."""
    base = small(
        "server.primitive=s2a", f"server.period_schedule={schedule}", "server.period_target=0.001"
    ).replace(method={"name": Noted})
    lanes = [base.with_settings(f"server.period={H}", f"server.sampled={K}")
             for H, K in ((2, 3), (3, 3), (2, 4))]  # fmt: skip
    lanes.append(lanes[0].with_settings("training.stepsize=0.9"))
    world = build_world(base, dtype=torch.float64)
    *_, together = simulate(build_stack(world, lanes))
    for lane in lanes:
        *_, alone = simulate(build_stack(world, [lane]))
        where = together.stack.experiments.index(lane)
        found = together.state.X_nld[:, where]
        assert torch.allclose(found, alone.state.X_nld[:, 0], rtol=1e-12, atol=1e-14)


def own_share(graph, context):
    """The first island keeps more of its own models than the others."""
    share = 0.9 if context.island == 0 else 0.5
    return share * np.eye(len(graph)) + (1 - share) / len(graph)


def test_islands_with_the_same_links_may_have_other_weights(small):
    network = small().replace(network={"mixing": own_share, "topology": "complete"}).network
    fleet = build_fleet(network, 0)
    kept = [block.W[0, 0] for block in fleet.blocks(0)]
    assert kept == pytest.approx([0.9 + 0.1 / 6, 0.5 + 0.5 / 6])
    p = fleet.mixing_parameters().per_island
    assert p[0] < p[1]


def turning(size, context):
    return nx.cycle_graph(size) if context.round % 2 else nx.path_graph(size)


def test_a_fixed_topology_has_no_round(small):
    """A function that forgot `every_round` would have the links of round 0 in all rounds."""
    with pytest.raises(SkerryError, match=r"context.round is not known .* every_round = True"):
        skerry.run(small().replace(network={"topology": turning}))


def fading(graph, context):
    share = 1 / (context.round + 1)
    return share * metropolis(graph) + (1 - share) * np.eye(len(graph))


def drawn_weights(graph, context):
    share = context.random().random()
    return share * metropolis(graph) + (1 - share) * np.eye(len(graph))


@pytest.mark.parametrize("weights", [fading, drawn_weights])
def test_weights_of_fixed_links_have_no_round(small, weights, monkeypatch):
    """Their W is computed once, and would be that of round 0 for ever. Where links change, W is of
    its round, also if a part of the fleet is rehearsed."""
    with pytest.raises(SkerryError, match=r"not known while W is computed for all rounds"):
        skerry.run(small().replace(network={"mixing": weights}))
    changing = small("network.link_failure=0.1").replace(network={"mixing": weights})
    fleet = build_world(changing).fleet
    assert fleet.matrix(0).diagonal().sum() != fleet.matrix(3).diagonal().sum()
    monkeypatch.setattr("skerry.engine.rehearsal.MOST_DEVICES", 4)
    skerry.run(changing.replace(network={"mixing": weights}, server={"primitive": flipped}))


def test_the_server_rounds_of_an_adaptive_period_are_not_known_to_a_stepsize(small):
    base = small("server.period_schedule=adaptive", "server.period_target=0.1")
    with pytest.raises(SkerryError, match=r"context\.number is not known"):
        skerry.run(base.replace(training={"schedule": falling}))


def test_a_schedule_that_asks_equals_the_loop(small):
    lanes = [
        small(f"server.period={period}").replace(training={"schedule": falling})
        for period in (2, 3)
    ]
    assert_same_trajectories(build_world(lanes[0], dtype=torch.float64), lanes, 1e-12)
    first, second = (list(trajectory(build_world(one), one))[-1] for one in lanes)
    assert not torch.equal(first, second)


def test_the_period_in_force_is_told(small):
    """With a schedule, H is what the last server round set."""
    seen = []

    def note(models, context):
        seen.append((context.round, context.period))
        return 0.0

    base = small("rounds=12", "server.period=2", "server.period_schedule=double")
    skerry.run(base.replace(server={"change_every": 2}, evaluate={"own": [note], "every": 1}))
    assert base.replace(server={"change_every": 2}).server.server_rounds(12) == (0, 2, 6)
    in_force = [2] * 3 + [4] * 4 + [16] * 6
    assert dict(seen) == dict(enumerate(in_force))


# Signatures


def test_context_is_no_option(small):
    name = small().replace(server={"primitive": pulled}).server.primitive
    assert options_of("primitive", name).names == ("strength",)
    skerry.run(small().replace(server={"primitive": pulled, "strength": 0.25}))
    assert of("primitive")[-1].options == {"strength": 0.25}


WRONG = {
    "network.topology": lambda size, network, rng: None,
    "network.mixing": lambda: None,
    "data.dataset": lambda data, seed: None,
    "data.inter": lambda labels, classes, sizes, data, rng: None,
    "training.schedule": lambda t, rounds, training: 1.0,
    "training.optimizer": lambda gradient: gradient,
    "training.sampling": lambda partition, batch, seed: None,
    "server.primitive": lambda X, sampled, delivered, server: 1,
    "server.selection": lambda who: [0],
    "server.beta_schedule": lambda when: 1,
    "task.loss": lambda outputs: outputs.sum(),
    "evaluate.own": lambda: 0.0,
    "data.inter ": lambda labels, classes, sizes, *, context=8: None,
}


@pytest.mark.parametrize("field", WRONG)
def test_a_function_that_cannot_be_called_is_refused_in_one_line(small, field):
    section, _, name = field.strip().partition(".")
    with pytest.raises(SkerryError, match=r"is called with|is for the skerry\.Context") as caught:
        small().replace(**{section: {name: WRONG[field]}})
    assert "\n" not in str(caught.value)
