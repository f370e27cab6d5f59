"""What the engine asks of a model: one step for every device and lane at once, on flat parameters.

A learner sees models as rows of flat parameters: `X[n, L, d]` (n devices, L lanes), or `[m, d]`
for any m models. `step` is the fast path; `loss` is the same function for one model, written so
that autograd can differentiate it: the paper-literal reference engine uses nothing else.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from skerry.config.experiment import Model
from skerry.errors import ModelError, one_line
from skerry.models.gather import gather
from skerry.plugins import registry
from skerry.seeds import torch_seed
from skerry.tasks.classification import USUAL as CLASSIFICATION
from skerry.tasks.task import Task

ALIGNMENT = 8  # numbers: memory and matrix units want places at a multiple of 16 or 32 bytes


@dataclass(frozen=True)
class Batch:
    """One minibatch per device: inputs [n, B, ...], targets [n, B] or [n, B, ...], and for models
    that draw noise of their own (dropout) one key per device [n]."""

    x: Tensor
    y: Tensor
    noise: Tensor


class Drawn(Batch):
    """One that is gathered when it is first asked for: a learner whose kernel fetches the samples
    by itself never does."""

    def __init__(self, inputs: Tensor, targets: Tensor, rows_nb: Tensor, noise: Tensor):
        # A frozen dataclass has no other way to begin.
        vars(self).update(inputs=inputs, targets=targets, rows_nb=rows_nb, noise=noise)

    inputs: Tensor
    """All training samples; device i has those of the rows `rows_nb[i]`."""
    targets: Tensor
    rows_nb: Tensor

    @cached_property
    def x(self) -> Tensor:
        return gather(self.inputs, self.rows_nb)

    @cached_property
    def y(self) -> Tensor:
        return self.targets[self.rows_nb]


@runtime_checkable
class Learner(Protocol):
    d: int
    """Length of a flat parameter vector, padding included."""
    parameters: int
    """Parameters that travel in a message: d without padding."""
    classifies: bool
    """Whether `scores` exists; without it there are losses and nothing else."""
    noisy: bool
    """Whether a step uses the noise keys of its batch."""

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move whatever the learner holds besides X."""

    def prepare(self, x: Tensor) -> Tensor:
        """Inputs in the form that the methods below take, computed once."""

    def initial(self) -> Tensor:
        """The common initial point x^0, float32 [d]."""

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Minibatch loss of one model on inputs [B, ...], differentiable."""

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        """One SGD step in place, X <- X - eta G(X); returns the losses [n, L] before it."""

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        """What m models give for N inputs, [m, N, ...], without training noise: class scores, or
        whatever else the task wants."""

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Mean loss [m] of m models on N inputs, without training noise. Measures ask learners
        without scores; elsewhere the task has the loss of what they give."""

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        """Working memory that `step` needs for one device, for the memory plan."""


def scores_devices_at_once(learner: Learner) -> bool:
    """Whether one call scores the models of many devices, each on inputs of its own. A user's
    learner need not know how."""
    return bool(getattr(learner, "scores_devices_at_once", False))


def scores_by_device(learner: Learner, X_nld: Tensor, x_n: Tensor) -> Tensor:
    """What the models of each device give for inputs of its own, [n, N, ...]: outputs [n, L, N,
    ...]."""
    if scores_devices_at_once(learner):
        found: Tensor = learner.scores_by_device(X_nld, x_n)  # type: ignore[attr-defined]
        return found
    return torch.stack([learner.scores(X_ld, x) for X_ld, x in zip(X_nld, x_n, strict=True)])


def places(learner: Learner) -> Tensor:
    """Which places of a flat vector hold parameters, [d]; the others are padding. All of them,
    unless the learner says so."""
    told: Callable[[], Tensor] | None = getattr(learner, "places", None)
    return torch.ones(learner.d, dtype=torch.bool) if told is None else told()


def goes_one_by_one(learner: Learner) -> bool:
    """Whether its models are stepped one after the other, because vmap cannot batch them."""
    return bool(getattr(learner, "one_by_one", False))


def steps_on_chip(learner: Learner, batch: int) -> bool:
    """Whether one kernel does a step at the precision in force, without any product of torch's."""
    asked: Callable[[int], bool] | None = getattr(learner, "steps_on_chip", None)
    return asked is not None and asked(batch)


def score_bytes(learner: Learner) -> int | None:
    """What one model gives for one sample, in bytes, where a learner makes nothing else on the way
    to it; None: it does not say so."""
    told: int | None = getattr(learner, "score_bytes", None)
    return told


