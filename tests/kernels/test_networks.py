"""Layers of many networks, forward and back, are what plain torch computes in float64."""

import pytest
import torch
from torch import nn

from kernel_laws import (
    CUDA,
    DEVICE,
    PRECISIONS,
    TOLERANCE,
    Noted,
    distance,
    needs_triton,
    numbers,
    runs_kernels,
)
from skerry.kernels import fused
from skerry.kernels.precision import arithmetic
from skerry.models import layers
from skerry.models.learner import Batch, Problem
from skerry.models.module import ModuleLearner

pytestmark = needs_triton


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_memory_forecast_covers_a_first_convolution(precision, monkeypatch):
    """All that its kernels are given on the way back: images with a frame around them, too."""
    from skerry.kernels import convolution, convolution_weights

    noted, models, size = Noted(), 5000, 20
    monkeypatch.setattr(convolution, "_convolve_and_pool", Noted())
    for kernel in ("_before_pool", "_weight_sums", "_pooled_weight_sums"):
        monkeypatch.setattr(convolution_weights, kernel, noted)
    monkeypatch.setattr(fused, "runs_on", lambda X: True)
    monkeypatch.setattr(layers, "fastest", lambda name, variants, run: variants[0])
    slot = layers.Slot(0, (32, 3, 5, 5))
    layer = layers.Convolution(slot, None, 2, 2, layers.Activation("relu"), (8, 8))
    X = torch.empty(models, 2400, device="meta")
    with arithmetic(precision):
        y, saved = layer.forward(X, torch.empty(models, size, 8, 8, 3, device="meta"), None)
        layer.backward(X, saved, torch.empty_like(y), input_grad=False)
        forecast = layer.memory(size, True, y.itemsize, input_grad=False)
    held = {id(array): array.nbytes for array in noted.given if isinstance(array, torch.Tensor)}
    assert sum(held.values()) <= models * sum(forecast)


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
        y, _ = kernels.convolve_and_pool(x.to(dtype), w_mko, b, side, padding, pool, "elu", tile)
        G_last = G.movedim(2, -1).contiguous().to(dtype)
        sums = weight_sums(x.to(dtype), G_last, side, padding, tile)
        w_mkc = W.flip(3, 4).permute(0, 3, 4, 1, 2).reshape(models, -1, inputs).to(dtype)
        back, _ = kernels.convolve_and_pool(
            G_last, w_mkc, None, side, side - 1 - padding, 1, "none", tile
        )
    tolerance = TOLERANCE[precision]
    assert distance(y.movedim(-1, 2), y_exact.detach()) < tolerance
    assert distance(sums.permute(0, 4, 3, 1, 2), d_W) < tolerance
    assert distance(back.movedim(-1, 2), d_images) < tolerance


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
        y, winner = kernels.convolve_and_pool(
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
    from skerry.kernels.dense import _run_backward, _run_forward

    n, rows, columns = 2, 70, 90
    flat = 0.1 * numbers(n, rows * columns + 8)
    W, before = flat[:, 4:-4].view(n, rows, columns), flat.double()
    exact = before[:, 4:-4].view(n, rows, columns).clone()
    x, g = numbers(n, samples, columns, seed=1), numbers(n, samples, rows, seed=2)
    b = numbers(n, rows, seed=3)
    y_exact = nn.functional.elu(x.double() @ exact.mT + b.double().unsqueeze(1))
    with arithmetic(precision):
        y = _run_forward(x, W, b, "elu", tile)
        back = _run_backward(W, g, x, True, tile)
        change = W.double() - exact
        assert _run_backward(W, g, x, False, tile) is None
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
def test_nan_is_propagated_forward(activation, merged):
    """Pooling and activation must not hide a NaN."""
    from skerry.kernels import convolution as kernels

    x, w = numbers(1, 2, 6, 6, 3), numbers(2, 27, 16)
    w[1] = torch.nan
    y, _ = kernels.convolve_and_pool(
        x, w, None, 3, 0, 2, activation, kernels.Tile(16, 16, 4, 2, merged)
    )
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


def as_in_bf16(choice):
    """What would be chosen in bf16, which the interpreter does not know."""

    def chosen(*shape):
        with arithmetic("bf16"):
            return choice(*shape)

    return chosen


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
        monkeypatch.setattr(fused, "sums_pooled", as_in_bf16(fused.sums_pooled))
    weight = layers.Slot(0, (outputs, 3, 3, 3))
    layer = layers.Convolution(weight, None, 0, 2, layers.Activation("relu"), (6, 6))
    X = numbers(2, 27 * outputs)
    with arithmetic("bf16" if CUDA else "float32"):
        y, saved = layer.forward(X, numbers(1, 2, 6, 6, 3), None)
        layer.backward(X, saved, torch.ones_like(y), input_grad=False)
    assert X.isfinite().all()
    assert bool(taken) == (outputs > 1)  # on a GPU, tuning calls it several times


@runs_kernels
def test_a_convolution_of_images_that_are_a_view():
    """As when someone scores models on turned images."""
    weight = layers.Slot(0, (4, 3, 3, 3))
    layer = layers.Convolution(weight, None, 0, 1, layers.Activation(), (6, 6))
    X, turned = numbers(2, 108), numbers(1, 2, 6, 6, 3).transpose(2, 3)
    assert torch.equal(*(layer.forward(X, x, None)[0] for x in (turned, turned.contiguous())))


@runs_kernels
@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_nan_is_propagated_backward(activation):
    """As with torch: no activation stops it."""
    from skerry.kernels.convolution_weights import before_pool

    y = numbers(2, 1, 2, 2, 3)
    y[1] = torch.nan
    G = before_pool(torch.full_like(y, torch.nan), y, y, 2, 2, 1, activation)
    assert G[1].isnan().all()


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
def test_bf16_kernels_take_the_same_step(monkeypatch):
    """In the interpreter, where nothing is rounded: dense layers by kernels, and no gradient before
    the first pooling."""
    monkeypatch.setattr(fused, "steps_dense", lambda X, samples: fused.runs_on(X))
    monkeypatch.setattr(fused, "sums_pooled", as_in_bf16(fused.sums_pooled))
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
