"""Operations of modules under vmap, for all models at once, are torch's in float64."""

import pytest
import torch
from torch import nn

from kernel_laws import DEVICE, PRECISIONS, TOLERANCE, distance, needs_triton, numbers, runs_kernels
from skerry.kernels.precision import arithmetic

pytestmark = needs_triton


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
def test_per_model_convolutions_on_channels_first_images(
    precision, inputs, models, shape, sides, stride, padding
):
    """A convolution and both of its gradients. Models may share an input; images, channels and taps
    go beyond a tile."""
    from skerry.kernels import per_model_convolution as kernels

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
    from skerry.kernels.norms import norm_gradients, normalize

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
    for ours, theirs in zip(norm_gradients(g, x, w, *told), slopes, strict=True):
        assert distance(ours, theirs.view(ours.shape)) < TOLERANCE[precision]


@runs_kernels
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("tokens", "width", "causal"), [(16, 16, False), (21, 5, True)])
def test_attention_over_short_sequences(precision, tokens, width, causal):
    from skerry.kernels.attention import attend, attention_gradients

    q, k, v, g = (numbers(3, tokens, width, seed=seed) for seed in range(4))
    exact = [one.double().requires_grad_() for one in (q, k, v)]
    y = nn.functional.scaled_dot_product_attention(*exact, is_causal=causal, scale=0.4)
    slopes = torch.autograd.grad(y, exact, g.double())
    with arithmetic(precision):
        if precision == "bf16":
            q, k, v, g = (one.bfloat16() for one in (q, k, v, g))
        assert distance(attend(q, k, v, 0.4, causal), y.detach()) < TOLERANCE[precision]
        for ours, theirs in zip(attention_gradients(g, q, k, v, 0.4, causal), slopes, strict=True):
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
def test_vmap_batches_a_module_by_kernels(monkeypatch):
    """Over devices and lanes, of which the first layer's share their images; no operation is left
    to torch."""
    from skerry.models import batched

    torch.manual_seed(0)
    module = Mixed().to(DEVICE)
    taken = []
    for name in ("convolve_models", "normalize_models", "attend_models"):
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
    with batched.KernelMode():
        found = gradients(given, x)
    for name, ours in found.items():
        assert distance(ours, exact[name]) < 1e-5, name
    assert sorted(taken) == ["attend_models", *["convolve_models"] * 2, *["normalize_models"] * 3]


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
def test_unsupported_arguments_are_left_to_torch(kind, monkeypatch):
    from skerry.models import batched

    for name in ("convolve_models", "normalize_models", "attend_models"):
        monkeypatch.delattr(batched, name)
    torch.manual_seed(0)
    operation = odd_operations()[kind]
    exact = operation()
    with batched.KernelMode():
        assert torch.equal(operation(), exact)


def test_a_wrong_shape_raises_the_error_of_torch():
    from skerry.models.batched import KernelMode

    w = torch.zeros(4, 3, 3, 3, requires_grad=True)
    with KernelMode():
        with pytest.raises(RuntimeError, match="channels"):
            nn.functional.conv2d(torch.zeros(2, 2, 6, 6), w)
        with pytest.raises(RuntimeError, match="Kernel size"):
            nn.functional.conv2d(torch.zeros(2, 3, 2, 2), w.narrow(1, 0, 3))
        with pytest.raises(RuntimeError, match="weight"):
            nn.functional.group_norm(torch.zeros(2, 4, 6), 2, torch.ones(3), torch.ones(3))
