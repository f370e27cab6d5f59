"""Any nn.Module as a learner, on views of X.

Chains of common layers (chain.py) are stepped by hand; all other modules by
vmap(grad(functional_call)) over devices and lanes.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from skerry.errors import ModelError, one_line
from skerry.kernels import fused, precision
from skerry.models.blocks import Slot
from skerry.models.chain import chain_of
from skerry.models.learner import ALIGNMENT, Batch, Problem
from skerry.models.noise import key_dropouts
from skerry.tasks.task import over_lanes

_WANTED = {
    "classification": "one score per class",
    "regression": "one number for each of a target's",
    "tokens": "one score per token at every place",
}


class ModuleLearner:
    """The module maps inputs [B, ...] to what the task wants of each: class scores, numbers, or
    scores of the next token at every place."""

    classifies = True

    def __init__(self, module: nn.Module, problem: Problem):
        _refuse_batch_statistics(module)
        module.float()
        _settle_lazy_layers(module, problem)
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
        self._task = problem.task
        self._training = module.train()
        self._evaluating = copy.deepcopy(module).eval()
        self._activations = self._try_out(problem)
        self._chain = None
        if problem.tokens is None and len(problem.output_shape) == 1:
            self._chain = chain_of(module, self._slots, problem.input_shape, problem.task)
        self._input_shape = problem.input_shape
        self._fused = False

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Frozen parameters and buffers follow the data."""
        for module in (self._training, self._evaluating):
            module.to(device=device, dtype=dtype)
        self._fused = fused.serves(device, dtype)

    def prepare(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1).contiguous() if self._channels_last else x

    def initial(self) -> Tensor:
        return self._initial

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return self._loss(self._views(x_d), x, y, noise)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_nld):
            return self._chain.step(X_nld, batch, eta_l)
        usual = self._task.loss_name == "cross_entropy"
        y = batch.y if usual else over_lanes(batch.y, X_nld)
        each_lane = vmap(grad_and_value(self._loss), in_dims=(0, None, None if usual else 0, None))
        gradients, losses = vmap(each_lane)(self._views(X_nld), batch.x, y, batch.noise)
        for name, view in self._views(X_nld).items():
            eta = eta_l.view(1, -1, *[1] * len(self._slots[name].shape))
            view.addcmul_(gradients[name], eta, value=-1)
        return losses  # type: ignore[no-any-return]

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        if self._chain is not None and self._chain.runs_on(X_md):
            return self._chain.scores(X_md, x)

        def of_one(parameters: dict[str, Tensor]) -> Any:
            return functional_call(self._evaluating, parameters, (self._as_given(x),))

        return vmap(of_one)(self._views(X_md))  # type: ignore[no-any-return]

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return self._task.mean_loss(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        if self._chain is not None:
            item = 2 if self._fused and precision.current() == "bf16" else 4
            inputs = 4 * batch * math.prod(self._input_shape)
            return inputs + lanes * self._chain.memory(batch, self._fused, item)
        # Forward values, their gradients and one workspace; then the gradient of the parameters.
        return 4 * lanes * (3 * batch * self._activations + self.d)

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        keys = dict.fromkeys(self._key_names, noise)
        outputs = functional_call(self._training, {**parameters, **keys}, (self._as_given(x),))
        return self._task.loss(outputs, y)

    @property
    def _channels_last(self) -> bool:
        return self._chain is not None and self._chain.images

    def _as_given(self, x: Tensor) -> Tensor:
        """Inputs as the module takes them."""
        return x.movedim(-1, 1) if self._channels_last else x

    def _views(self, X: Tensor) -> dict[str, Tensor]:
        """Each parameter as a view of the last dimension of X."""
        return {name: slot.of(X) for name, slot in self._slots.items()}

    def _try_out(self, problem: Problem) -> int:
        """Run two samples through the module, so that a misfit is told before the work starts;
        returns the number of values one sample leaves behind, for the memory plan."""
        counted = 0

        def count(_module: nn.Module, _inputs: Any, output: Any) -> None:
            nonlocal counted
            if isinstance(output, Tensor):
                counted += output.numel() // 2

        hooks = [
            m.register_forward_hook(count)
            for m in self._evaluating.modules()
            if not list(m.children())
        ]
        scores = _outputs(self._evaluating, problem)
        for hook in hooks:
            hook.remove()
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        wanted = (2, *problem.output_shape)
        if got != wanted:
            raise ModelError(
                f"the model must give {_WANTED[problem.task.name]}, shape {wanted} for two "
                f"samples (got {got}). Change its last layer."
            )
        return counted


def _lay_out(parameters: Mapping[str, Tensor]) -> tuple[dict[str, Slot], int]:
    """A place for every parameter in the flat vector, each at a multiple of the alignment (the
    numbers between them stay zero); and the length of the vector."""
    slots, length = {}, 0
    for name, parameter in parameters.items():
        slots[name] = Slot(length, tuple(parameter.shape))
        length += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
    return slots, length


def _outputs(module: nn.Module, problem: Problem) -> Any:
    """What the module makes of two samples."""
    try:
        with torch.no_grad():
            return module(problem.example()[0])
    except Exception as error:  # a user's module may fail in any way
        raise ModelError(
            f"the model fails on inputs of shape {problem.input_shape} ({one_line(error)}). "
            "Make it accept a batch of that shape."
        ) from error


def _settle_lazy_layers(module: nn.Module, problem: Problem) -> None:
    """Layers such as nn.LazyLinear have no parameters until they have seen an input."""
    if any(map(nn.parameter.is_lazy, module.parameters())):
        _outputs(module, problem)


def _refuse_batch_statistics(module: nn.Module) -> None:
    for name, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._NormBase) and (
            isinstance(child, nn.modules.batchnorm._BatchNorm) or child.track_running_stats
        ):
            raise ModelError(
                f"layer '{name or type(child).__name__}' ({type(child).__name__}) keeps batch "
                "statistics, which devices cannot average or mix as parameters. Use "
                "torch.nn.GroupNorm instead."
            )
