"""Any nn.Module as a learner, on views of X.

Chains of common layers (chain.py) are stepped by hand, other modules by vmap(grad(functional_call))
over devices and lanes. What vmap cannot batch goes one model after the other. Frozen parameters and
buffers stay in the module: all devices share them, and no message carries them.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vjp, vmap

from skerry.errors import ModelError, SkerryWarning, is_out_of_memory, one_line
from skerry.kernels import cuda_graph as recorded
from skerry.kernels import fused, precision
from skerry.models import module_checks
from skerry.models.batched import rounded_at_once
from skerry.models.blocks import Slot
from skerry.models.chain import Chain, chain_of
from skerry.models.kept import bytes_kept
from skerry.models.learner import ALIGNMENT, Batch, Problem
from skerry.models.noise import key_dropouts
from skerry.tasks.task import over_lanes

Parameters = dict[str, Tensor]

FULL, ROUNDED = 2.6, 2.0
"""What a step takes at its peak on a GPU for each byte that autograd keeps on a CPU. Measured were
2.0 to 2.5, for vmap takes norms apart, and 1.3 to 1.9 with kernels of our own."""


class ModuleLearner:
    """The module maps inputs [B, ...] to what the task wants of each: class scores, numbers, or
    scores of the next token at every place."""

    classifies = True

    def __init__(self, module: nn.Module, problem: Problem):
        self._key_names = key_dropouts(module)
        self.noisy = bool(self._key_names)
        trainable = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
        if not trainable:
            raise ModelError("the model has no trainable parameters. Leave requires_grad on.")
        self._slots, self.d = _lay_out(trainable)
        self.parameters = sum(p.numel() for p in trainable.values())
        self._initial = torch.zeros(self.d)
        for name, slot in self._slots.items():
            slot.of(self._initial).copy_(trainable[name])
        self._task, self.problem = problem.task, problem
        self._training = module.train()
        self._evaluating = copy.deepcopy(module).eval()
        self._activations = self._try_out(problem)
        module_checks.check_training(module, problem)
        self._chain: Chain | None = None
        if problem.tokens is None and len(problem.output_shape) == 1:
            self._chain = chain_of(module, self._slots, problem.input_shape, problem.task)
        self._input_shape = problem.input_shape
        self._fused = False
        self._in_full = False
        """Whether the module was found not to run in bf16."""
        self._kept: dict[bool, int] = {}
        """Bytes of a sample that are kept for the way back, rounded or not; on a GPU."""
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.why_one_by_one = ""
        """Why steps go one model after the other, if they do."""
        self._map_scores: Callable[..., Tensor] = _mapped
        self.scores_devices_at_once = True
        if self._chain is None:
            self._see_what_can_be_batched()

    @property
    def one_by_one(self) -> bool:
        return bool(self.why_one_by_one)

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Frozen parameters and buffers follow the data."""
        if self._chain is None and device.type != "cpu" and not self._kept:
            self._count_what_is_kept()
        for module in (self._training, self._evaluating):
            module.to(device=device, dtype=dtype)
        self.device, self.dtype = device, dtype
        self._fused = fused.serves(device, dtype)
        if self._chain is None and device.type != "cpu":  # whose kernels may be others
            self._see_what_can_be_batched()

    def prepare(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1).contiguous() if self._channels_last else x

    def initial(self) -> Tensor:
        return self._initial

    def places(self) -> Tensor:
        real = torch.zeros(self.d, dtype=torch.bool)
        for slot in self._slots.values():
            slot.of(real).fill_(True)
        return real

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return self._loss(self._views(x_d), x, y, noise)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_nld):
            return self._chain.step(X_nld, batch, eta_l)
        if self.one_by_one:
            with _quietly():
                return self._step_one_by_one(X_nld, batch, eta_l)
        with _quietly():
            gradients, losses = self._gradients(X_nld, batch)
        for name, view in self._views(X_nld).items():
            eta = eta_l.view(1, -1, *[1] * len(self._slots[name].shape))
            view.addcmul_(gradients[name], eta, value=-1)
        return losses

    def _gradients(self, X_nld: Tensor, batch: Batch) -> tuple[Parameters, Tensor]:
        """Of all parameters, and the losses [n, L], at the precision in force."""
        usual = self._task.loss_name == "cross_entropy"
        y = batch.y if usual else over_lanes(batch.y, X_nld)

        def of(loss: Callable[..., Tensor]) -> tuple[Parameters, Tensor]:
            each_lane = vmap(grad_and_value(loss), in_dims=(0, None, None if usual else 0, None))
            found: tuple[Parameters, Tensor] = vmap(each_lane)(
                self._views(X_nld), batch.x, y, batch.noise
            )
            return found

        if not self._rounds(X_nld):
            return of(self._loss)
        try:
            return of(self._rounded_loss)
        except Exception as error:  # a user's own layer may insist on float32
            if is_out_of_memory(error) or recorded.is_recording():
                raise
            self._stays_in_full(error)
            return of(self._loss)

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_md):
            return self._chain.scores(X_md, x)

        with _quietly():
            return self._map_scores(partial(self._outputs, x=x), self._views(X_md))

    def scores_by_device(self, X_nld: Tensor, x_n: Tensor) -> Tensor:
        """What the models of each device give for inputs of its own, [n, L, N, ...]."""
        if self._chain is not None and self._chain.runs_on(X_nld):
            return self._chain.scores_by_device(X_nld, x_n)

        def of_device(parameters: Parameters, x: Tensor) -> Tensor:
            return self._map_scores(partial(self._outputs, x=x), parameters)

        with _quietly():
            return vmap(of_device)(self._views(X_nld), x_n)

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return self._task.mean_loss(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        if self._chain is not None:
            item = 2 if self._fused and precision.current() == "bf16" else 4
            inputs = 4 * batch * math.prod(self._input_shape)
            return inputs + lanes * self._chain.memory(batch, self._fused, item)
        at_once = 1 if self.one_by_one else lanes
        if self._kept:
            rounded = self._fused and precision.current() == "bf16" and not self._in_full
            sample = int(self._kept[rounded] * (ROUNDED if rounded else FULL))
        else:  # forward values, their gradients and one workspace
            sample = 4 * 3 * self._activations
        return at_once * (batch * sample + 4 * self.d)

    def _step_one_by_one(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        losses_nl = X_nld.new_empty(X_nld.shape[:2])
        for i, lane in torch.cartesian_prod(*(torch.arange(s) for s in X_nld.shape[:2])).tolist():
            at = {
                n: view.detach().requires_grad_() for n, view in self._views(X_nld[i, lane]).items()
            }
            loss = self._loss(at, batch.x[i], batch.y[i], batch.noise[i])
            found = torch.autograd.grad(loss, [*at.values()], allow_unused=True)
            losses_nl[i, lane] = loss.detach()
            for view, gradient in zip(self._views(X_nld[i, lane]).values(), found, strict=True):
                if gradient is not None:
                    view.addcmul_(gradient, eta_l[lane], value=-1)
        return losses_nl

    def _rounds(self, X: Tensor) -> bool:
        """Whether activations are rounded too. A CPU, which gains nothing from it, does not."""
        return X.is_cuda and precision.current() == "bf16" and not self._in_full

    def _rounded_loss(self, parameters: Parameters, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """Every product in bf16; sums, norms and the loss in float32."""
        keys = dict.fromkeys(self._key_names, noise)
        with rounded_at_once(self.device, self.dtype):
            outputs = functional_call(self._training, {**parameters, **keys}, (self._as_given(x),))
        return self._task.loss(outputs.to(self.dtype), y)

    def _stays_in_full(self, error: Exception) -> None:
        self._in_full = True
        warnings.warn(
            f'The model does not run in bf16 ({one_line(error):.120}). training.precision = "bf16" '
            'computes it as "tf32" does.',
            SkerryWarning,
            stacklevel=2,
        )

    def _loss(self, parameters: Parameters, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        keys = dict.fromkeys(self._key_names, noise)
        outputs = functional_call(self._training, {**parameters, **keys}, (self._as_given(x),))
        return self._task.loss(outputs, y)

    def _outputs(self, parameters: Parameters, x: Tensor) -> Any:
        """Of one model, without training noise."""
        return functional_call(self._evaluating, parameters, (self._as_given(x),))

    @property
    def _channels_last(self) -> bool:
        return self._chain is not None and self._chain.images

    def _as_given(self, x: Tensor) -> Tensor:
        """Inputs as the module takes them."""
        return x.movedim(-1, 1) if self._channels_last else x

    def _views(self, X: Tensor) -> Parameters:
        """Each parameter as a view of the last dimension of X."""
        return {name: slot.of(X) for name, slot in self._slots.items()}

    def _try_out(self, problem: Problem) -> int:
        """Run two samples through the module, so that a misfit is told before the work starts;
        returns the number of values one sample leaves behind, for the memory plan."""
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
        scores = module_checks.example_outputs(self._evaluating, problem)
        for hook in hooks:
            hook.remove()
        module_checks.check_outputs(scores, problem)
        return counted

    def _count_what_is_kept(self) -> None:
        x, _ = self.problem.example()
        full = bytes_kept(self._training, x, rounded=False)
        try:
            self._kept = {False: full, True: bytes_kept(self._training, x, rounded=True)}
        except Exception:  # it will be told when it steps
            self._kept = {False: full, True: full}

    def _see_what_can_be_batched(self) -> None:
        """Two devices and two lanes, batched: what fails so goes one after the other."""
        device, dtype = self.device, self.dtype
        x, y = (part.to(device) for part in self.problem.example())
        x, y = (part.to(dtype) if part.is_floating_point() else part for part in (x, y))
        batch = Batch(
            torch.stack([x, x]), torch.stack([y, y]), torch.zeros(2, dtype=torch.int64).to(device)
        )
        X_nld = self._initial.to(device, dtype).expand(2, 2, -1).clone()
        self.why_one_by_one = ""
        try:
            self.step(X_nld.clone(), batch, X_nld.new_full((2,), 0.1))
        except Exception as error:  # an operation may lack a rule, or look at values
            self.why_one_by_one = one_line(error)
            self.step(X_nld, batch, X_nld.new_full((2,), 0.1))
        for self._map_scores in (_mapped, _mapped_by_parts, _one_after_the_other):
            try:
                self.scores(X_nld[0], x)
                break
            except Exception:
                if self._map_scores is _one_after_the_other:
                    raise
        try:
            self.scores_by_device(X_nld, batch.x)
            self.scores_devices_at_once = True
        except Exception:  # what can be mapped over models cannot always be mapped over devices too
            self.scores_devices_at_once = False


@contextmanager
def _quietly() -> Iterator[None]:
    """torch warns of operations that it loops over inside vmap, and of recurrent layers whose
    weights are views."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(performance drop|contiguous chunk)")
        yield


def _mapped(of_one: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    return vmap(of_one)(models)


def _mapped_by_parts(of_one: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    """Where a gradient may be asked for, recurrent layers come apart into what vmap can batch."""
    return vmap(lambda parameters: vjp(of_one, parameters)[0])(models)  # type: ignore[no-any-return]


def _one_after_the_other(of_one: Callable[[Parameters], Tensor], models: Parameters) -> Tensor:
    count = len(next(iter(models.values())))
    with torch.no_grad():
        return torch.stack([of_one({n: p[m] for n, p in models.items()}) for m in range(count)])


def _lay_out(parameters: Mapping[str, Tensor]) -> tuple[dict[str, Slot], int]:
    """A place for every parameter in the flat vector, each at a multiple of the alignment (the
    numbers between them stay zero); and the length of the vector."""
    slots, length = {}, 0
    for name, parameter in parameters.items():
        slots[name] = Slot(length, tuple(parameter.shape))
        length += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
    return slots, length
