"""The learner protocol: what the engine needs of a model, and building one from its name.

A learner takes models as rows of flat parameters: `X[n, L, d]` (n devices, L lanes), or `[m, d]`
for any m models. `step` is the fast path, one SGD step for every device and lane at once; `loss` is
the loss of one model, differentiable by autograd, which is all that the reference engine uses.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from skerry.config.experiment import Model
from skerry.errors import ModelError
from skerry.kernels import fused
from skerry.plugins import registry
from skerry.plugins.calls import explained
from skerry.plugins.context import Context
from skerry.plugins.options import CONTEXT, POSITIONAL, bind
from skerry.seeds import torch_seed
from skerry.tasks.built_in import CLASSIFICATION
from skerry.tasks.task import LearningTask

if TYPE_CHECKING:
    from skerry.models.weights import Weights

ALIGNMENT = 8  # numbers: memory and matrix units are fastest at multiples of 16 or 32 bytes


@dataclass(frozen=True)
class Batch:
    """One minibatch per device: inputs x [n, B, ...], targets y [n, B] or [n, B, ...], and a
    noise key per device [n] for models with dropout."""

    x: Tensor
    y: Tensor
    noise: Tensor


class LazyBatch(Batch):
    """A batch that gathers its samples on first use; kernels that read samples by row need not."""

    def __init__(self, inputs: Tensor, targets: Tensor, rows_nb: Tensor, noise: Tensor):
        # The dataclass is frozen, so that attributes cannot be assigned.
        vars(self).update(inputs=inputs, targets=targets, rows_nb=rows_nb, noise=noise)

    inputs: Tensor
    """All training samples; the minibatch of device i has the rows `rows_nb[i]`."""
    targets: Tensor
    rows_nb: Tensor

    @cached_property
    def x(self) -> Tensor:
        inputs, rows_nb = self.inputs, self.rows_nb
        short = inputs[0].numel() <= fused.MAX_GATHERED
        if fused.runs_on(inputs) and inputs.is_contiguous() and short:
            from skerry.kernels.draws import gather_rows

            return gather_rows(inputs, rows_nb)
        return inputs[rows_nb]

    @cached_property
    def y(self) -> Tensor:
        return self.targets[self.rows_nb]


@runtime_checkable
class Learner(Protocol):
    """A model as the engine trains it: steps, losses and scores on flat parameters.

    Optional are `layout()`, the parameters by name (without it, all d numbers count as one), and
    `load(weights, path)`, after which `initial()` gives the weights of a state dict.
    """

    d: int
    """Length of a flat parameter vector, padding included."""
    parameters: int
    """Number of parameters: d without padding."""
    classifies: bool
    """Whether the learner has `scores`; otherwise it has losses only."""
    noisy: bool
    """Whether a step uses the noise keys of its batch."""

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move the tensors that the learner holds besides X."""

    def prepare(self, x: Tensor) -> Tensor:
        """Convert inputs [N, ...] once to the form that the methods below take."""

    def initial(self) -> Tensor:
        """The common initial point x^0, float32 [d]."""

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Minibatch loss of one model on inputs [B, ...], differentiable."""

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        """One SGD step in place, X <- X - eta G(X); returns the losses [n, L] before it."""

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        """Outputs [m, N, ...] of m models for N inputs, without training noise: class scores, or
        the outputs that the task needs."""

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Mean loss [m] of m models on N inputs, without training noise; used by measures only if
        the learner has no scores."""

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        """Bytes of working memory that `step` needs for one device."""


def scores_devices_at_once(learner: Learner) -> bool:
    """Whether the learner has `scores_by_device`, which is optional."""
    return bool(getattr(learner, "scores_devices_at_once", False))


def scores_by_device(learner: Learner, X_nld: Tensor, x_n: Tensor) -> Tensor:
    """Outputs [n, L, N, ...] of each device's models for the device's own inputs [n, N, ...]."""
    if scores_devices_at_once(learner):
        scores: Tensor = learner.scores_by_device(X_nld, x_n)  # type: ignore[attr-defined]
        return scores
    return torch.stack([learner.scores(X_ld, x) for X_ld, x in zip(X_nld, x_n, strict=True)])


