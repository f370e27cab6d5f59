"""Content keys as they were recorded: a run that is in somebody's store must be found again."""

import sys

import pytest

from skerry.config.experiment import Experiment

PARTS = """\
def topology(size, network, rng):
    return network.degree


def mixing(graph):
    return graph


def dataset(data, seed, *, samples=3):
    return data.path


def inter(labels, classes, sizes, data, rng):
    return data.inter_alpha


def intra(labels, indices, size, data, rng):
    return data.shards


def model(problem, *, width=3):
    return width


def schedule(t, rounds, training):
    return training.decay_factor


class Sampling:
    def __init__(self, partition, batch, seed):
        pass


def primitive(X, sampled, delivered, server):
    return server.beta


class Optimizer:
    @staticmethod
    def start(x0):
        return {}

    @staticmethod
    def deliver(memory, average, server):
        return server.momentum
"""
# Settings, and below them the key of the run and that of its world.
KEPT = """\
rounds=100
    3a7475bea51604a2 3064a162b0540bab
network.degree=6 network.edge_prob=0.5 server.beta=0.1
    3a7475bea51604a2 3064a162b0540bab
network.topology=regular
    1ffe928850fd9a08 3064a162b0540bab
network.topology=regular network.degree=6 network.edge_prob=0.5
    f75e4711d6cffc75 3064a162b0540bab
network.topology=erdos_renyi network.edge_prob=0.5 network.degree=6
    8101423b3ac294ef 3064a162b0540bab
network.topology=watts_strogatz network.degree=2 network.rewire_prob=0.3
    7edda7394e739fe6 3064a162b0540bab
network.topology=barabasi_albert network.rewire_prob=0.3
    b2405871e685a036 3064a162b0540bab
network.topology=kept_parts:topology
    6d741cdd59a735bb 3064a162b0540bab
network.topology=kept_parts:topology network.degree=6
    da5a80a499c90d76 3064a162b0540bab
network.mixing=kept_parts:mixing network.degree=6
    d941ba72c489816d 3064a162b0540bab
network.topology=islands.csv network.degree=6
    24134ea97052c1bd 93e625e113886727
network.topology=given network.edge_prob=0.5
    c0db207fa40acb2f 3064a162b0540bab
network.components=[30,70] network.dynamic=true
    1bb6b5574bbb5783 5cdd472e8cdf80d1
data.dataset=mnist data.path=here
    656e7fb657f11375 f958f7121ea08682
data.dataset=digits data.path=here
    3a7475bea51604a2 3064a162b0540bab
data.dataset=synthetic data.samples=99
    0e513defaaa3b439 4842413d8b93c41d
data.dataset=kept_parts:dataset data.samples=4 data.path=here data.alpha=0.7
    27b49804fddb9495 a23459b43276ff4f
data.inter=dirichlet
    b0b56c2e5fbfd9bb ada69469bcda9f6a
data.inter=dirichlet data.alpha=0.7
    72d7934b5ec3c197 b6828f0b130cc3d5
data.inter=dirichlet data.alpha=0.7 data.inter_alpha=2
    a5fb025ef2402259 b0fe7cee0bf3a8f6
data.inter=dirichlet data.intra=dirichlet data.alpha=0.7 data.inter_alpha=2
    02b7190134acd9e7 2071cffba5b0046a
data.intra=dirichlet data.alpha=0.7 data.inter_alpha=2
    306ba52be3d91ab2 317221349e977be4
data.intra=shards data.shards=3 data.alpha=0.7
    d18cdc67b53c422f f906a69b5efd0efe
data.inter=kept_parts:inter data.alpha=0.7 data.inter_alpha=2 data.shards=3
    5b912480f44acabe 1410b6a67c78bc57
data.intra=kept_parts:intra data.alpha=0.7 data.inter_alpha=2 data.shards=3
    bad3ec76a3d8e12f f8045a785cc0278e
data.inter=dirichlet data.intra=kept_parts:intra data.inter_alpha=2
    c07e44a4904a3246 ebde53dd04fedebe
model.name=mlp model.hidden=[3]
    5568d1ba001dd07a 9faeb685ee0b8267
model.name=kept_parts:model model.width=4
    645810df6df82a61 a23a1f474b3170d1
training.schedule=step training.decay_every=7
    0f9152314cce758e 3064a162b0540bab
training.schedule=cosine training.decay_every=7
    cac767009431b637 3064a162b0540bab
training.schedule=kept_parts:schedule training.decay_factor=0.5
    0971cb3fe23a3179 3064a162b0540bab
training.sampling=kept_parts:Sampling training.decay_every=7
    c72414a655024c5d 69edc420cc643bae
server.primitive=blend server.beta=0.25 server.momentum=0.3
    696ef5c04a63759e 3064a162b0540bab
server.primitive=s2a server.optimizer=fedavgm server.momentum=0.3
    a54b97d53b56f8fd 3064a162b0540bab
server.primitive=none server.optimizer=fedavgm server.momentum=0.3 server.sampled=3
    6e4358e2a39d721e 3064a162b0540bab
server.primitive=none server.optimizer=kept_parts:Optimizer
    4dfddeb308800528 3064a162b0540bab
server.primitive=kept_parts:primitive server.beta=0.25 server.momentum=0.3
    1bc35575c0e43df4 3064a162b0540bab
server.optimizer=kept_parts:Optimizer server.beta=0.25 server.momentum=0.3
    076fe0e926b23d5c 3064a162b0540bab
"""


@pytest.fixture(autouse=True)
def _parts(tmp_path, monkeypatch):
    """Plug-ins that read fields from the section they are given; their source is in the key."""
    (tmp_path / "kept_parts.py").write_bytes(PARTS.encode())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kept_parts", raising=False)


ROWS = KEPT.splitlines()


@pytest.mark.parametrize(("settings", "keys"), [*zip(ROWS[::2], ROWS[1::2], strict=True)])
def test_a_recorded_run_keeps_its_name(settings, keys):
    """And so does the world it belongs to, after which checkpoints are named."""
    found = Experiment.parse({}, settings.split())
    assert [found.key(), found.world_key()] == keys.split()
