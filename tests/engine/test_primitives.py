"""The laws of S2S, S2A and the dial between them (one D2S round)."""

import warnings
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry.config.experiment import Experiment, Server
from skerry.engine.primitives import blend, s2a, s2s
from skerry.engine.server import FedAdam, FedAvg, FedAvgM, FedAvgMOfAverages, FedYogi
from skerry.engine.world import build_world
from skerry.errors import SkerryWarning, warn_once
from skerry.measure.disagreement import spread


@st.composite
def fleets(draw):
    """Random models of n devices in two lanes, component sizes, and a sample of K of them."""
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    n = sum(sizes)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    X = torch.randn(n, 2, 3, dtype=torch.float64, generator=generator)
    K = draw(st.integers(1, n))
    return X, sizes, torch.randperm(n, generator=generator)[:K]


def after(primitive, X, sampled, beta=0.5):
    X, server = X.clone(), Server(primitive=primitive.__name__, beta=beta)
    told = server.options_for("primitive")
    receivers = primitive(X, sampled, X[sampled].mean(dim=0), **told)
    return X, receivers


def disagreement(X):
    return (X - X.mean(dim=0)).square().sum(dim=(0, 2))


def bias(before, now):
    return len(now) * (now.mean(dim=0) - before.mean(dim=0)).square().sum(dim=1)


@given(fleets())
def test_s2s_never_moves_the_global_average(fleet):
    X, _, sampled = fleet
    now, receivers = after(s2s, X, sampled)
    assert torch.allclose(now.mean(dim=0), X.mean(dim=0))
    assert receivers == len(sampled)


@given(fleets())
def test_s2a_ends_disagreement(fleet):
    X, _, sampled = fleet
    now, receivers = after(s2a, X, sampled)
    assert torch.equal(now, X[sampled].mean(dim=0).expand_as(X))
    assert receivers == len(X)


@given(fleets(), st.floats(0, 1))
def test_blend_scales_disagreement_by_one_minus_beta_squared_and_bias_by_beta_squared(fleet, beta):
    X, _, sampled = fleet
    now, _ = after(blend, X, sampled, beta)
    by_s2s, _ = after(s2s, X, sampled)
    by_s2a, _ = after(s2a, X, sampled)
    assert torch.allclose(disagreement(now), (1 - beta) ** 2 * disagreement(by_s2s), atol=1e-9)
    assert torch.allclose(bias(X, now), beta**2 * bias(X, by_s2a), atol=1e-9)


@given(fleets())
def test_blend_sends_to_all_unless_beta_is_zero(fleet):
    X, _, sampled = fleet
    assert after(blend, X, sampled, 0.0)[1] == len(sampled)
    assert after(blend, X, sampled, 0.3)[1] == len(X)


@pytest.mark.parametrize(
    ("K", "kept", "moved"),
    [(1, 14, 14), (2, 9.333333, 4.666667), (3, 4.666667, 1.555556), (4, 0, 0)],
)
def test_means_over_all_samples_are_delta_and_kappa(K, kept, moved):
    """X = [1, 2, 3, 6] has D = 14; E D = delta D under S2S, E bias = kappa D under S2A."""
    X = torch.tensor([1.0, 2, 3, 6], dtype=torch.float64).view(4, 1, 1)
    samples = [torch.tensor(s) for s in combinations(range(4), K)]
    by_s2s = torch.stack([disagreement(after(s2s, X, s)[0]) for s in samples])
    by_s2a = torch.stack([bias(X, after(s2a, X, s)[0]) for s in samples])
    assert by_s2s.mean().item() == pytest.approx(kept, abs=1e-6)
    assert by_s2a.mean().item() == pytest.approx(moved, abs=1e-6)


@given(fleets(), st.floats(0, 1))
def test_means_over_all_samples_for_any_models(fleet, beta):
    X, _, sampled = fleet
    n, K = len(X), len(sampled)
    if n < 2 or n > 7:
        return
    D = disagreement(X)
    samples = [torch.tensor(s) for s in combinations(range(n), K)]
    now = [after(blend, X, s, beta)[0] for s in samples]
    delta = (n - K) / (n - 1)
    mean_D = torch.stack([disagreement(x) for x in now]).mean(dim=0)
    mean_bias = torch.stack([bias(X, x) for x in now]).mean(dim=0)
    assert torch.allclose(mean_D, (1 - beta) ** 2 * delta * D, atol=1e-9)
    assert torch.allclose(mean_bias, beta**2 * delta / K * D, atol=1e-9)