@dataclass(frozen=True)
class Problem:
    """What a model factory may need to know about the data; `seed` draws the initial point."""

    input_shape: tuple[int, ...]
    classes: int
    """Scores or numbers that a model gives: classes, tokens, or the numbers of a target."""
    seed: int
    task: Task = CLASSIFICATION
    tokens: int | None = None
    """How many different whole numbers inputs hold; None: inputs are real numbers."""

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of what a model gives for one sample."""
        return self.task.output_shape(self.input_shape, self.outputs)

    def example(self) -> tuple[Tensor, Tensor]:
        """Two samples like those of the data, from the lowest to the highest values."""
        count = 2 * math.prod(self.input_shape)
        x = torch.linspace(-1, 1, count)
        if self.tokens is not None:
            x = torch.linspace(0, self.tokens - 1, count).round().long()
        y_shape = self.output_shape[:-1] if self.task.name != "regression" else self.output_shape
        y = torch.linspace(0, self.outputs - 1, 2 * math.prod(y_shape)).round()
        y = self.task.targets(y.view(2, *y_shape), torch.float32)
        return x.view(2, *self.input_shape), y


def build_learner(
    model: Model, problem: Problem, factory: Callable[..., Any] | None = None
) -> Learner:
    """The learner behind a model's name, or behind a factory given from Python.

    A factory takes `(problem, **options)` or only its options, and returns an `nn.Module` or a
    learner of its own.
    """
    from skerry.models.weights import read_weights

    weights = read_weights(model.weights) if model.weights else None
    name = model.name if factory is None else _reference(factory)
    # Modules draw their initial weights from torch's global state: lend them a seeded copy.
    with registry.users_own("model", name, ModelError), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(problem.seed, "initial"))
        make = factory or registry.resolve("model", name)
        arguments = (problem,) if _takes_problem(make) else ()
        made = make(*arguments, **model.options)
        if isinstance(made, torch.nn.Module):
            learner = _of_module(made, problem, weights, model.weights)
        else:
            learner = _started(made, name, weights, model.weights)
    if not isinstance(learner, Learner):
        raise ModelError(
            f"model '{name}' must give an nn.Module or a learner (got {type(made).__name__}). "
            "Return the module from the factory."
        )
    if not registry.is_builtin("model", name):
        _rehearse(name, learner, problem)
    return learner


def _of_module(
    module: torch.nn.Module, problem: Problem, weights: dict[str, Tensor] | None, path: str
) -> Learner:
    from skerry.models.module import ModuleLearner
    from skerry.models.module_checks import initialise_lazy_layers, refuse_batch_statistics
    from skerry.models.weights import load

    refuse_batch_statistics(module)
    module.float()
    initialise_lazy_layers(module, problem)
    if weights is not None:
        load(module, weights, path)
    return ModuleLearner(module, problem)


def _started(learner: Any, name: str, weights: dict[str, Tensor] | None, path: str) -> Any:
    """A learner that is no module, from given weights if it knows how."""
    if weights is not None:
        if not hasattr(learner, "load"):
            raise ModelError(f"model '{name}' cannot start from weights. Leave out model.weights.")
        learner.load(weights, path)
    return learner


def _reference(factory: Callable[..., Any]) -> str:
    """What a factory given from Python is called in messages: as if named in an experiment."""
    return f"{factory.__module__}:{getattr(factory, '__qualname__', type(factory).__name__)}"


def _takes_problem(make: Callable[..., Any]) -> bool:
    return any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        for p in inspect.signature(make).parameters.values()
    )


def _rehearse(name: str, learner: Learner, problem: Problem) -> None:
    """One step and one evaluation of a user's model, on two samples: a misfit is told before
    the work starts."""
    try:
        x, y = problem.example()
        x = learner.prepare(x)
        X_nld = learner.initial().expand(1, 1, -1).clone()
        batch = Batch(x.unsqueeze(0), y.unsqueeze(0), torch.zeros(1, dtype=torch.int64))
        shapes: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
        shapes["step"] = (learner.step(X_nld, batch, torch.full((1,), 0.1)), (1, 1))
        shapes["test_loss"] = (learner.test_loss(X_nld[0], x, y), (1,))
        if learner.classifies:
            shapes["scores"] = (learner.scores(X_nld[0], x), (1, 2, *problem.output_shape))
    except Exception as error:  # a user's model may fail in any way
        raise ModelError(
            f"model '{name}' cannot be trained ({one_line(error)}). Correct the model; skerry "
            "--debug shows where it fails."
        ) from error
    for method, (found, shape) in shapes.items():
        if tuple(found.shape) != shape:
            raise ModelError(
                f"model '{name}': {method} must give shape {shape} for one device, one lane and "
                f"two samples (got {tuple(found.shape)})."
            )
