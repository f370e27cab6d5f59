"""Before anything is recorded, a round is rehearsed with a user's own plug-ins."""

import random

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import skerry
from skerry.config.experiment import Experiment
from skerry.engine import rehearsal
from skerry.engine.compression import Compression
from skerry.engine.rehearsal import rehearse
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError, SkerryWarning
from skerry.methods.method import Method, Traffic
from skerry.network.mixing import metropolis
from skerry.records.store import Store

# Lent, not given


def shrinks(models, context):
    models.mul_(0.5)
    return 0.0


def shrinks_unseen(models, context):
    models.data.mul_(0.5)
    return 0.0


def writes_tests(models, context):
    context.y_test.zero_()
    return 0.0


def reorders(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld
    sampled_k.copy_(sampled_k.flip(0))
    return len(sampled_k)


def sorts_labels(labels, indices, size):
    labels.sort()
    return np.array_split(indices, size)


def adds_a_link(graph):
    graph.add_edge(0, 2)
    return metropolis(graph)


def centres(outputs, targets):
    outputs -= outputs.mean()
    return nn.functional.cross_entropy(outputs, targets)


class Faster(Method):
    def after_step(self, lanes, before):
        lanes.eta_l1.mul_(2)


# Lanes, chunks and messages


def averages_lanes(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld.mean(dim=0)
    return len(sampled_k)


def to_all_lanes_the_first(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld[0]
    return len(sampled_k)


def scaled_by_lane(X_nld, sampled_k, delivered_ld):
    for lane, delivered_d in enumerate(delivered_ld):
        X_nld[:, lane] = delivered_d * (1 + 0.1 * lane)
    return len(X_nld)


def clipped_together(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld * min(1.0, 2 / float(delivered_ld.norm()))
    return len(sampled_k)


def first_gradient(gradient, state):
    return gradient[:, :1].expand_as(gradient).clone()


class FirstAverage:
    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld):
        return average_ld[:1].expand_as(average_ld).clone()


class FirstMessage(Compression):
    def compress(self, V_rld, draws):
        V_rld[:, 1:] = V_rld[:, :1]


class SeesNeighbours(Method):
    def after_step(self, lanes, before):
        lanes.X_nld.sub_(0.1 * lanes.X_nld.mean(dim=0))


class DrawsForTheChunk(Method):
    def after_step(self, lanes, before):
        noise = lanes.context.random().normal(size=(len(lanes.X_nld), 1, 1))
        lanes.X_nld.add_(torch.from_numpy(noise).float())


class MixesTwice(Method):
    def mix(self, lanes, mix):
        mix(lanes.X_nld)
        mix.collect(lanes.X_nld, torch.zeros_like(lanes.X_nld), lanes.eta_l1)


class MixesNothing(Method):
    def mix(self, lanes, mix):
        pass


class AllRows(Compression):
    def compress(self, V_rld, draws):
        V_rld.mul_(V_rld.abs().amax(dim=(0, 2), keepdim=True))


class AllLanes(Compression):
    def compress(self, V_rld, draws):
        V_rld.sub_(0.5 * V_rld.mean(dim=1, keepdim=True))


def tells_few(X_nld, sampled_k, delivered_ld):
    X_nld[:] = delivered_ld
    return len(sampled_k)


class TellsNone(Method):
    def aggregate(self, lanes, server):
        server.deliver(lanes.X_nld)
        return Traffic(len(server.sampled_k), 0)


class Strangers:
    def __init__(self, partition, batch):
        self.shape = len(partition.sizes), batch

    def indices(self, t, step, steps):
        return np.zeros(self.shape, dtype=np.int64)


class Returns(Compression):
    def compress(self, V_rld, draws):
        return V_rld * 0.5


# Draws and memory


def draws(context):
    return np.random.permutation(len(context.devices))[: context.sampled]  # noqa: NPY002


def shuffles(size):
    return nx.gnp_random_graph(size, 1.0 - random.random() / 1e9)


def noisy(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld + torch.randn(delivered_ld.shape)
    return len(sampled_k)


CALLS = []


def remembers(X_nld, sampled_k, delivered_ld):
    CALLS.append(1)
    X_nld[sampled_k] = delivered_ld * len(CALLS)
    return len(sampled_k)


def counts_calls(context):
    CALLS.append(1)
    return [len(CALLS) % len(context.devices)]


class KeepsAnother(Method):
    """Its array stays at zero, because the new one is not kept."""

    def start(self, X_nld):
        return {"v": torch.zeros_like(X_nld)}

    def after_step(self, lanes, before):
        lanes.state["v"] = 0.9 * lanes.state["v"] + lanes.X_nld


def keeps_another(gradient, state):
    state["v"] = gradient.clone()
    return gradient


keeps_another.keeps = ("v",)


def nowhere(context):
    return float("inf") - float("inf")


def negative(context):
    return [0, 1], [1.5, -0.5]


def not_finite(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld / 0
    return len(sampled_k)


def double(gradient, state):
    return gradient.double()


class DoubleAverage(FirstAverage):
    @staticmethod
    def deliver(memory, average_ld):
        return average_ld.double()


class KeepsAnotherMemory:
    @staticmethod
    def start(x0_ld):
        return {"m": torch.zeros_like(x0_ld)}

    @staticmethod
    def deliver(memory, average_ld):
        memory["m"] = average_ld.clone()
        return average_ld


class WithSelf:
    def start(self, x0_ld):
        return {}

    def deliver(self, memory, average_ld):
        return average_ld


def a_float(outputs, targets):
    return 0.5


def a_mask(context):
    return context.awake


def ragged(context):
    return [0, 1], [0.5, 0.5], [3]


class UnprintableError(BaseException):
    def __str__(self):
        raise ValueError


def unprintable(context):
    raise UnprintableError


def leaves(context):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("field", "plug_in", "told"),
    [
        ("evaluate.own", shrinks, "changed the models that it was given. Work on a copy: models ="),
        ("evaluate.own", shrinks_unseen, "changed the models that it was given"),
        ("evaluate.own", writes_tests, "changed the y_test that it was given"),
        ("server.primitive", reorders, "changed the sampled_k that it was given"),
        ("data.intra", sorts_labels, "changed what it was only lent"),
        ("network.mixing", adds_a_link, "changed what it was only lent"),
        ("task.loss", centres, "changed the outputs that it was given"),
        ("method.name", Faster, "changed the eta_l1 that it was given"),
        ("server.primitive", averages_lanes, "lanes must not see each other"),
        ("network.compression", AllLanes, "lanes must not see each other"),
        ("server.primitive", to_all_lanes_the_first, "lanes must not see each other"),
        ("server.primitive", scaled_by_lane, "lanes must not see each other"),
        ("server.primitive", clipped_together, "lanes must not see each other"),
        ("training.optimizer", first_gradient, "lanes must not see each other"),
        ("server.optimizer", FirstAverage, "lanes must not see each other"),
        ("network.compression", FirstMessage, "lanes must not see each other"),
        ("network.compression", AllRows, "rows must not see each other"),
        ("method.name", SeesNeighbours, "a local step must depend on the device alone"),
        ("method.name", DrawsForTheChunk, "take those of context.rows"),
        ("method.name", MixesTwice, "Set mixed_arrays = 2 in the class"),
        ("method.name", MixesNothing, "Set mixed_arrays = 0 in the class"),
        ("training.sampling", Strangers, "row i of indices must be samples that device i holds"),
        ("network.compression", Returns, "compress must change V_rld in place and return None"),
        ("server.primitive", tells_few, "reports 5 messages from the server but changes the"),
        ("method.name", TellsNone, "aggregate reports 0 messages from the server but changes"),
        ("server.selection", draws, "draws from numpy's global random state, so runs could"),
        ("network.topology", shuffles, "draws from Python's global random state"),
        ("server.primitive", noisy, "draws from torch's global random state"),
        ("server.primitive", remembers, "gives different results for the same round"),
        ("server.selection", counts_calls, "gives different results for the same round"),
        ("method.name", KeepsAnother, "must change the array 'v' that it keeps in place"),
        ("training.optimizer", keeps_another, "must change the array 'v' that it keeps in place"),
        ("training.schedule", nowhere, "must give the factor on the stepsize, a number of at"),
        ("server.selection", negative, "weights of at least 0"),
        ("training.optimizer", double, "a float32 tensor of the gradient's shape"),
        ("server.optimizer", DoubleAverage, "(got float64 of shape (1, "),
        ("server.optimizer", KeepsAnotherMemory, "Write into it: memory['m'].copy_(...)"),
        ("server.optimizer", WithSelf, "Write @staticmethod above both"),
        ("task.score", a_float, "must give a torch tensor with one number"),
        ("server.selection", a_mask, "Use np.flatnonzero(mask)."),
        ("server.selection", ragged, "a list of whole numbers"),
        ("server.primitive", not_finite, "makes numbers that are not finite"),
        ("training.schedule", unprintable, "failed (UnprintableError: its message cannot be read)"),
        ("server.selection", leaves, "failed (SystemExit: 3)"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)  # fmt: skip
def test_a_plug_in_that_breaks_the_contract_is_refused_in_one_line(small, field, plug_in, told):
    """What would change numbers in silence is an error before the first round, and nothing of it
    stays."""
    section, name = field.split(".")
    value = [plug_in] if field == "evaluate.own" else plug_in
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    with pytest.raises(SkerryError) as error:
        skerry.run(small().replace(**{section: {name: value}}), device="cpu")
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert states[:2] == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    assert torch.equal(states[2], torch.get_rng_state())


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("availability.awake=0.7", "network.link_failure=0.3"),
        ("server.selection=one_each", "server.sampled=4", "network.dynamic=true"),
        ("server.primitive=blend", "server.beta_schedule=adaptive"),
        (f"availability.awake={[1.0] * 12}", "network.mixing=good_plugins:until_the_end"),
    ],
)
def test_a_large_fleet_is_rehearsed_with_its_first_devices(small, monkeypatch, more):
    """The part has fewer devices than K and than an island, and faults are found all the same."""
    monkeypatch.setattr(rehearsal, "MOST_DEVICES", 4)
    good = small("network.compression=good_plugins:Signs", *more)
    rehearse(build_world(good), [good])
    bad = small(*more).replace(network={"compression": AllLanes})
    with pytest.raises(SkerryError, match="lanes must not see each other"):
        rehearse(build_world(bad), [bad])


def forgets(gradient, state):
    m = 0.9 * state["m"] + gradient
    return m


forgets.keeps = ("m",)


def alternates(size, context):
    return nx.path_graph(size) if context.round % 2 else nx.cycle_graph(size)


alternates.every_round = True


def test_a_state_that_never_changes_is_told(small):
    """A local optimizer that computes a new array instead is warned of."""
    with pytest.warns(SkerryWarning, match="state 'm' never changes: change it in place"):
        skerry.run(small("rounds=1").replace(training={"optimizer": forgets}))


def test_a_selection_may_give_any_collection_of_rows(small):
    """A list, a tuple, a set and a generator of the same devices give the same run."""

    def run(make):
        return skerry.run(small("rounds=2").replace(server={"selection": make}))[0].final

    expected = run(lambda context: [1, 2])
    assert run(lambda context: (1, 2)) == expected
    assert run(lambda context: {2, 1}) == expected
    assert run(lambda context: (i for i in (1, 2))) == expected
    assert run(lambda context: ((1, 2), (0.5, 0.5))) == expected


def test_a_topology_of_every_round_reads_its_round(small):
    """The rehearsal draws links as the rounds do."""
    experiment = small("rounds=2", "server.period=2").replace(network={"topology": alternates})
    (lane,) = skerry.run(experiment)
    assert lane.status == "finished"


def test_built_ins_are_not_rehearsed(small, monkeypatch):
    """A run without plug-ins computes no round before its first."""
    monkeypatch.setattr(rehearsal, "small", lambda *_: pytest.fail("a round is rehearsed"))
    experiment = small("method.name=gradient_tracking", "server.primitive=s2s")
    rehearse(build_world(experiment), [experiment])


def late(X_nld, sampled_k, delivered_ld, context):
    if context.round > 2:
        raise RuntimeError("only now")
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)


def later_to_all(X_nld, sampled_k, delivered_ld, context):
    X_nld[sampled_k if context.round < 3 else slice(None)] = delivered_ld
    return torch.tensor(len(sampled_k))


def later_draws(X_nld, sampled_k, delivered_ld, context):
    X_nld[sampled_k] = delivered_ld + (torch.randn(()) if context.round > 2 else 0)
    return len(sampled_k)


@pytest.mark.parametrize(
    ("primitive", "told"),
    [(later_to_all, "reports 5 messages from the"), (later_draws, "draws from torch's global")],
)
def test_faults_of_a_primitive_are_found_in_every_server_round(small, primitive, told):
    """A fault that starts after the rehearsed round is refused in the same line."""
    experiment = small("server.period=2", "rounds=6").replace(server={"primitive": primitive})
    with pytest.raises(SkerryError, match=told):
        skerry.run(experiment)


def to_all(X_nld, sampled_k, delivered_ld):
    X_nld[:] = delivered_ld
    return len(X_nld)


def to_the_first(X_nld, sampled_k, delivered_ld):
    X_nld[:6] = delivered_ld
    return 6


class ToAll(Method):
    def aggregate(self, lanes, server):
        lanes.X_nld[:] = lanes.X_nld[server.sampled_k].mean(dim=0)
        return Traffic(len(server.sampled_k), len(server.receivers))


@pytest.mark.parametrize(
    "own",
    [{"server": {"primitive": to_all}}, {"server": {"primitive": to_the_first}},
     {"method": {"name": ToAll}}],
)  # fmt: skip
def test_sleeping_devices_receive_nothing_from_own_plug_ins(small, own):
    """Their models stay, and messages of a primitive to them are not counted."""
    base = small("availability.awake=0.5", "server.period=1", "rounds=3", "server.primitive=s2a")
    base = base.replace(**own)
    world = build_world(base)
    awake = world.awake(base)
    for moment in simulate(build_stack(world, [base])):
        if moment.phase == "before_server":
            X, asleep = moment.state.X_nld.clone(), torch.from_numpy(~awake(moment.round - 1))
        elif moment.server_rounds:
            assert torch.equal(moment.state.X_nld[asleep], X[asleep])
            changed = int((moment.state.X_nld != X).flatten(1).any(dim=1).sum())
            assert asleep[:6].any()
            assert [one.downlink for one in moment.server_rounds] == [changed]


def test_a_plug_in_that_fails_in_the_middle_of_a_run_leaves_a_failed_run(small, tmp_path):
    """The run is recorded as failed with the line, not as running for ever."""
    experiment: Experiment = small().replace(server={"primitive": late})
    with pytest.raises(SkerryError, match=r"failed \(RuntimeError: only now\)") as error:
        skerry.run(experiment, out=tmp_path)
    with Store.open(tmp_path) as store:
        [run] = store.runs()
    assert (run.status, run.note) == ("failed", str(error.value))