def goes_one_by_one(learner: Learner) -> bool:
    """Whether the learner steps one model after the other, because vmap cannot batch its models."""
    return bool(getattr(learner, "one_by_one", False))


def steps_on_chip(learner: Learner, batch: int) -> bool:
    """Whether one kernel does a whole step at the current precision, without products by torch."""
    check: Callable[[int], bool] | None = getattr(learner, "steps_on_chip", None)
    return check is not None and check(batch)


@dataclass(frozen=True)
class Problem:
    """Shapes of data and task, as a model factory receives them; `seed` draws the initial point."""

    input_shape: tuple[int, ...]
    classes: int
    """Number of outputs of a model: classes, tokens, or the numbers of a target."""
    seed: int
    task: LearningTask = CLASSIFICATION
    tokens: int | None = None
    """Number of different integers in the inputs, or None if inputs are real numbers."""

    @property
    def outputs(self) -> int:
        """Number of outputs of a model; the same as `classes`."""
        return self.classes

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a model's output for one sample."""
        return self.task.output_shape(self.input_shape, self.outputs)

    def example(
        self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Two made-up samples (x, y) with the shapes, types and ranges of the data."""
        count = 2 * math.prod(self.input_shape)
        x = torch.linspace(-1, 1, count)
        if self.tokens is not None:
            x = torch.linspace(0, self.tokens - 1, count).round().long()
        y_shape = self.output_shape[:-1] if self.task.name != "regression" else self.output_shape
        y = torch.linspace(0, self.outputs - 1, 2 * math.prod(y_shape)).round()
        y = self.task.targets(y.view(2, *y_shape), torch.float32)
        pair = (x.view(2, *self.input_shape), y)
        x, y = (part.to(device, dtype if part.is_floating_point() else None) for part in pair)
        return x, y


def build_learner(
    model: Model,
    problem: Problem,
    factory: Callable[..., Any] | None = None,
    weights: "Weights | None" = None,
) -> Learner:
    """Build the learner for a model's name, or from a factory given from Python.

    A factory takes `(problem, **options)` or only its options, and returns an `nn.Module` or a
    learner of its own. `weights` replace those that the model names.
    """
    from skerry.models.module import ModuleLearner
    from skerry.models.weights import load_weights, read_weights

    if weights is None and model.weights:
        weights = read_weights(model.weights)
    name = model.name if factory is None else _factory_name(factory)
    with _making(name, problem):
        made = _make(name, model, problem, factory)
        if not registry.is_builtin("model", name):
            with _making(name, problem):
                _refuse_unseeded(name, made, _make(name, model, problem, factory))
        if isinstance(made, torch.nn.Module):
            if weights is not None:
                load_weights(made, *weights.first)
            made = ModuleLearner(made, problem)
        elif weights is not None:
            if not hasattr(made, "load"):
                raise ModelError(
                    f"model '{name}' cannot start from weights. Leave out model.weights."
                )
            made.load(*weights.first)
    if not isinstance(made, Learner):
        raise ModelError(
            f"model '{name}' must give an nn.Module or a learner (got {type(made).__name__}). "
            "Return the module from the factory."
        )
    if registry.is_builtin("model", name):
        return made
    _rehearse(name, made, problem)
    for method in ("step", "scores", "scores_by_device", "test_loss"):
        if hasattr(made, method) and hasattr(made, "__dict__"):
            vars(made)[method] = explained("model", name, getattr(made, method), ModelError)
    return made


def build_module(
    model: Model, problem: Problem, factory: Callable[..., Any] | None = None
) -> torch.nn.Module | None:
    """A new module of a model, on the CPU; None if the model is a learner without a module."""
    name = model.name if factory is None else _factory_name(factory)
    with _making(name, problem):
        made = _make(name, model, problem, factory)
        if not isinstance(made, torch.nn.Module) and hasattr(made, "module"):
            made = made.module()
    return made if isinstance(made, torch.nn.Module) else None


@contextmanager
def _making(name: str, problem: Problem) -> Iterator[None]:
    """Seed torch's global generator, from which modules draw initial weights, and restore it."""
    with registry.users_own("model", name, ModelError), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(problem.seed, "initial"))
        yield


