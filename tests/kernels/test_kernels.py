"""The fused kernels compute what plain torch computes in float64, within their precision.

They run on a GPU; without one, in Triton's interpreter, which a process must choose before Triton
is imported: the last test starts one for all the others. The interpreter knows no bfloat16.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from conftest import small
from skerry.engine.mixer import Mixer
from skerry.kernels import fused
from skerry.kernels.precision import arithmetic
from skerry.models import blocks
from skerry.models.learner import Batch, Drawn, Problem
from skerry.models.linear import LinearLearner
from skerry.models.module import ModuleLearner
from skerry.network.fleet import Block, build_fleet
from skerry.tasks.classification import USUAL as CLASSIFICATION

CUDA = torch.cuda.is_available()
HERE = CUDA or os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if CUDA else "cpu"
TOLERANCE = {"float32": 3e-6, "tf32": 2e-3, "bf16": 2e-2}
"""Of ||found - exact|| / ||exact||: 24, 11 and 8 bits of mantissa, with room for sums."""
PRECISIONS = list(TOLERANCE) if CUDA else ["float32"]

runs_kernels = pytest.mark.skipif(not HERE, reason="needs CUDA, or Triton's interpreter")
pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE)


def distance(found, exact):
    exact = exact.to(found.device)
    return ((found.double() - exact).norm() / exact.norm()).item()


def weights(count, size):
    W = numbers(count, size, size, seed=1).abs()
    return W / W.sum(dim=2, keepdim=True)


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


class Noted:
    """A kernel that notes how it is started, and does nothing."""

    def __init__(self):
        self.grids, self.given, self.told = [], [], []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda *given, **more: (self.given.extend(given), self.told.append(more))


@pytest.mark.parametrize("kernel", ["sharing._share", "spread._spread", "tracking._set_out"])
def test_grids_have_room_for_models_of_any_size(kernel, monkeypatch):
    """Beyond the first axis a grid ends at 65,535; here a model has 80 million numbers."""
    from skerry.kernels import sharing, spread, tracking

    noted = Noted()
    monkeypatch.setattr(f"skerry.kernels.{kernel}", noted)
    X, sampled = torch.empty(70_000, 2, 80_000_000, device="meta"), torch.arange(3)
    {
        "sharing._share": lambda: sharing.share_and_collect(X, sampled, X, torch.ones(2, 1)),
        "spread._spread": lambda: spread.component_spread(X),
        "tracking._set_out": lambda: tracking.set_out(X, X, X),
    }[kernel]()
    assert max(noted.grids[0][1:], default=1) <= 65_535


@pytest.mark.parametrize("kernel", ["_forward", "_weight_sums", "_pooled_weight_sums"])
def test_grids_of_convolutions_have_room_for_any_number_of_models(kernel, monkeypatch):
    from skerry.kernels import convolution, convolution_weights

    noted, models, tile = Noted(), 70_000, convolution.Tile(32, 32, 4, 2)
    here = convolution if kernel == "_forward" else convolution_weights
    monkeypatch.setattr(here, kernel, noted)

    def new(*shape):
        return torch.empty(models, *shape, device="meta")

    x, y, G = new(2, 8, 8, 3), new(2, 3, 3, 5), new(2, 6, 6, 5)
    {
        "_forward": lambda: here.forward(x, new(27, 5), None, 3, 0, 2, "relu", tile),
        "_weight_sums": lambda: here.weight_sums(x, G, 3, 0, tile),
        "_pooled_weight_sums": lambda: here.pooled_weight_sums(x, y, y, y, 3, "relu", tile),
    }[kernel]()
    assert max(noted.grids[0][1:]) <= 65_535


def test_places_in_a_very_large_batch_need_64_bits(monkeypatch):
    """Here a model's own gradients are more than 2^31 numbers, though its images are not."""
    import triton.language as tl

    from skerry.kernels import convolution, convolution_weights

    noted = Noted()
    monkeypatch.setattr(convolution_weights, "_weight_sums", noted)
    for size in (10, 20_000):
        x = torch.empty(1, size, 32, 32, 3, device="meta")
        G = torch.empty(1, size, 30, 30, 128, device="meta")
        convolution_weights.weight_sums(x, G, 3, 0, convolution.Tile(32, 32, 4, 2))
    assert [told["PLACE"] for told in noted.told] == [tl.int32, tl.int64]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_forecast_has_room_for_what_a_first_convolution_holds(precision, monkeypatch):
    """All that its kernels are given on the way back: images with a frame around them, too."""
    from skerry.kernels import convolution, convolution_weights

    noted, models, size = Noted(), 5000, 20
    monkeypatch.setattr(convolution, "_forward", Noted())
    for kernel in ("_before_pool", "_weight_sums", "_pooled_weight_sums"):
        monkeypatch.setattr(convolution_weights, kernel, noted)
    monkeypatch.setattr(fused, "runs_on", lambda X: True)
    monkeypatch.setattr(blocks, "fastest", lambda question, ways, run: ways[0])
    slot = blocks.Slot(0, (32, 3, 5, 5))
    block = blocks.Convolution(slot, None, 2, 2, blocks.Activation("relu"), (8, 8))
    X = torch.empty(models, 2400, device="meta")
    with arithmetic(precision):
        y, kept = block.forward(X, torch.empty(models, size, 8, 8, 3, device="meta"), None)
        block.backward(X, kept, torch.empty_like(y), onward=False)
        forecast = block.memory(size, True, y.itemsize, onward=False)
    held = {id(array): array.nbytes for array in noted.given if isinstance(array, torch.Tensor)}
    assert sum(held.values()) <= models * sum(forecast)


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
@pytest.mark.parametrize("way", ["torch", "128 x 128", "64 x 128"])
def test_the_update_inside_a_product(way):
    """In every way, on views that leave gaps; what lies in the gaps is not touched."""
    from skerry.kernels.products import _subtract

    flat = numbers(2, 150 * 90 + 8)
    W, P, x = flat[:, 4:-4].view(2, 150, 90), numbers(2, 50, 150).mT, numbers(2, 50, 90, seed=4)
    exact, edges = (
        W.double() - P.double() @ x.double(),
        flat[:, [0, 1, 2, 3, -4, -3, -2, -1]].clone(),
    )
    with arithmetic("tf32"):
        _subtract(W, P, x, way)
    assert distance(W, exact) < TOLERANCE["tf32"]
    assert torch.equal(flat[:, [0, 1, 2, 3, -4, -3, -2, -1]], edges)


