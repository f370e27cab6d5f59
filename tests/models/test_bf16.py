"""training.precision = "bf16" for modules that go through vmap: products are rounded, weights not.

On a CPU it changes nothing; here it is told to do it all the same.
"""

import pytest
import torch
from torch import nn

from skerry.errors import SkerryWarning
from skerry.kernels import precision
from skerry.kernels.precision import arithmetic
from skerry.models.learner import Batch, Problem
from skerry.models.module import ModuleLearner, bytes_saved

PROBLEM = Problem((3, 6, 6), classes=4, seed=0)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * 36, 4),
    )  # fmt: skip


class Strict(nn.Module):
    """Wants what its first layer gives in float32."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(108, 8), nn.LayerNorm(8)
        self.second = nn.Linear(8, 4)

    def forward(self, x):
        h = self.first(x.flatten(1))
        if h.dtype == torch.bfloat16:
            raise TypeError("no bfloat16, please")
        return self.second(self.norm(h))


class Reader(nn.Module):
    """Of tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.last = nn.Embedding(5, 8), nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.norm(self.embed(x)).mean(dim=1))


def distance(found, exact):
    return ((found - exact).norm() / exact.norm()).item()


def stepped(make, how, device="cpu", steps=1):
    """How far two devices with two lanes went."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learner = ModuleLearner(make(), PROBLEM)
    learner.to(torch.device(device), torch.float32)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 5, 3, 6, 6, generator=generator).to(device)
    y = torch.arange(10, device=device).view(2, 5) % 4
    start = learner.initial().to(device).expand(2, 2, -1)
    X, eta = start.clone(), torch.tensor([0.1, 0.5], device=device)
    batch = Batch(x, y, torch.zeros(2, dtype=torch.int64, device=device))
    with arithmetic(how):
        for _ in range(steps):
            learner.step(X, batch, eta)
    return X - start


@pytest.fixture
def rounding_anywhere(monkeypatch):
    def rounds(self, X):
        return precision.current() == "bf16" and not self._fails_in_bf16

    monkeypatch.setattr(ModuleLearner, "_uses_bf16", rounds)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_is_nearly_the_one_in_float32(device, rounding_anywhere):
    rounded, exact = (stepped(normed, how, device) for how in ("bf16", "float32"))
    assert rounded.dtype == torch.float32
    assert 1e-4 < distance(rounded, exact) < 3e-2


def test_a_cpu_computes_in_float32():
    rounded, exact = (stepped(normed, how) for how in ("bf16", "float32"))
    assert torch.equal(rounded, exact)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_rounds_and_float32_stays_what_it_was():
    rounded, exact = (stepped(normed, how, "cuda") for how in ("bf16", "float32"))
    assert 1e-4 < distance(rounded, exact) < 3e-2
    on_cpu = stepped(normed, "float32")
    assert distance(exact.cpu(), on_cpu) < 1e-5


def test_a_module_that_needs_float32_gives_one_warning(rounding_anywhere):
    with pytest.warns(SkerryWarning, match=r"does not run in bf16 .*no bfloat16, please") as told:
        rounded = stepped(Strict, "bf16", steps=2)
    assert len(told) == 1
    exact = stepped(Strict, "float32", steps=2)
    assert torch.equal(rounded, exact)


def test_a_model_of_tokens_is_rounded_too(rounding_anywhere):
    """Its inputs are whole numbers; what it gives is not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learner = ModuleLearner(Reader(), Problem((6,), classes=4, seed=0, tokens=5))
    learner.to(torch.device("cpu"), torch.float32)
    x, y = torch.arange(60).view(2, 5, 6) ** 2 % 5, torch.arange(10).view(2, 5) % 4
    batch, eta = Batch(x, y, torch.zeros(2, dtype=torch.int64)), torch.tensor([0.1, 0.5])
    start = learner.initial().expand(2, 2, -1)
    rounded, exact = start.clone(), start.clone()
    learner.step(exact, batch, eta)
    with arithmetic("bf16"):
        learner.step(rounded, batch, eta)
    assert 1e-4 < distance(rounded - start, exact - start) < 3e-2


def test_an_error_during_a_capture_does_not_disable_bf16(rounding_anywhere, monkeypatch):
    """A module may do what cannot be recorded, as copying a number from the host: it is rounded as
    before, in rounds that are not."""
    learner = ModuleLearner(Strict(), PROBLEM)
    x, y = (torch.stack([part, part]) for part in PROBLEM.example())
    batch = Batch(x, y, torch.zeros(2, dtype=torch.int64))
    X, eta = learner.initial().expand(2, 2, -1).clone(), torch.tensor([0.1, 0.5])
    monkeypatch.setattr("skerry.kernels.cuda_graph.is_capturing", lambda: True)
    with arithmetic("bf16"), pytest.raises(TypeError, match="no bfloat16"):
        learner.step(X, batch, eta)
    assert not learner._fails_in_bf16


def test_saved_tensors_are_counted_once():
    """Its 4 numbers, and the 8 that both the activation and the last layer keep. Rounded, weights
    are kept as well, but not for every sample."""
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert bytes_saved(module, torch.ones(2, 4), bf16=False) == 4 * (4 + 8)
    assert bytes_saved(module, torch.ones(2, 4), bf16=True) == 2 * (4 + 8)


@pytest.mark.parametrize("device", DEVICES)
def test_saved_tensors_decide_the_memory_plan_on_a_gpu_only(device):
    """On a CPU the plan decides how many devices step at once, and with it the last bits."""
    learner = ModuleLearner(Strict(), PROBLEM)
    learner.to(torch.device(device), torch.float32)
    more = learner.bytes_per_device(1, 2) - learner.bytes_per_device(1, 1)
    values = 8 + 8 + 4  # of the layers; autograd keeps 108, 8, 8 and two moments
    assert more == (4 * 3 * values if device == "cpu" else int(2.6 * 4 * (108 + 8 + 8 + 2)))