@given(fleets())
def test_disagreement_splits_into_inside_and_across(fleet):
    """D = D_intra + D_inter; one component has nothing across, single devices nothing inside."""
    X, sizes, _ = fleet
    found = spread(X, sizes)
    assert torch.allclose(len(X) * found.total_l, disagreement(X))
    assert torch.allclose(found.average_ld, X.mean(dim=0))
    if len(sizes) == 1:
        assert torch.allclose(found.inter_l, torch.zeros(2, dtype=X.dtype))
    if set(sizes) == {1}:
        assert torch.allclose(found.intra_l, torch.zeros(2, dtype=X.dtype))


def test_fedavg_delivers_the_average():
    average = torch.ones(2, 3)
    assert FedAvg.deliver(FedAvg.start(average), average) is average


def test_fedavgm_follows_its_recursion():
    """v <- m v + (y - xhat), y <- y - v, by hand for two meetings."""
    told = {"dampening": 0.0, "learning_rate": None}
    memory = FedAvgM.start(torch.tensor([[1.0]]))
    first = FedAvgM.deliver(memory, torch.tensor([[3.0]]), momentum=0.5, **told).clone()
    assert first.item() == 3.0  # v = 1 - 3 = -2, y = 1 + 2
    second = FedAvgM.deliver(memory, torch.tensor([[4.0]]), momentum=0.5, **told)
    assert second.item() == 5.0  # v = -1 + (3 - 4) = -2, y = 3 + 2


def test_fedavgm_takes_a_learning_rate_and_dampening():
    """v <- m v + (1 - dampening) (y - xhat), y <- y - learning_rate v."""
    memory = FedAvgM.start(torch.tensor([[1.0]]))
    told = {"momentum": 0.5, "dampening": 0.5, "learning_rate": 0.5}
    found = FedAvgM.deliver(memory, torch.tensor([[3.0]]), **told)
    assert found.item() == 1.5  # v = -1, y = 1 + 0.5


def test_momentum_of_averages_delivers_averages_that_stand_still():
    """By hand: u = 2 and 2 + 1 / 2 * 2 - 1; without a move u dies out, and xhat is delivered."""
    memory = FedAvgMOfAverages.start(torch.tensor([[1.0]]))
    told = {"momentum": 0.5, "learning_rate": None}
    averages = (3.0, 4.0, *([4.0] * 60))
    found = [
        FedAvgMOfAverages.deliver(memory, torch.tensor([[a]]), **told).item() for a in averages
    ]
    assert found[:2] == [4.0, 5.0]  # 3 + 2 / 2; u = 1 + 1, 4 + 2 / 2
    assert found[-1] == pytest.approx(4.0)


@pytest.mark.parametrize(("optimizer", "v"), [(FedAdam, 0.04 * 0.75 + 0.25), (FedYogi, 0.29)])
def test_fedadam_and_fedyogi_by_hand(optimizer, v):
    """y = 0, v = 0.04, xhat = 1: m = 0.5, and v goes a quarter of the way to 1, or up by 1/4."""
    memory = {name: torch.tensor([[start]]) for name, start in (("y", 0), ("m", 0.0), ("v", 0.04))}
    memory["y"] = memory["y"].float()
    told = {"momentum": 0.5, "second_momentum": 0.75, "smallest": 0.1, "learning_rate": 0.2}
    found = optimizer.deliver(memory, torch.tensor([[1.0]]), **told)
    assert found.item() == pytest.approx(0.2 * 0.5 / (v**0.5 + 0.1))


@pytest.mark.parametrize(
    ("primitive", "told"),
    [("bad_plugins:works_on_a_copy", 1), ("good_plugins:pull", 0), ("s2s", 0)],
)
def test_a_primitive_that_changes_nothing_is_told(primitive, told):
    """A run without a server would look like one with it."""
    strength = {"strength": 0.5} if primitive.endswith("pull") else {}
    table = {"server": {"primitive": primitive, "sampled": 3, **strength}, "rounds": 1}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_once.cache_clear()
        (lane, _) = skerry.run(Experiment.parse(table, ["network.devices=6"]), seeds=2)
    lines = [str(one.message) for one in heard if one.category is SkerryWarning]
    assert lane.status == "finished"
    assert len(lines) == told
    assert all(
        line.startswith("primitive 'bad_plugins:works_on_a_copy' leaves all models as they are")
        for line in lines
    )


def test_alone_a_device_may_stay_as_it_is():
    """The average of one is that one."""
    from skerry.engine.rehearsal import rehearse

    table = {"server": {"primitive": "bad_plugins:works_on_a_copy", "sampled": 1}}
    base = Experiment.parse(table, ["network.devices=1", "network.components=1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_once.cache_clear()
        rehearse(build_world(base), [base])
