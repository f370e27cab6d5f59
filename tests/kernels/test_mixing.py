"""Mixing, and what passes over X beside it, are what plain torch computes in float64."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from conftest import small
from kernel_laws import (
    CUDA,
    DEVICE,
    PRECISIONS,
    distance,
    needs_triton,
    numbers,
    runs_kernels,
    weights,
)
from skerry.engine.mixer import Mixer
from skerry.kernels.precision import arithmetic
from skerry.network.fleet import Block, build_fleet

pytestmark = needs_triton


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("count", "shared", "size"), [(1, True, 5), (3, False, 16), (2, True, 90)])
def test_mixing_is_the_product_with_w(precision, count, shared, size):
    """Neighbouring components with one W or with their own; nothing outside them changes."""
    from skerry.kernels.mixing import mix_in_place

    W = weights(1 if shared else count, size)
    X = 3 + numbers(count * size + 4, 700)
    exact = X.double()
    inner = exact[2:-2].view(count, size, -1)
    exact[2:-2] = (W.double() @ inner).reshape(count * size, -1)
    with arithmetic(precision):
        mix_in_place(X[2:-2], W)
    assert distance(X, exact) < 1e-5
    assert torch.equal(X[:2].double(), exact[:2])
    assert torch.equal(X[-2:].double(), exact[-2:])


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("count", "shared", "size"), [(1, True, 5), (3, False, 16), (2, True, 90)])
def test_what_mixing_takes_is_collected(precision, count, shared, size):
    """X is mixed, and Z gains what X lost, times the scale of its lane. The two lie in arrays of
    different widths, as lanes and companions do."""
    from skerry.kernels.mixing import mix_and_collect

    W, scale = weights(1 if shared else count, size), numbers(5, seed=2)
    X, Z = 3 + numbers(count * size, 900)[:, 100:800], numbers(count * size, 800, seed=3)[:, :700]
    before, Z_before = X.double(), Z.double()
    exact = (W.double() @ before.view(count, size, -1)).reshape(count * size, -1)
    collected = Z_before + (before - exact) * scale.double().repeat_interleave(140)
    with arithmetic(precision):
        mix_and_collect(X, W, Z, scale)
    # Rounded is what differs between models, about as much as they are large here.
    tolerance = 3e-6 if precision == "float32" else 1e-4
    assert distance(X, exact) < tolerance
    assert distance(Z, collected) < 3 * tolerance


@runs_kernels
@pytest.mark.parametrize("count", [1, 7, 33])
def test_what_sharing_takes_is_collected(count):
    """The sampled rows become their mean, others stay; Z gains what its row lost."""
    from skerry.kernels.sharing import share_and_collect

    X, Z = 3 + numbers(40, 3, 300), numbers(40, 5, 300, seed=1)[:, 1:4]
    sampled = torch.arange(39, -1, -1, device=DEVICE)[:count]
    scale = numbers(3, 1, seed=2)
    x, z = X.double(), Z.double()
    mean = x[sampled].mean(dim=0)
    z[sampled] += (x[sampled] - mean) * scale.double()
    x[sampled] = mean
    share_and_collect(X, sampled, Z, scale)
    assert distance(X, x) < 1e-6
    assert distance(Z, z) < 1e-6
    assert torch.equal(X[0].double(), x[0])


@runs_kernels
def test_tracking_in_one_pass_on_either_side_of_a_step():
    """As the plain operations do it; a lane whose stepsize is 0 has no gradient."""
    from skerry.kernels.tracking import arrive, set_out

    start, G, Y, last = (numbers(3, 4, 1500, seed=seed) for seed in range(4))
    Y, last = (torch.cat([one, one], dim=1)[:, 2:6] for one in (Y, last))
    eta = torch.tensor([[0.5], [0.0], [0.25], [1.0]], device=DEVICE)
    stepped = start - eta * G
    gradient = torch.where(eta > 0, (start - stepped) / eta.clamp(min=1e-9), 0)
    y, X = Y - last + gradient, start.clone()
    set_out(X, Y, last)
    assert torch.equal(X, start)
    X.copy_(stepped)
    arrive(X, Y, last, eta)
    for found, exact in ((last, gradient), (Y, y), (X, start - eta * y)):
        torch.testing.assert_close(found, exact)


@runs_kernels
@pytest.mark.skipif(not CUDA, reason="the interpreter knows no bfloat16")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_rounded_mixing_rounds_the_disagreement_and_not_the_models(precision):
    """Models that agree stay as they are, to the bit; those that nearly agree stay near."""
    from skerry.kernels.mixing import mix_in_place

    same = numbers(1, 3000).expand(20, -1).contiguous()
    before, W = same.clone(), weights(1, 20)
    with arithmetic(precision):
        mix_in_place(same, W)
        assert torch.equal(same, before)
        near = before + 1e-4 * numbers(20, 3000, seed=2)
        exact = W[0].double() @ near.double()
        mix_in_place(near, W)
    assert ((near.double() - exact).norm() / (exact - before.double()).norm()).item() < 2e-3


@runs_kernels
def test_the_spread_around_a_mean_far_from_the_origin():
    from skerry.kernels.spread import component_spread

    X = 100 + numbers(37, 3, 500)
    mean, away = component_spread(X[:, 1:])
    exact = X[:, 1:].double()
    around = exact - exact.mean(dim=0)
    assert distance(mean, exact.mean(dim=0)) < 1e-6
    assert distance(away, around.square().sum(dim=(0, 2))) < 1e-4


@runs_kernels
def test_weights_that_are_not_symmetric_mix_as_they_are():
    """x_i <- sum_j W[j, i] x_j, where one W serves two islands."""
    W = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]])
    X = numbers(8, 2, 40)
    exact = torch.from_numpy(W.T.copy()).to(DEVICE) @ X.double().view(2, 4, 80)
    fleet = SimpleNamespace(fixed=True, blocks=lambda *_: [Block(0, 4, W), Block(4, 4, W)])
    Mixer(fleet, torch.device(DEVICE), torch.float32).mix(X, 0)
    assert distance(X.view(2, 4, 80), exact) < 1e-6


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
@pytest.mark.parametrize("settings", [(), ("network.dynamic=true",)])
def test_large_islands_mix_in_float32(settings, monkeypatch):
    """By few products of torch, some islands at a time, with one W or with their own."""
    from skerry.engine import mixer

    experiment = small("network.devices=300", "network.components=3", "data.samples=600", *settings)
    fleet = build_fleet(experiment.network, 0)
    X = numbers(300, 2, 40)
    exact = torch.from_numpy(fleet.matrix(3).T.toarray()).to(DEVICE) @ X.double().view(300, 80)
    monkeypatch.setattr(mixer, "PRODUCT_BYTES", 2 * X[:100].nbytes)
    mixer.Mixer(fleet, torch.device(DEVICE), torch.float32).mix(X, 3)
    assert distance(X.view(300, 80), exact) < 1e-6
