"""Any nn.Module as a learner: vmap(grad(functional_call)) over devices and lanes, on views of X."""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from skerry.errors import ModelError, one_line
from skerry.models.learner import Batch, Problem
from skerry.models.noise import key_dropouts


class ModuleLearner:
    """A classifier: the module maps inputs [B, ...] to class scores [B, classes]."""

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
        self._shapes = {name: p.shape for name, p in trainable.items()}
        self._initial = torch.cat([p.flatten().float() for p in trainable.values()])
        self.d = self.parameters = len(self._initial)
        self._training = module.train()
        self._evaluating = copy.deepcopy(module).eval()
        self._activations = self._try_out(problem)

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Frozen parameters and buffers follow the data."""
        for module in (self._training, self._evaluating):
            module.to(device=device, dtype=dtype)

    def prepare(self, x: Tensor) -> Tensor:
        return x

    def initial(self) -> Tensor:
        return self._initial

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return self._loss(self._views(x_d), x, y, noise)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        over_lanes = vmap(grad_and_value(self._loss), in_dims=(0, None, None, None))
        gradients, losses = vmap(over_lanes)(self._views(X_nld), batch.x, batch.y, batch.noise)
        for name, view in self._views(X_nld).items():
            eta = eta_l.view(1, -1, *[1] * len(self._shapes[name]))
            view.addcmul_(gradients[name], eta, value=-1)
        return losses  # type: ignore[no-any-return]

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        def of_one(parameters: dict[str, Tensor]) -> Any:
            return functional_call(self._evaluating, parameters, (x,))

        return vmap(of_one)(self._views(X_md))  # type: ignore[no-any-return]

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        # Forward values, their gradients and one workspace; then the gradient of the parameters.
        return 4 * lanes * (3 * batch * self._activations + self.d)

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        keys = dict.fromkeys(self._key_names, noise)
        scores = functional_call(self._training, {**parameters, **keys}, (x,))
        return nn.functional.cross_entropy(scores, y)

    def _views(self, X: Tensor) -> dict[str, Tensor]:
        """Each parameter as a view of the last dimension of X."""
        views, start = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            views[name] = X[..., start : start + size].view(*X.shape[:-1], *shape)
            start += size
        return views

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
        if got != (2, problem.classes):
            raise ModelError(
                f"the model must give one score per class, shape (2, {problem.classes}) for two "
                f"samples (got {got}). Change its last layer."
            )
        return counted


def cross_entropy(scores_mnc: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy [m] of scores [m, N, classes] on labels [N]."""
    labels = y.view(1, -1, 1).expand(len(scores_mnc), -1, 1)
    return -torch.log_softmax(scores_mnc, dim=2).gather(2, labels).mean(dim=(1, 2))


def _outputs(module: nn.Module, problem: Problem) -> Any:
    """What the module makes of two samples."""
    try:
        with torch.no_grad():
            return module(torch.zeros(2, *problem.input_shape))
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
