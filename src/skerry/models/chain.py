"""Sequential models of common layers, stepped for all devices and lanes without autograd."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from skerry.kernels import fused
from skerry.models.layers import Activation, Convolution, Dense, Dropout, Flatten, Layer, Slot
from skerry.models.learner import Batch
from skerry.models.noise import KeyedDropout
from skerry.tasks.task import LearningTask


@dataclass(frozen=True)
class Chain:
    """A sequential model: a step and scores of many models, layer by layer."""

    layers: tuple[Layer, ...]
    images: bool
    """Whether the inputs are images for a convolution, which must be channels last."""
    task: LearningTask

    def runs_on(self, X: Tensor) -> bool:
        """Whether to use the chain; on a GPU without fused kernels, vmap convolves faster."""
        return not X.is_cuda or fused.runs_on(X) or not self.images

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        """X <- X - eta G(X) in place; returns the losses [n, L] before it."""
        n, lanes, d = X_nld.shape
        X_md = X_nld.view(n * lanes, d)
        x, saved = batch.x, []
        for layer in self.layers:
            x, one = layer.forward(X_md, x, batch.noise)
            saved.append(one)
        Z = x.to(X_nld.dtype).view(n, lanes, *x.shape[1:]).mT
        losses, P = self.task.loss_and_gradient(Z, batch.y, eta_l / batch.y.shape[1])
        g = P.mT.flatten(0, 1)
        for number, layer in reversed(list(enumerate(self.layers))):
            g_input = layer.backward(X_md, saved.pop(), g, input_grad=number > self._first)
            if g_input is None:
                break
            g = g_input
        return losses

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        """Outputs [m, N, outputs] of m models on the same inputs."""
        return self._outputs(X_md, x.unsqueeze(0))

    def scores_by_device(self, X_nld: Tensor, x_n: Tensor) -> Tensor:
        """Outputs [n, L, N, outputs] of the models of each device on inputs of its own."""
        values = self._outputs(X_nld.reshape(-1, X_nld.shape[2]), x_n)
        return values.view(*X_nld.shape[:2], *values.shape[1:])

    def _outputs(self, X_md: Tensor, values: Tensor) -> Tensor:
        for layer in self.layers:
            values, _ = layer.forward(X_md, values, None)
        return values.to(X_md.dtype)

    def memory(self, batch: int, kernels: bool, item: int) -> int:
        """Peak bytes of a step per model; the backward pass frees what was saved layer by layer."""
        peak = saved = 0
        for number, layer in enumerate(self.layers):
            more, temporary = layer.memory(batch, kernels, item, input_grad=number > self._first)
            saved += more
            peak = max(peak, saved + temporary)
        return peak

    @property
    def _first(self) -> int:
        """Index of the first layer with parameters; no gradient is needed below it."""
        return next(i for i, one in enumerate(self.layers) if isinstance(one, Dense | Convolution))


def chain_of(
    module: nn.Module, slots: Mapping[str, Slot], input_shape: tuple[int, ...], task: LearningTask
) -> Chain | None:
    """The module as a chain, or None if a layer or the order of layers is not supported here."""
    reader = _Reader(slots, input_shape)
    try:
        reader.read(list(_layers(module, "")))
    except _UnknownLayerError:
        return None
    return Chain(tuple(reader.layers), reader.images, task)


class _UnknownLayerError(Exception):
    """A layer, or an order of layers, that a chain does not support."""


class _Reader:
    """Translates torch's layers into ours, one after the other."""

    def __init__(self, slots: Mapping[str, Slot], input_shape: tuple[int, ...]):
        self.layers: list[Layer] = []
        self.images = False
        self._slots = slots
        self._raw = input_shape
        self._image: tuple[int, int, int] | None = None
        """Height, width and channels of the images after the layers read so far."""
        self._flat = len(input_shape) == 1

    def read(self, layers: list[tuple[str, nn.Module]]) -> None:
        while layers:
            name, layer = layers.pop(0)
            if type(layer) is nn.Conv2d:
                self._convolution(name, layer, *_pop_activation(layers, pools=True))
            elif type(layer) is nn.Linear:
                self._dense(name, layer, _pop_activation(layers, pools=False)[0])
            elif type(layer) is nn.Flatten:
                self._flatten(layer)
            elif type(layer) is KeyedDropout and self.layers:
                self.layers.append(Dropout(layer.p, layer.salt))
            else:
                raise _UnknownLayerError
        if not (self.layers and isinstance(self.layers[-1], Dense)):
            raise _UnknownLayerError

    def _convolution(self, name: str, layer: nn.Conv2d, activation: Activation, pool: int) -> None:
        if not self.layers and len(self._raw) == 3:
            self.images = True
            self._image = (self._raw[1], self._raw[2], self._raw[0])
        if self._image is None or not _is_plain(layer):
            raise _UnknownLayerError
        weight, bias = self._slots_of(name, layer)
        padding = int(layer.padding[0])
        convolution = Convolution(weight, bias, padding, pool, activation, self._image[:2])
        height, width = convolution.size
        self._image = (height // pool, width // pool, layer.out_channels)
        self.layers.append(convolution)

    def _dense(self, name: str, layer: nn.Linear, activation: Activation) -> None:
        if not self._flat:
            raise _UnknownLayerError
        self.layers.append(Dense(*self._slots_of(name, layer), activation))

    def _flatten(self, layer: nn.Flatten) -> None:
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise _UnknownLayerError
        if not self._flat:
            self.layers.append(Flatten(self._image))
        self._image, self._flat = None, True

    def _slots_of(self, name: str, layer: nn.Conv2d | nn.Linear) -> tuple[Slot, Slot | None]:
        names = [f"{name}.{parameter}" for parameter, _ in layer.named_parameters()]
        if not all(one in self._slots for one in names):  # frozen, or shared with another layer
            raise _UnknownLayerError
        weight, *bias = (self._slots[one] for one in names)
        return weight, bias[0] if bias else None


def _layers(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Names and layers of nested nn.Sequentials, in order."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for child_name, child in module.named_children():
        yield from _layers(child, f"{name}.{child_name}" if name else child_name)


def _pop_activation(layers: list[tuple[str, nn.Module]], pools: bool) -> tuple[Activation, int]:
    """Remove the activation and 2 x 2 pooling that come next, in either order, and return them."""
    activation, pool = Activation(), 1
    while layers:
        _, layer = layers[0]
        if type(layer) is nn.ReLU and activation.name == "none":
            activation = Activation("relu")
        elif type(layer) is nn.ELU and layer.alpha == 1 and activation.name == "none":
            activation = Activation("elu")
        elif pools and pool == 1 and _pools_by_two(layer):
            pool = 2
        else:
            break
        layers.pop(0)
    return activation, pool


def _pools_by_two(layer: nn.Module) -> bool:
    return type(layer) is nn.MaxPool2d and (
        _pair(layer.kernel_size), _pair(layer.stride), _pair(layer.padding), _pair(layer.dilation),
        layer.ceil_mode, layer.return_indices,
    ) == ((2, 2), (2, 2), (0, 0), (1, 1), False, False)  # fmt: skip


def _is_plain(layer: nn.Conv2d) -> bool:
    """Whether a convolution is square with stride 1, zero padding and one group."""
    padding = layer.padding
    return (
        layer.kernel_size[0] == layer.kernel_size[1]
        and (_pair(layer.stride), _pair(layer.dilation)) == ((1, 1), (1, 1))
        and (layer.groups, layer.padding_mode) == (1, "zeros")
        and not isinstance(padding, str)
        and padding[0] == padding[1] < layer.kernel_size[0]
    )


def _pair(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value, value)
