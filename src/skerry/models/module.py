"""Learner for any nn.Module, on views of X.

Sequential models of common layers use chain.py, other modules vmap(grad(functional_call)) over
devices and lanes. Modules that vmap cannot batch are stepped one model after the other. Frozen
parameters and buffers stay in the module: all devices share them, and no message contains them.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vjp, vmap

from skerry.errors import ModelError, SkerryWarning, is_out_of_memory, one_line
from skerry.kernels import cuda_graph, fused, precision
from skerry.models import module_checks
from skerry.models.batched import bf16_autocast
from skerry.models.chain import Chain, chain_of
from skerry.models.layers import Slot
from skerry.models.layout import Layout, contiguous
from skerry.models.learner import ALIGNMENT, Batch, Problem
from skerry.models.noise import key_dropouts
from skerry.models.weights import check_names, check_shape, plain_name, untrained_part
from skerry.tasks.task import over_lanes

Parameters = dict[str, Tensor]

PEAK_FLOAT32, PEAK_BF16 = 2.6, 2.0
"""Peak bytes of a step on a GPU per byte that autograd saves on a CPU. Measured were 2.0 to 2.5 in
float32, where vmap splits norms into several operations, and 1.3 to 1.9 in bf16 with kernels."""


class ModuleLearner:
    """Learner of a module that maps inputs [B, ...] to the outputs that the task needs."""

    classifies = True

    def __init__(self, module: nn.Module, problem: Problem):
        self.untrained = untrained_part(module)
        """Frozen parameters, buffers and tied names, as they are in the user's module."""
        self._key_names = key_dropouts(module)
        self.noisy = bool(self._key_names)
        trainable = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
        if not trainable:
            raise ModelError("the model has no trainable parameters. Leave requires_grad on.")
        self._slots, self.d = _lay_out(trainable)
        self.parameters = sum(p.numel() for p in trainable.values())
        self._initial = torch.zeros(self.d)
        for name, slot in self._slots.items():
            slot.view(self._initial).copy_(trainable[name])
        self._task, self.problem = problem.task, problem
        self._training = module.train()
        self._evaluating = copy.deepcopy(module).eval()
        self._activations = self._count_activations(problem)
        module_checks.check_training(module, problem)
        self._chain: Chain | None = None
        if problem.tokens is None and len(problem.output_shape) == 1:
            self._chain = chain_of(module, self._slots, problem.input_shape, problem.task)
        self._fused = False
        self._fails_in_bf16 = False
        self._saved_bytes: dict[bool, int] = {}
        """Bytes per sample saved for the backward pass, with bf16 or without; for a GPU only."""
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.why_one_by_one = ""
        """Why models are stepped one after the other; empty if they are batched."""
        self._map_scores: Callable[..., Tensor] = _score_batched
        self.scores_devices_at_once = True
        if self._chain is None:
            self._find_batching()

    @property
    def one_by_one(self) -> bool:
        """Whether models are stepped one after the other."""
        return bool(self.why_one_by_one)

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move the frozen parameters and buffers."""
        if self._chain is None and device.type != "cpu" and not self._saved_bytes:
            self._measure_saved_bytes()
        for module in (self._training, self._evaluating):
            module.to(device=device, dtype=dtype)
        self.device, self.dtype = device, dtype
        self._fused = fused.supports(device, dtype)
        if self._chain is None and device.type != "cpu":  # other kernels may batch other operations
            self._find_batching()

    def prepare(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1).contiguous() if self._channels_last else x

    def initial(self) -> Tensor:
        return self._initial

    def layout(self) -> Layout:
        """The trainable parameters, by their names in the module."""
        slots = self._slots.items()
        return tuple(contiguous(name, slot.shape, slot.start) for name, slot in slots)

    def load(self, weights: Mapping[str, Tensor], path: str) -> None:
        """Start from the trained parameters of a state dict; its frozen part must be this one's."""
        given = {plain_name(name): tensor for name, tensor in weights.items()}
        trained = {plain_name(name): name for name in (*self._slots, *self.untrained.tied)}
        fixed = {plain_name(name): tensor for name, tensor in self.untrained.fixed.items()}
        missing = {plain_name(name) for name in self._slots} - given.keys()
        check_names(path, sorted(missing), sorted(given.keys() - trained.keys() - fixed.keys()))
        for name in fixed.keys() & given.keys():
            if not torch.equal(fixed[name], given[name].to(fixed[name].dtype)):
                raise ModelError(
                    f"model.weights: '{name}' is frozen, so that all devices share it (got other "
                    f"numbers in {path}). Give all devices the same."
                )
        for plain, name in trained.items():
            slot = self._slots[self.untrained.tied.get(name, name)]
            if plain in given:
                check_shape(path, plain, given[plain], slot.shape)
                slot.view(self._initial).copy_(given[plain])

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return self._loss(self._views(x_d), x, y, noise)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_nld):
            return self._chain.step(X_nld, batch, eta_l)
        with _ignore_torch_warnings():
            if self.one_by_one:
                return self._step_one_by_one(X_nld, batch, eta_l)
            gradients, losses = self._gradients(X_nld, batch)
        for name, view in self._views(X_nld).items():
            eta = eta_l.view(1, -1, *[1] * len(self._slots[name].shape))
            view.addcmul_(gradients[name], eta, value=-1)
        return losses

    def _gradients(self, X_nld: Tensor, batch: Batch) -> tuple[Parameters, Tensor]:
        """Gradients of all parameters, and the losses [n, L], at the current precision."""
        shares_y = self._task.loss_name == "cross_entropy"
        y = batch.y if shares_y else over_lanes(batch.y, X_nld)

        def differentiate(loss: Callable[..., Tensor]) -> tuple[Parameters, Tensor]:
            lanes = vmap(grad_and_value(loss), in_dims=(0, None, None if shares_y else 0, None))
            return vmap(lanes)(self._views(X_nld), batch.x, y, batch.noise)

        if not self._uses_bf16(X_nld):
            return differentiate(self._loss)
        try:
            return differentiate(partial(self._loss, bf16=True))
        except Exception as error:  # a user's own layer may require float32
            if is_out_of_memory(error) or cuda_graph.is_capturing():
                raise
            self._fails_in_bf16 = True
            warnings.warn(
                f"The model does not run in bf16 ({one_line(error):.120}). training.precision = "
                '"bf16" computes it as "tf32" does.',
                SkerryWarning,
                stacklevel=2,
            )
            return differentiate(self._loss)

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_md):
            return self._chain.scores(X_md, x)
        with _ignore_torch_warnings():
            return self._map_scores(partial(self._outputs, x=x), self._views(X_md))

    def scores_by_device(self, X_nld: Tensor, x_n: Tensor) -> Tensor:
        """Outputs [n, L, N, ...] of each device's models for the device's own inputs."""
        if self._chain is not None and self._chain.runs_on(X_nld):
            return self._chain.scores_by_device(X_nld, x_n)

        def score_device(parameters: Parameters, x: Tensor) -> Tensor:
            return self._map_scores(partial(self._outputs, x=x), parameters)

        with _ignore_torch_warnings():
            return vmap(score_device)(self._views(X_nld), x_n)

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return self._task.mean_loss(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        if self._chain is not None:
            item = 2 if self._fused and precision.current() == "bf16" else 4
            inputs = 4 * batch * math.prod(self.problem.input_shape)
            return inputs + lanes * self._chain.memory(batch, self._fused, item)
        models = 1 if self.one_by_one else lanes
        if self._saved_bytes:
            bf16 = self._fused and precision.current() == "bf16" and not self._fails_in_bf16
            sample = int(self._saved_bytes[bf16] * (PEAK_BF16 if bf16 else PEAK_FLOAT32))
        else:  # activations, their gradients and one workspace
            sample = 4 * 3 * self._activations
        return models * (batch * sample + 4 * self.d)

    def _step_one_by_one(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        losses_nl = X_nld.new_empty(X_nld.shape[:2])
        for i, lane in torch.cartesian_prod(*(torch.arange(s) for s in X_nld.shape[:2])).tolist():
            at = {
                n: view.detach().requires_grad_() for n, view in self._views(X_nld[i, lane]).items()
            }
            loss = self._loss(at, batch.x[i], batch.y[i], batch.noise[i])
            gradients = torch.autograd.grad(loss, [*at.values()], allow_unused=True)
            losses_nl[i, lane] = loss.detach()
            views = self._views(X_nld[i, lane]).values()
            for view, gradient in zip(views, gradients, strict=True):
                if gradient is not None:
                    view.addcmul_(gradient, eta_l[lane], value=-1)
        return losses_nl

    def _uses_bf16(self, X: Tensor) -> bool:
        """Whether activations are rounded to bf16; never on a CPU, which gains nothing from it."""
        return X.is_cuda and precision.current() == "bf16" and not self._fails_in_bf16

    def _loss(
        self, parameters: Parameters, x: Tensor, y: Tensor, noise: Tensor, bf16: bool = False
    ) -> Tensor:
        """Loss of one model; with `bf16`, sums, norms and the loss itself stay in float32."""
        tensors = parameters | dict.fromkeys(self._key_names, noise)
        with bf16_autocast(self.device, self.dtype) if bf16 else nullcontext():
            outputs = functional_call(self._training, tensors, (self._as_module_input(x),))
        return self._task.loss(outputs.to(self.dtype) if bf16 else outputs, y)

    def _outputs(self, parameters: Parameters, x: Tensor) -> Any:
        """Outputs of one model, without training noise."""
        return functional_call(self._evaluating, parameters, (self._as_module_input(x),))

    @property
    def _channels_last(self) -> bool:
        return self._chain is not None and self._chain.images

    def _as_module_input(self, x: Tensor) -> Tensor:
        """Inputs in the layout of the module."""
        return x.movedim(-1, 1) if self._channels_last else x

    def _views(self, X: Tensor) -> Parameters:
        """Each parameter as a view of the last dimension of X."""
        return {name: slot.view(X) for name, slot in self._slots.items()}

    def _count_activations(self, problem: Problem) -> int:
        """Run and check the module on two samples; return the number of activations per sample."""
        counted = 0

        def count(_module: nn.Module, _inputs: Any, output: Any) -> None:
            nonlocal counted
            first = output[0] if isinstance(output, tuple) and output else output
            if isinstance(first, Tensor):
                counted += first.numel() // 2

        hooks = [
            m.register_forward_hook(count)
            for m in self._evaluating.modules()
            if not list(m.children())
        ]
        module_checks.example_outputs(self._evaluating, problem)
        for hook in hooks:
            hook.remove()
        return counted

    def _measure_saved_bytes(self) -> None:
        x, _ = self.problem.example()
        full = bytes_saved(self._training, x, bf16=False)
        try:
            self._saved_bytes = {False: full, True: bytes_saved(self._training, x, bf16=True)}
        except Exception:  # the first step will raise it again, or warn
            self._saved_bytes = {False: full, True: full}

    def _find_batching(self) -> None:
        """Try batched steps and scores on two devices and two lanes; fall back where they fail."""
        device, dtype = self.device, self.dtype
        x, y = self.problem.example(device, dtype)
        noise = torch.zeros(2, dtype=torch.int64, device=device)
        batch = Batch(torch.stack([x, x]), torch.stack([y, y]), noise)
        X_nld = self._initial.to(device, dtype).expand(2, 2, -1).clone()
        self.why_one_by_one = ""
        try:
            self.step(X_nld.clone(), batch, X_nld.new_full((2,), 0.1))
        except Exception as error:  # an operation may have no batching rule, or depend on values
            self.why_one_by_one = one_line(error)
            self.step(X_nld, batch, X_nld.new_full((2,), 0.1))
        for self._map_scores in (_score_batched, _score_with_gradient, _score_one_by_one):
            try:
                self.scores(X_nld[0], x)
                break
            except Exception:
                if self._map_scores is _score_one_by_one:
                    raise
        try:
            self.scores_by_device(X_nld, batch.x)
            self.scores_devices_at_once = True
        except Exception:  # what vmap can batch once it cannot always batch twice
            self.scores_devices_at_once = False


@contextmanager
def _ignore_torch_warnings() -> Iterator[None]:
    """Ignore torch's warnings about loops inside vmap and about recurrent layers on views."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(performance drop|contiguous chunk)")
        yield


def _score_batched(score: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    return vmap(score)(models)


def _score_with_gradient(score: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    """Scores under vjp: torch then splits recurrent layers into operations that vmap can batch."""
    return vmap(lambda parameters: vjp(score, parameters)[0])(models)  # type: ignore[no-any-return]


def _score_one_by_one(score: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    count = len(next(iter(models.values())))
    with torch.no_grad():
        return torch.stack([score({n: p[m] for n, p in models.items()}) for m in range(count)])


def _lay_out(parameters: Mapping[str, Tensor]) -> tuple[dict[str, Slot], int]:
    """Slots of all parameters in the flat vector, and its length.

    Every slot starts at a multiple of the alignment; the padding between slots stays zero.
    """
    slots, length = {}, 0
    for name, parameter in parameters.items():
        slots[name] = Slot(length, tuple(parameter.shape))
        length += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
    return slots, length


def bytes_saved(module: nn.Module, x: Tensor, bf16: bool) -> int:
    """Bytes that autograd saves for the backward pass per sample, with bf16 autocast or without."""
    with torch.autocast(x.device.type, torch.bfloat16) if bf16 else nullcontext():
        once, twice = _saved_in_forward(module, x), _saved_in_forward(module, torch.cat([x, x]))
    return (twice - once) // len(x)


def _saved_in_forward(module: nn.Module, x: Tensor) -> int:
    """Bytes that autograd saves in one forward pass; a tensor saved several times counts once."""
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no other reuses it
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(x)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())