@runs_kernels
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_softmax_gradient_is_autograds(classes):
    from skerry.kernels.softmax import softmax_gradient

    n, lanes, size = 2, 3, 37
    Z = 5 * numbers(n * lanes, classes, size)
    y = torch.arange(n * size, device=DEVICE).view(n, size) % classes
    scale = torch.tensor([0.1, 1.0, 3.0], device=DEVICE)
    at = Z.double().requires_grad_()
    labels = y.repeat_interleave(lanes, dim=0)
    losses = nn.functional.cross_entropy(at, labels, reduction="none").mean(dim=1)
    (gradient,) = torch.autograd.grad(size * losses.sum(), at)
    found = softmax_gradient(Z, y, scale)
    assert distance(found.flatten(), losses.detach()) < 1e-6
    assert distance(Z, gradient * scale.double().repeat(n).view(-1, 1, 1)) < 1e-6


@runs_kernels
@pytest.mark.parametrize("samples_last", [True, False])
def test_guesses_and_losses_on_a_test_set(samples_last):
    """In either layout of the scores."""
    from skerry.kernels.softmax import cross_entropies, guesses

    scores = numbers(4, 300, 10)
    Z = scores.mT.contiguous() if samples_last else scores.mT
    y = torch.arange(300, device=DEVICE) % 10
    exact = [nn.functional.cross_entropy(one, y) for one in scores.double()]
    assert torch.equal(guesses(Z).long(), scores.argmax(dim=2))
    assert distance(cross_entropies(Z, y), torch.stack(exact)) < 1e-6


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
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("side", "padding", "pool", "inputs", "outputs"),
    [(5, 0, 2, 3, 20), (3, 1, 1, 3, 20), (5, 2, 2, 3, 20), (3, 0, 2, 1, 5), (3, 1, 1, 3, 1)],
)
def test_convolutions_for_many_models(precision, merged, side, padding, pool, inputs, outputs):
    """Forward with bias, pooling of an odd side and ELU; the gradients of images and weights. With
    a single channel or output, weights in another order are still a view of the same memory."""
    from skerry.kernels import convolution as kernels
    from skerry.kernels.convolution_weights import weight_sums

    n, lanes, size, height = 2, 2, 2, 11
    models, tile = n * lanes, kernels.Tile(128, 32, 4, 2, merged)
    x, W = (
        numbers(n, size, height, height, inputs),
        0.2 * numbers(models, outputs, inputs, side, side),
    )
    b = numbers(models, outputs, seed=2)
    images = x.double().repeat_interleave(lanes, dim=0).movedim(-1, 2).requires_grad_()
    factors = W.double().requires_grad_()
    z = torch.stack([
        nn.functional.conv2d(image, w, padding=padding)
        for image, w in zip(images, factors, strict=True)
    ])  # fmt: skip
    biased = (z + b.double()[:, None, :, None, None]).flatten(0, 1)
    y_exact = nn.functional.elu(nn.functional.max_pool2d(biased, pool)).unflatten(0, (models, size))
    G = numbers(*z.shape, seed=3)
    d_images, d_W = torch.autograd.grad(z, [images, factors], G.double())

    with arithmetic(precision):
        dtype = kernels.dtype_of_products()
        w_mko = W.permute(0, 3, 4, 2, 1).reshape(models, -1, outputs).to(dtype)
        y, _ = kernels.forward(x.to(dtype), w_mko, b, side, padding, pool, "elu", tile)
        G_last = G.movedim(2, -1).contiguous().to(dtype)
        sums = weight_sums(x.to(dtype), G_last, side, padding, tile)
        w_mkc = W.flip(3, 4).permute(0, 3, 4, 1, 2).reshape(models, -1, inputs).to(dtype)
        back, _ = kernels.forward(G_last, w_mkc, None, side, side - 1 - padding, 1, "none", tile)
    tolerance = TOLERANCE[precision]
    assert distance(y.movedim(-1, 2), y_exact.detach()) < tolerance
    assert distance(sums.permute(0, 4, 3, 1, 2), d_W) < tolerance
    assert distance(back.movedim(-1, 2), d_images) < tolerance


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("inputs", "models", "shape", "sides", "stride", "padding"),
    [
        (1, 1, (2, 3, 9, 8), (3, 3), 1, 1),
        (1, 2, (1, 3, 9, 8), (3, 2), 2, 1),
        (2, 4, (1, 7, 5, 4), (1, 1), 2, 0),
        (1, 1, (1, 70, 3, 3), (1, 1), 1, 0),
        (2, 2, (3, 2, 8, 8), (2, 2), 3, 0),
    ],
)
def test_weights_of_each_model_on_images_with_channels_first(
    precision, inputs, models, shape, sides, stride, padding
):
    """A convolution and both of its gradients. Models may share an input; images, channels and taps
    go beyond a tile."""
    from skerry.kernels import weights_of_each as kernels

    x = numbers(inputs, *shape)
    w = 0.2 * numbers(models, shape[1] + 1, shape[1], *sides, seed=1)
    images = x.double().repeat_interleave(models // inputs, dim=0).requires_grad_()
    factors = w.double().requires_grad_()
    y = torch.stack([
        nn.functional.conv2d(image, one, stride=stride, padding=padding)
        for image, one in zip(images, factors, strict=True)
    ])  # fmt: skip
    g = numbers(*y.shape, seed=2)
    dx, dw = torch.autograd.grad(y, [images, factors], g.double())
    with arithmetic(precision):
        if precision == "bf16":
            x, g = (tensor.bfloat16() for tensor in (x, g))
        found = kernels.convolve(x, w, stride, padding)
        found_dx = kernels.input_gradient(g, w, shape[2:], stride, padding)
        found_dw = kernels.weight_gradient(x, g, sides, stride, padding)
    assert distance(found, y.detach()) < TOLERANCE[precision]
    assert distance(found_dx, dx) < TOLERANCE[precision]
    assert distance(found_dw, dw) < TOLERANCE[precision]


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("groups", "wide", "each"), [(3, 2, 10), (1, 37, 1)])
def test_norms_of_many_models(precision, groups, wide, each):
    """Group norm with two channels a group, and layer norm, which has a weight for every number;
    forward and all gradients."""
    from skerry.kernels.norms import gradients, normalize

    models, samples = 2, 5
    x, g = (1 + numbers(models, samples, groups, wide, each, seed=seed) for seed in (0, 1))
    w, b = (numbers(models, groups, wide, seed=seed) for seed in (2, 3))
    exact = [one.double().requires_grad_() for one in (x, w, b)]
    rows = nn.functional.layer_norm(exact[0], (wide, each))
    y = rows * exact[1][:, None, ..., None] + exact[2][:, None, ..., None]
    slopes = torch.autograd.grad(y, exact, g.double())
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    rows, told = (models, samples * groups, wide * each), (groups, each, 1e-5)
    x, g, w, b = x.view(rows), g.view(rows).to(dtype), w.flatten(1), b.flatten(1)
    found = normalize(x, w, b, *told, dtype)
    assert distance(found, y.detach().view(rows)) < TOLERANCE[precision]
    for ours, theirs in zip(gradients(g, x, w, *told), slopes, strict=True):
        assert distance(ours, theirs.view(ours.shape)) < TOLERANCE[precision]


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("tokens", "width", "causal"), [(16, 16, False), (21, 5, True)])
def test_attention_over_short_sequences(precision, tokens, width, causal):
    from skerry.kernels.attention import attend, gradients

    q, k, v, g = (numbers(3, tokens, width, seed=seed) for seed in range(4))
    exact = [one.double().requires_grad_() for one in (q, k, v)]
    y = nn.functional.scaled_dot_product_attention(*exact, is_causal=causal, scale=0.4)
    slopes = torch.autograd.grad(y, exact, g.double())
    with arithmetic(precision):
        if precision == "bf16":
            q, k, v, g = (one.bfloat16() for one in (q, k, v, g))
        assert distance(attend(q, k, v, 0.4, causal), y.detach()) < TOLERANCE[precision]
        for ours, theirs in zip(gradients(g, q, k, v, 0.4, causal), slopes, strict=True):
            assert distance(ours, theirs) < TOLERANCE[precision]


