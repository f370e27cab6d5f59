"""Content keys as they were recorded: a run that is in somebody's store must be found again."""

import sys

import pytest

from skerry.config.experiment import Experiment

PARTS = """\
def topology(size, *, degree):
    return degree


def mixing(graph):
    return graph


def dataset(*, path, samples=3):
    return path


def inter(labels, classes, sizes, *, inter_alpha):
    return inter_alpha


def intra(labels, indices, size, *, shards):
    return shards


def model(problem, *, width=3):
    return width


def schedule(context, *, decay_factor):
    return decay_factor


class Sampling:
    def __init__(self, partition, batch, context):
        pass


def primitive(X, sampled, delivered, *, beta):
    return beta


class Optimizer:
    @staticmethod
    def start(x0):
        return {}

    @staticmethod
    def deliver(memory, average, *, momentum):
        return momentum
"""
# Settings, and below them the key of the run and that of its world.
KEPT = """\
rounds=100
    b168d3358e1df0af fbc8508d1d51db55
network.degree=6 network.edge_prob=0.5 server.beta=0.1
    b168d3358e1df0af fbc8508d1d51db55
network.topology=regular
    25b30c06ac8f74e7 fbc8508d1d51db55
network.topology=regular network.degree=6 network.edge_prob=0.5
    6b4750aef94b6868 fbc8508d1d51db55
network.topology=erdos_renyi network.edge_prob=0.5 network.degree=6
    a7eacf9b9c3ee5aa fbc8508d1d51db55
network.topology=watts_strogatz network.degree=2 network.rewire_prob=0.3
    0378adee3d18ded6 fbc8508d1d51db55
network.topology=barabasi_albert network.rewire_prob=0.3
    56bb4ad84624a5bb fbc8508d1d51db55
network.topology=kept_parts:topology
    c2e9b3efb21cc2dd fbc8508d1d51db55
network.topology=kept_parts:topology network.degree=6
    d99a528411e624a6 fbc8508d1d51db55
network.mixing=kept_parts:mixing network.degree=6
    0b8200bd3e0b8fdf fbc8508d1d51db55
network.topology=islands.csv network.degree=6
    0ee402038aa63b85 b1d596e1add1bc8c
network.topology=given network.edge_prob=0.5
    ad7150093f2ddba3 fbc8508d1d51db55
network.components=[30,70] network.dynamic=true
    be4893ff5879c067 f76eca2a45323e98
data.dataset=mnist data.path=here
    2cba27d7149d316f d784ce7953901a4e
data.dataset=digits data.path=here
    b168d3358e1df0af fbc8508d1d51db55
data.dataset=synthetic data.samples=99
    3e38fa1b2743e4f9 425ff67fe05cface
data.dataset=kept_parts:dataset data.samples=4 data.path=here data.alpha=0.7
    e8411d61021102a2 223c694af2260981
data.inter=dirichlet
    8c9e6cc8238fa958 14c94a47d99bf316
data.inter=dirichlet data.alpha=0.7
    7b28bb174414da72 5a537119c133d104
data.inter=dirichlet data.alpha=0.7 data.inter_alpha=2
    7336fb29c4bbca69 395a78228c7eb7b9
data.inter=dirichlet data.intra=dirichlet data.alpha=0.7 data.inter_alpha=2
    63aba749abf7105a c77757e5f909f57e
data.intra=dirichlet data.alpha=0.7 data.inter_alpha=2
    833ae2d59e27fb97 5ca6b5d823866c3b
data.intra=shards data.shards=3 data.alpha=0.7
    45f2a54e666b9d0e 8e2f59d9d5a617bc
data.inter=kept_parts:inter data.alpha=0.7 data.inter_alpha=2 data.shards=3
    dd1489d63a7ac911 26aa75a911257dcf
data.intra=kept_parts:intra data.alpha=0.7 data.inter_alpha=2 data.shards=3
    40ccf2d2ef773136 b84822cd7d5a7a3f
data.inter=dirichlet data.intra=kept_parts:intra data.inter_alpha=2
    2380cccba7356637 e4306d65a6792eab
model.name=mlp model.hidden=[3]
    16b28fd524b15791 414dca90f183b1b6
model.name=kept_parts:model model.width=4
    76674d75ea538374 5044e0c784f63406
training.schedule=step training.decay_every=7
    456e6f29cae255df fbc8508d1d51db55
training.schedule=cosine training.decay_every=7
    f6cf3a8ffb8c9f3f fbc8508d1d51db55
training.schedule=kept_parts:schedule training.decay_factor=0.5
    ba7a1fc35c3b6cca fbc8508d1d51db55
training.sampling=kept_parts:Sampling training.decay_every=7
    b8d87f61479acbc4 c77e43a40df59189
server.primitive=blend server.beta=0.25 server.momentum=0.3
    0533ffdafe1983f2 fbc8508d1d51db55
server.primitive=s2a server.optimizer=fedavgm server.momentum=0.3
    0db658de6f9849bb fbc8508d1d51db55
server.primitive=none server.optimizer=fedavgm server.momentum=0.3 server.sampled=3
    3daa7a3e90b47395 fbc8508d1d51db55
server.primitive=none server.optimizer=kept_parts:Optimizer
    93a16928e2f600d2 fbc8508d1d51db55
server.primitive=kept_parts:primitive server.beta=0.25 server.momentum=0.3
    b5c9d9ec26bf161a fbc8508d1d51db55
server.optimizer=kept_parts:Optimizer server.beta=0.25 server.momentum=0.3
    051a9ea9d297645f fbc8508d1d51db55
"""


@pytest.fixture(autouse=True)
def _parts(tmp_path, monkeypatch):
    """Plug-ins that take fields as options; their source is in the key."""
    (tmp_path / "kept_parts.py").write_bytes(PARTS.encode())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kept_parts", raising=False)


ROWS = KEPT.splitlines()


@pytest.mark.parametrize(("settings", "keys"), [*zip(ROWS[::2], ROWS[1::2], strict=True)])
def test_a_recorded_run_keeps_its_name(settings, keys):
    """And so does the world it belongs to, after which checkpoints are named."""
    found = Experiment.parse({}, settings.split())
    assert [found.key(), found.world_key()] == keys.split()
