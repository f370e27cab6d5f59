"""The parts of a linear model's step are what plain torch computes in float64."""

import pytest
import torch
from torch import nn

from kernel_laws import DEVICE, TOLERANCE, distance, needs_triton, numbers, runs_kernels
from skerry.kernels.precision import arithmetic
from skerry.models.learner import Batch, LazyBatch
from skerry.models.linear import LinearLearner
from skerry.tasks.built_in import CLASSIFICATION

pytestmark = needs_triton


@runs_kernels
@pytest.mark.parametrize("way", ["torch", "128 x 128", "64 x 128"])
def test_the_update_inside_a_product(way):
    """In every way, on views that leave gaps; what lies in the gaps is not touched."""
    from skerry.kernels.dense import _run_update

    flat = numbers(2, 150 * 90 + 8)
    W, P, x = flat[:, 4:-4].view(2, 150, 90), numbers(2, 50, 150).mT, numbers(2, 50, 90, seed=4)
    exact, edges = (
        W.double() - P.double() @ x.double(),
        flat[:, [0, 1, 2, 3, -4, -3, -2, -1]].clone(),
    )
    with arithmetic("tf32"):
        _run_update(W, P, x, way)
    assert distance(W, exact) < TOLERANCE["tf32"]
    assert torch.equal(flat[:, [0, 1, 2, 3, -4, -3, -2, -1]], edges)


@runs_kernels
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_softmax_gradient_is_autograds(classes):
    from skerry.kernels.activations import softmax_gradient

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
def test_predictions_and_losses_on_a_test_set(samples_last):
    """In either layout of the scores."""
    from skerry.kernels.activations import cross_entropies, predicted_classes

    scores = numbers(4, 300, 10)
    Z = scores.mT.contiguous() if samples_last else scores.mT
    y = torch.arange(300, device=DEVICE) % 10
    exact = [nn.functional.cross_entropy(one, y) for one in scores.double()]
    assert torch.equal(predicted_classes(Z).long(), scores.argmax(dim=2))
    assert distance(cross_entropies(Z, y), torch.stack(exact)) < 1e-6


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
        found = learner.step(X, LazyBatch(x, y, rows, rows[:, 0]), eta)
    assert distance(X.double() - before, exact - before) < TOLERANCE["tf32"]
    assert distance(found, losses) < TOLERANCE["tf32"]
    assert not X.view(n, lanes, outputs, learner.p)[..., features + 1 :].any()


@runs_kernels
@pytest.mark.parametrize("shape", [(1,), (72,), (3, 7), (1024,)])
def test_gathered_samples_equal_indexing(shape):
    from skerry.kernels.draws import gather_rows

    table, rows = numbers(40, *shape), torch.arange(66, device=DEVICE).view(6, 11) * 13 % 40
    assert torch.equal(gather_rows(table, rows), table[rows])