class Mixed(nn.Module):
    """Of all that is computed for many models at once."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, (1, 2)), nn.Conv2d(4, 8, 1)
        self.norm = nn.GroupNorm(2, 4)
        self.layer = nn.TransformerEncoderLayer(8, 1, 8, dropout=0, batch_first=True)

    def forward(self, x):
        y = self.second(torch.relu(self.norm(self.first(x))))
        return self.layer(y.flatten(2).mT).square().mean()


@runs_kernels
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_batches_a_module_into_operations_of_many_models(monkeypatch):
    """Over devices and lanes, of which the first layer's share their images; no operation is left
    to torch."""
    from skerry.models import batched

    torch.manual_seed(0)
    module = Mixed().to(DEVICE)
    taken = []
    for name in ("convolved", "normalized", "attended"):
        real = getattr(batched, name)
        monkeypatch.setattr(
            batched, name, lambda *given, real=real, name=name: taken.append(name) or real(*given)
        )

    def gradients(parameters, x):
        def loss(parameters, x):
            return torch.func.functional_call(module, parameters, (x,))

        of_lanes = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))
        return torch.func.vmap(of_lanes)(parameters, x)

    given = {
        name: 0.3 * numbers(2, 2, *parameter.shape, seed=seed) + parameter.detach()
        for seed, (name, parameter) in enumerate(module.named_parameters())
    }
    x = numbers(2, 2, 2, 2, 4)
    exact = gradients({name: one.double() for name, one in given.items()}, x.double())
    with batched.AllAtOnce():
        found = gradients(given, x)
    for name, ours in found.items():
        assert distance(ours, exact[name]) < 1e-5, name
    assert sorted(taken) == ["attended", *["convolved"] * 2, *["normalized"] * 3]


def odd_operations():
    """Calls that no kernel knows."""
    x, w = torch.randn(2, 4, 6, 6), torch.randn(4, 4, 3, 3, requires_grad=True)
    q, row = torch.randn(2, 3, 5, 4), torch.randn(2, 9)
    f = nn.functional
    return {
        "dilated": lambda: f.conv2d(x, w, dilation=2),
        "grouped": lambda: f.conv2d(x, w[:, :2], groups=2),
        "padded to the same size": lambda: f.conv2d(x, w, padding="same"),
        "two strides": lambda: f.conv2d(x, w, stride=(1, 2)),
        "frozen": lambda: f.conv2d(x, w.detach()),
        "no batch": lambda: f.conv2d(x[0], w),
        "in double precision": lambda: f.conv2d(x.double(), w.double()),
        "norm without weights": lambda: f.layer_norm(row, (9,)),
        "norm without bias": lambda: f.group_norm(x, 2, torch.ones(4)),
        "mask": lambda: f.scaled_dot_product_attention(q, q, q, torch.eye(5).bool()),
        "other keys": lambda: f.scaled_dot_product_attention(q, q[:, :, :2], q[:, :, :2]),
        "long": lambda: f.scaled_dot_product_attention(*[torch.ones(1, 1, 200, 4)] * 3),
    }


@pytest.mark.parametrize("kind", odd_operations())
def test_what_is_not_plain_stays_torchs(kind, monkeypatch):
    from skerry.models import batched

    for name in ("convolved", "normalized", "attended"):
        monkeypatch.delattr(batched, name)
    torch.manual_seed(0)
    operation = odd_operations()[kind]
    exact = operation()
    with batched.AllAtOnce():
        assert torch.equal(operation(), exact)


def test_a_wrong_shape_is_told_by_torch():
    from skerry.models.batched import AllAtOnce

    w = torch.zeros(4, 3, 3, 3, requires_grad=True)
    with AllAtOnce():
        with pytest.raises(RuntimeError, match="channels"):
            nn.functional.conv2d(torch.zeros(2, 2, 6, 6), w)
        with pytest.raises(RuntimeError, match="Kernel size"):
            nn.functional.conv2d(torch.zeros(2, 3, 2, 2), w.narrow(1, 0, 3))
        with pytest.raises(RuntimeError, match="weight"):
            nn.functional.group_norm(torch.zeros(2, 4, 6), 2, torch.ones(3), torch.ones(3))


@runs_kernels
@pytest.mark.parametrize("precision", ["bf16"] if CUDA else ["float32"])
@pytest.mark.parametrize("activation", ["none", "relu", "elu"])
def test_the_weights_gradient_without_the_gradient_before_pooling(precision, activation):
    """As autograd finds it, through pooling of an odd side; lanes share their images."""
    from skerry.kernels import convolution as kernels
    from skerry.kernels.convolution_weights import pooled_weight_sums

    n, lanes, size, side, inputs, outputs = 2, 2, 3, 3, 3, 20
    models, tile = n * lanes, kernels.Tile(32, 64, 4, 2)
    with arithmetic(precision):
        dtype = kernels.dtype_of_products()
    x = numbers(n, size, 11, 11, inputs).to(dtype)
    w = (0.2 * numbers(models, side, side, inputs, outputs, seed=1)).to(dtype)
    g = numbers(models, size, 4, 4, outputs, seed=3).to(dtype)
    factors, zeros = w.double().requires_grad_(), torch.zeros(models, outputs, dtype=torch.double)
    biases = zeros.to(DEVICE).requires_grad_()
    images = x.double().repeat_interleave(lanes, dim=0).movedim(-1, 2)
    act = {"none": lambda z: z, "relu": nn.functional.relu, "elu": nn.functional.elu}[activation]
    y = torch.stack([
        act(nn.functional.max_pool2d(nn.functional.conv2d(image, one.permute(3, 2, 0, 1), b), 2))
        for image, one, b in zip(images, factors, biases, strict=True)
    ])  # fmt: skip
    d_w, d_b = torch.autograd.grad(y, [factors, biases], g.double().movedim(-1, 2))

    with arithmetic(precision):
        y, winner = kernels.forward(
            x, w.flatten(1, 3), None, side, 0, 2, activation, kernels.Tile(128, 32, 4, 2)
        )
        sums, bias = pooled_weight_sums(x, g, y, winner, side, activation, tile)
    # Rounded values may tie in a window, and slopes are those of rounded values.
    tolerance = {"bf16": 5e-2}.get(precision, TOLERANCE[precision])
    assert distance(sums, d_w) < tolerance
    assert distance(bias, d_b) < tolerance


@runs_kernels
@pytest.mark.parametrize("precision", ["tf32", "bf16"] if CUDA else ["tf32"])
@pytest.mark.parametrize(("samples", "tile"), [(21, (16, 32, 4, 2)), (128, (64, 64, 4, 3))])
def test_dense_layers_on_views_with_gaps(precision, samples, tile):
    """Forward; then the step and the way back in one pass, with the weights before the step."""
    from skerry.kernels.dense import _back_on, _forward_on

    n, rows, columns = 2, 70, 90
    flat = 0.1 * numbers(n, rows * columns + 8)
    W, before = flat[:, 4:-4].view(n, rows, columns), flat.double()
    exact = before[:, 4:-4].view(n, rows, columns).clone()
    x, g = numbers(n, samples, columns, seed=1), numbers(n, samples, rows, seed=2)
    b = numbers(n, rows, seed=3)
    y_exact = nn.functional.elu(x.double() @ exact.mT + b.double().unsqueeze(1))
    with arithmetic(precision):
        y = _forward_on(x, W, b, "elu", tile)
        back = _back_on(W, g, x, True, tile)
        change = W.double() - exact
        assert _back_on(W, g, x, False, tile) is None
    tolerance = TOLERANCE[precision]
    assert distance(y, y_exact) < tolerance
    assert distance(back, g.double() @ exact) < tolerance
    assert distance(change, -(g.double().mT @ x.double())) < tolerance
    assert distance(W.double() - exact, 2 * change) < 1e-5
    gaps = [0, 1, 2, 3, -4, -3, -2, -1]
    assert torch.equal(flat[:, gaps].double(), before[:, gaps])


@runs_kernels
@pytest.mark.parametrize("activation", ["relu", "elu"])
@pytest.mark.parametrize("merged", [False, True])
def test_a_model_that_diverged_shows_it(activation, merged):
    """Pooling and activation must not hide a NaN."""
    from skerry.kernels import convolution as kernels

    x, w = numbers(1, 2, 6, 6, 3), numbers(2, 27, 16)
    w[1] = torch.nan
    y, _ = kernels.forward(x, w, None, 3, 0, 2, activation, kernels.Tile(16, 16, 4, 2, merged))
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


@runs_kernels
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_first_convolution_steps_with_few_outputs(outputs, monkeypatch):
    """In bf16. For one output, the kernel that sums from behind the pooling does not compile."""
    from skerry.kernels import convolution_weights

    taken = []
    real = convolution_weights.pooled_weight_sums
    monkeypatch.setattr(
        convolution_weights, "pooled_weight_sums", lambda *given: taken.append(1) or real(*given)
    )
    if not CUDA:
        monkeypatch.setattr(fused, "sums_pooled", lambda pool, padding: (pool, padding) == (2, 0))
    weight = blocks.Slot(0, (outputs, 3, 3, 3))
    block = blocks.Convolution(weight, None, 0, 2, blocks.Activation("relu"), (6, 6))
    X = numbers(2, 27 * outputs)
    with arithmetic("bf16" if CUDA else "float32"):
        y, kept = block.forward(X, numbers(1, 2, 6, 6, 3), None)
        block.backward(X, kept, torch.ones_like(y), onward=False)
    assert X.isfinite().all()
    assert len(taken) == (outputs > 1)


@runs_kernels
def test_a_convolution_of_images_that_are_a_view():
    """As when someone scores models on turned images."""
    weight = blocks.Slot(0, (4, 3, 3, 3))
    block = blocks.Convolution(weight, None, 0, 1, blocks.Activation(), (6, 6))
    X, turned = numbers(2, 108), numbers(1, 2, 6, 6, 3).transpose(2, 3)
    assert torch.equal(*(block.forward(X, x, None)[0] for x in (turned, turned.contiguous())))


@runs_kernels
@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_a_nan_goes_the_way_back_too(activation):
    """As with torch: no activation stops it."""
    from skerry.kernels.convolution_weights import before_pool

    y = numbers(2, 1, 2, 2, 3)
    y[1] = torch.nan
    G = before_pool(torch.full_like(y, torch.nan), y, y, 2, 2, 1, activation)
    assert G[1].isnan().all()


@runs_kernels
def test_weights_that_are_not_symmetric_mix_as_they_are():
    """x_i <- sum_j W[j, i] x_j, where one W serves two islands."""
    W = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]])
    X = numbers(8, 2, 40)
    exact = torch.from_numpy(W.T.copy()).to(DEVICE) @ X.double().view(2, 4, 80)
    fleet = SimpleNamespace(fixed=True, blocks=lambda *_: [Block(0, 4, W), Block(4, 4, W)])
    Mixer(fleet, torch.device(DEVICE), torch.float32).mix(X, 0)
    assert distance(X.view(2, 4, 80), exact) < 1e-6


@runs_kernels
@pytest.mark.parametrize(
    ("features", "lanes", "programs"), [(5, 1, 4096), (64, 3, 4096), (100, 3, 4), (13, 5, 12)]
)
def test_a_linear_step_on_chip_is_the_step_in_float64(features, lanes, programs, monkeypatch):
    """Models, losses and padding, whether lanes of a device go together or apart."""
    from skerry.kernels import linear

    monkeypatch.setattr(linear, "PROGRAMS", programs)
    n, size, outputs = 6, 21, 7
    learner = LinearLearner(features, outputs, CLASSIFICATION)
    learner.to(torch.device(DEVICE), torch.float32)
    x = learner.prepare(numbers(50, features))
    y = torch.arange(50, device=DEVICE) % outputs
    rows = torch.arange(n * size, device=DEVICE).view(n, size) * 7 % 50
    eta = torch.linspace(0.1, 2, lanes, device=DEVICE)
    X = numbers(n, lanes, learner.d, seed=1)
    X.view(n, lanes, outputs, learner.p)[..., features + 1 :] = 0
    before, exact = X.double(), X.double()
    batch = Batch(x[rows].double(), y[rows], rows[:, 0])
    losses = learner.step(exact, batch, eta.double())
    with arithmetic("tf32"):
        assert learner.bytes_per_device(lanes, size) == 4 * lanes, "there is no other memory"
        found = learner.step(X, Drawn(x, y, rows, rows[:, 0]), eta)
    assert distance(X.double() - before, exact - before) < TOLERANCE["tf32"]
    assert distance(found, losses) < TOLERANCE["tf32"]
    assert not X.view(n, lanes, outputs, learner.p)[..., features + 1 :].any()


@runs_kernels
@pytest.mark.parametrize("shape", [(1,), (72,), (3, 7), (1024,)])
def test_gathered_samples_are_the_rows(shape):
    from skerry.kernels.gather import gather_rows

    table, rows = numbers(40, *shape), torch.arange(66, device=DEVICE).view(6, 11) * 13 % 40
    assert torch.equal(gather_rows(table, rows), table[rows])


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_more_devices_and_islands_than_a_grid_has_places():
    """65,535 along all axes but the first."""
    from skerry.kernels.mixing import mix_in_place
    from skerry.kernels.products import _subtract

    count, W = 70_000, weights(1, 2)
    X = numbers(2 * count, 8)
    exact = (W.double() @ X.double().view(count, 2, 8)).view(2 * count, 8)
    mix_in_place(X, W)
    assert distance(X, exact) < 1e-5
    A, P, x = numbers(count, 3, 8), numbers(count, 3, 4, seed=1), numbers(count, 4, 8, seed=2)
    exact = A.double() - P.double() @ x.double()
    _subtract(A, P, x, "64 x 128")
    assert distance(A, exact) < TOLERANCE["tf32"]


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
@pytest.mark.parametrize("settings", [(), ("network.dynamic=true",)])
def test_large_islands_mix_in_float32(settings, monkeypatch):
    """By few products of torch, some islands at a time, with one W or with their own."""
    from skerry.engine import mixer

    experiment = small("network.devices=300", "network.components=3", "data.samples=600", *settings)
    fleet = build_fleet(experiment.network, 0)
    X = numbers(300, 2, 40)
    exact = torch.from_numpy(fleet.matrix(3).T.toarray()).to(DEVICE) @ X.double().view(300, 80)
    monkeypatch.setattr(mixer, "TOGETHER", 2 * X[:100].nbytes)
    mixer.Mixer(fleet, torch.device(DEVICE), torch.float32).mix(X, 3)
    assert distance(X.view(300, 80), exact) < 1e-6


def deep(problem):
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 20, 3, padding=1), nn.ELU(),
        nn.Conv2d(20, 20, 3, bias=False), nn.MaxPool2d(2), nn.Dropout(0.3),
        nn.Flatten(), nn.Linear(20 * 2 * 2, 16), nn.ELU(), nn.Linear(16, 10),
    )  # fmt: skip


@runs_kernels
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 3e-6), ("tf32", 0.05), ("bf16", 0.25)]
)
def test_a_step_of_a_network_is_the_step_in_float64(precision, tolerance):
    """The rounded ones only nearly: where two pooled values are close, rounding picks another."""
    if precision not in PRECISIONS:
        pytest.skip("the interpreter knows no bfloat16, and does not round")
    assert max(errors_of_a_step(precision)) < tolerance


@runs_kernels
@pytest.mark.skipif(CUDA, reason="there, bf16 itself goes these ways, above")
def test_the_ways_of_bf16_take_the_same_step(monkeypatch):
    """In the interpreter, where nothing is rounded: dense layers by kernels, and no gradient before
    the first pooling."""
    monkeypatch.setattr(fused, "steps_dense", lambda X, samples: fused.runs_on(X))
    monkeypatch.setattr(fused, "sums_pooled", lambda pool, padding: (pool, padding) == (2, 0))
    assert max(errors_of_a_step("float32", n=1)) < 3e-6


def errors_of_a_step(precision, n=2):
    """Of the step, and of scores behind it, against float64."""
    lanes, size = 2, 3
    problem = Problem((3, 13, 13), classes=10, seed=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learner = ModuleLearner(deep(problem), problem)
    x = learner.prepare(numbers(n * size, 3, 13, 13).cpu()).view(n, size, 13, 13, 3)
    y = torch.arange(n * size).view(n, size) % 10
    keys = torch.tensor([5, 77])[:n]
    start = learner.initial().expand(n, lanes, -1)
    eta = torch.tensor([0.1, 0.5])

    exact = start.double().clone()
    learner.step(exact, Batch(x.double(), y, keys), eta.double())
    X = start.to(DEVICE).clone()
    assert fused.runs_on(X)
    with arithmetic(precision):
        learner.step(X, Batch(x.to(DEVICE), y.to(DEVICE), keys.to(DEVICE)), eta.to(DEVICE))
        scores = learner.scores(X.view(-1, learner.d), x[0].to(DEVICE))
    expected = learner.scores(exact.view(-1, learner.d), x[0].double())
    return distance(X.cpu() - start, exact - start), distance(scores.cpu(), expected)


def test_a_precision_leaves_torchs_settings_as_they_were():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    with arithmetic("tf32"):
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (True, True)
        with arithmetic("float32"):
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, False)
        assert matmul.allow_tf32
    assert (matmul.allow_tf32, cudnn.allow_tf32) == before


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_the_quickest_way_is_measured_once_and_remembered(tmp_path, monkeypatch):
    from skerry.kernels import choice

    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path))
    choice._answers.cache_clear()
    asked = []

    def run(seconds):
        asked.append(seconds)
        torch.cuda._sleep(int(seconds * 1e8))

    assert choice.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    first = len(asked)
    assert choice.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) == first
    choice._answers.cache_clear()  # as another process would find it
    assert choice.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) == first
    (tmp_path / "kernels.json").write_text("no JSON")
    choice._answers.cache_clear()
    assert choice.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) > first
    choice._answers.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(HERE, reason="they ran above")
def test_the_laws_hold_in_tritons_interpreter():
    """So that a change is checked where there is no GPU."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", __file__],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "PASSED" in done.stdout
