"""The engine against a trajectory worked out exactly, by enumerating every sample S."""

from dataclasses import fields
from itertools import combinations

import numpy as np
import pytest
import torch

from skerry.config.experiment import Experiment, Model, Network, Server, Training
from skerry.data.sources.catalog import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, World, build_world
from skerry.measure.disagreement import spread


class Scripted(World):
    """A world whose server meets the devices it is told to."""

    sample: tuple[int, ...] = ()

    def server_order(self, t):
        others = [i for i in range(self.n) if i not in self.sample]
        return torch.tensor([*self.sample, *others])


def scripted(world, sample):
    copy = Scripted(**{f.name: getattr(world, f.name) for f in fields(World)})
    object.__setattr__(copy, "sample", sample)
    return copy


@pytest.fixture(scope="module")
def experiment():
    """f_i = (x - b_i)^2 / 2 with b = (1, 2, 3, 6), components {0, 1} and {2, 3},
    W = (I + Pi_C) / 2, x0 = 0, eta = .1, H = 2, K = 2."""
    return Experiment(
        rounds=2,
        network=Network(devices=4, topology="complete", mixing="lazy"),
        model=Model(name="quadratic"),
        data={"scaling": "unit"},
        training=Training(batch=1, stepsize=0.1),
        server=Server(sampled=2, period=2),
    )


@pytest.fixture(scope="module")
def world(experiment):
    b, labels = np.array([[1.0], [2], [3], [6]]), np.arange(4)
    dataset = from_arrays(b, labels, b, labels)
    return build_world(experiment, Materials(dataset=dataset), dtype=torch.float64)


@pytest.fixture(scope="module")
def expectations(experiment, world):
    """Means over all S of gap, D_intra/n, D_inter/n, by (primitive, rounds done)."""
    primitives = ("s2s", "s2a", "blend")
    lanes = [experiment.with_settings(f"server.primitive={p}") for p in primitives]
    found = {}
    for sample in combinations(range(4), 2):
        stack = build_stack(scripted(world, sample), lanes)
        for moment in simulate(stack):
            if moment.phase != "end":
                continue
            now = spread(moment.state.X_nld, world.sizes)
            gap_l = (now.average_ld[:, 0] - 3).square() / 2
            for lane, e in enumerate(stack.experiments):
                values = (gap_l[lane], now.intra_l[lane], now.inter_l[lane])
                found.setdefault((e.server.primitive, moment.round), []).append(
                    [float(v) for v in values]
                )
    return {key: np.mean(values, axis=0) for key, values in found.items()}


@pytest.mark.parametrize(
    ("primitive", "rounds", "gap", "intra", "inter"),
    [
        ("s2s", 1, 3.645000, 0.005573, 0.011510),
        ("s2a", 1, 3.649271, 0, 0),
        ("s2s", 2, 2.952450, 0.006129, 0.058823),
        ("s2a", 2, 2.955909, 0.003125, 0.022500),
    ],
)
def test_expected_gap_and_disagreement(expectations, primitive, rounds, gap, intra, inter):
    assert expectations[primitive, rounds] == pytest.approx([gap, intra, inter], abs=1e-6)


def test_s2s_keeps_the_average_on_its_course_whatever_is_sampled(expectations):
    """With identical Hessians the gap is 4.5 * .81^t."""
    for rounds in (1, 2):
        assert expectations["s2s", rounds][0] == pytest.approx(4.5 * 0.81**rounds, abs=1e-12)


def test_blend_keeps_a_quarter_of_the_disagreement_at_beta_one_half(expectations):
    assert expectations["blend", 1][1:] == pytest.approx(0.25 * expectations["s2s", 1][1:])