def _make(
    name: str, model: Model, problem: Problem, factory: Callable[..., Any] | None
) -> torch.nn.Module | Any:
    """Call the factory of a model; a module is checked, and its lazy layers are made."""
    from skerry.models.module_checks import example_outputs, refuse_batch_statistics

    make = factory or registry.resolve("model", name)
    arguments = (problem,) if _takes_problem(make) else ()
    context = Context("a model is built", seed=problem.seed)
    made = bind("model", make, model.options)(*arguments, context=context)
    if isinstance(made, torch.nn.Module):
        refuse_batch_statistics(made)
        made.float()
        if any(map(torch.nn.parameter.is_lazy, made.parameters())):
            example_outputs(made, problem)  # gives layers such as nn.LazyLinear their parameters
    return made


def _refuse_unseeded(name: str, *made: Any) -> None:
    """Raise ModelError if two models of one seed start from different points."""
    one, two = map(_values, made)
    if one.keys() != two.keys() or not all(torch.equal(one[key], two[key]) for key in one):
        raise ModelError(
            f"model '{name}' starts from other values each time that it is built with one seed, so "
            "runs could not be repeated. Draw them with torch, or from context.random()."
        )


def _values(made: Any) -> dict[str, Tensor]:
    if isinstance(made, torch.nn.Module):
        return {key: one for key, one in made.state_dict().items() if isinstance(one, Tensor)}
    return {"x0": made.initial()} if isinstance(made, Learner) else {}


def _factory_name(factory: Callable[..., Any]) -> str:
    """Name of a factory in messages, `module:name` as in an experiment."""
    return f"{factory.__module__}:{getattr(factory, '__qualname__', type(factory).__name__)}"


def _takes_problem(make: Callable[..., Any]) -> bool:
    needed = (p for p in inspect.signature(make).parameters.values() if p.default is p.empty)
    return any(p.kind in POSITIONAL and p.name != CONTEXT for p in needed)


def _rehearse(name: str, learner: Learner, problem: Problem) -> None:
    """Run one step and one evaluation of a user's model on two samples, to fail before the run."""
    x, y = problem.example()
    X_nld = learner.initial().expand(2, 2, -1).clone()
    X_nld += 0.01 * torch.linspace(-1, 1, X_nld.numel()).view(X_nld.shape)
    with registry.errors_of("model", name, ModelError):
        x = learner.prepare(x)
        given, alone = (x.clone(), y.clone()), X_nld[:1, :1].clone()
        noise, etas = torch.zeros(2, dtype=torch.int64), torch.full((2,), 0.1)
        batch = Batch(torch.stack([x, x]), torch.stack([y, y]), noise)
        one = Batch(x.unsqueeze(0), y.unsqueeze(0), noise[:1])
        shapes: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
        shapes["step"] = (learner.step(X_nld, batch, etas), (2, 2))
        learner.step(alone, one, etas[:1])
        shapes["test_loss"] = (learner.test_loss(X_nld[0], x, y), (2,))
        if learner.classifies:
            shapes["scores"] = (learner.scores(X_nld[0], x), (2, 2, *problem.output_shape))
    for method, (result, shape) in shapes.items():
        if tuple(result.shape) != shape:
            raise ModelError(
                f"model '{name}': {method} must give shape {shape} for two devices, two lanes and "
                f"two samples (got {tuple(result.shape)})."
            )
    if not all(map(torch.equal, given, (x, y))):
        raise ModelError(f"model '{name}' changes the samples that it is given. Work on a copy.")
    if not torch.allclose(alone[0, 0], X_nld[0, 0], rtol=1e-2, atol=1e-4):
        raise ModelError(
            f"model '{name}': step computes a model from its neighbours: neither devices nor lanes "
            "must see each other."
        )
