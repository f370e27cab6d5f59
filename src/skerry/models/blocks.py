"""Common layers for many models at once, forward and backward by hand.

A block sees M = devices x lanes models as rows of flat parameters, X [M, d]. Its input is
[G, B, ...] with G = M, or fewer where models that follow each other share an input (the lanes of
a device share its minibatch). Images lie channels last, [G, B, H, W, C].

Going backward, the gradient carries the stepsize of its lane, so a block steps by subtracting.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import vmap

from skerry.kernels import fused
from skerry.kernels.choice import fastest
from skerry.models.noise import uniform
from skerry.models.update import subtract_product

ALIGNED = 8
"""Channels that are read at once."""

Kept = Any
"""What a block keeps from its way forward for its way back."""


@dataclass(frozen=True)
class Slot:
    """Where a parameter lies in the flat vector."""

    start: int
    shape: tuple[int, ...]

    def of(self, X: Tensor) -> Tensor:
        """The parameter as a view of the last dimension of X."""
        flat = X[..., self.start : self.start + math.prod(self.shape)]
        return flat.view(*X.shape[:-1], *self.shape)


class Block(Protocol):
    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Kept]:
        """`noise` holds a key per device when training, and is None when not."""

    def backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        """Step, given the gradient at the output; with `onward`, returns that of the input."""

    def memory(self, batch: int, kernels: bool, item: int, onward: bool) -> tuple[int, int]:
        """Bytes per model: kept until the way back, and more of them held for a moment at most.
        `kernels` says whether the fused ones run, `item` is the size of a number in them."""


@dataclass(frozen=True)
class Activation:
    """ReLU and ELU: their slope follows from their value, so only that is kept."""

    name: str = "none"

    def apply_(self, z: Tensor) -> Tensor:
        if self.name == "relu":
            return z.relu_()
        return nn.functional.elu_(z) if self.name == "elu" else z

    def backward(self, g: Tensor, y: Tensor) -> Tensor:
        if self.name == "relu":
            return torch.ops.aten.threshold_backward(g, y, 0)  # type: ignore[no-any-return]
        if self.name == "elu":
            return torch.ops.aten.elu_backward(g, 1, 1, 1, True, y)  # type: ignore[no-any-return]
        return g


@dataclass(frozen=True)
class Dense:
    """y = act(x W^T + b): batched products on views of X."""

    weight: Slot
    bias: Slot | None
    activation: Activation

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Kept]:
        if len(x) < len(X_md):
            x = x.repeat_interleave(len(X_md) // len(x), dim=0)
        way = self._fused_forward if fused.steps_dense(X_md, x.shape[1]) else self._plain_forward
        return way(X_md, x)

    def backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        x, y = kept
        g = self.activation.backward(g.to(y.dtype), y)
        if self.bias is not None:
            self.bias.of(X_md).sub_(g.sum(dim=1, dtype=X_md.dtype))
        W = self.weight.of(X_md)
        if fused.steps_dense(X_md, x.shape[1]):
            from skerry.kernels import dense

            return dense.step_back(W, g, x, onward)
        back = torch.bmm(g, W) if onward else None
        subtract_product(W, g.mT, x)
        return back

    def memory(self, batch: int, kernels: bool, item: int, onward: bool) -> tuple[int, int]:
        outputs, inputs = self.weight.shape
        number = batch * (item if batch <= fused.MINIBATCH else 4)
        return number * (inputs + outputs), number * (inputs + 2 * outputs)

    def _plain_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Kept]:
        x, W = x.to(X_md.dtype), self.weight.of(X_md)
        if self.bias is None:
            z = torch.bmm(x, W.mT)
        else:
            z = torch.baddbmm(self.bias.of(X_md).unsqueeze(1), x, W.mT)
        y = self.activation.apply_(z)
        return y, (x, y)

    def _fused_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Kept]:
        from skerry.kernels import dense

        b = None if self.bias is None else self.bias.of(X_md)
        y = dense.forward(x, self.weight.of(X_md), b, self.activation.name)
        return y, (x, y)


@dataclass(frozen=True)
class Convolution:
    """y = act(pool(conv(x) + b)). Pooling comes first: it commutes with a rising activation and
    leaves a quarter of the numbers to it."""

    weight: Slot
    bias: Slot | None
    padding: int
    pool: int
    activation: Activation
    image: tuple[int, int]
    """Height and width of the input."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width after the convolution, before pooling."""
        side = self.weight.shape[2]
        height, width = self.image
        return height + 2 * self.padding - side + 1, width + 2 * self.padding - side + 1

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Kept]:
        way = self._fused_forward if fused.runs_on(X_md) else self._plain_forward
        return way(X_md, x)

    def backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        way = self._fused_backward if fused.runs_on(X_md) else self._plain_backward
        return way(X_md, kept, g, onward)

    def memory(self, batch: int, kernels: bool, item: int, onward: bool) -> tuple[int, int]:
        outputs, inputs, side, _ = self.weight.shape
        before = batch * outputs * math.prod(self.size)
        after = before // self.pool**2
        into = batch * inputs * math.prod(self.image)
        weights = outputs * inputs * side * side
        if kernels:  # y, the winners and x; then the gradient that arrives, and those made of it
            framed = batch * inputs * math.prod(e + 2 * self._frame for e in self.image)
            kept = after * (item + 1) + framed * item
            if self._sums_pooled and not onward:
                patches = 4 * outputs * inputs * (side + 1) ** 2  # of four windows at once
                return kept, after * item + 4 * (patches + 5 * weights)
            made = before + into if onward else before
            return kept, (after + made) * item + 2 * 4 * weights
        return 4 * before + 12 * after, 4 * (before + into + weights)

    # One model after the other, by torch: on a CPU its convolutions are close to the ceiling.

    def _plain_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Kept]:
        W, b = self.weight.of(X_md), None if self.bias is None else self.bias.of(X_md)
        lanes = len(W) // len(x)
        outputs, kept = [], []
        for m in range(len(W)):
            image = x[m // lanes].permute(0, 3, 1, 2)  # in name only: channels stay last
            z = nn.functional.conv2d(image, W[m], None if b is None else b[m], padding=self.padding)
            y, winner = z, None
            if self.pool > 1:
                y, winner = nn.functional.max_pool2d_with_indices(z, (self.pool, self.pool))
            y = self.activation.apply_(y)
            outputs.append(y.permute(0, 2, 3, 1))
            kept.append((image, z, y, winner))
        return torch.stack(outputs) if len(outputs) > 1 else outputs[0].unsqueeze(0), kept

    def _plain_backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        W, b = self.weight.of(X_md), None if self.bias is None else self.bias.of(X_md)
        back = []
        for m, (image, z, y, winner) in enumerate(kept):
            slope = self.activation.backward(g[m].permute(0, 3, 1, 2), y)
            if winner is not None:
                pool = [self.pool, self.pool]
                slope = torch.ops.aten.max_pool2d_with_indices_backward(
                    slope, z, pool, pool, [0, 0], [1, 1], False, winner
                )
            d_image, d_W, d_b = torch.ops.aten.convolution_backward(
                slope, image, W[m], [len(W[m])], [1, 1], [self.padding] * 2, [1, 1], False,
                [0, 0], 1, [onward, True, b is not None],
            )  # fmt: skip
            W[m].sub_(d_W)
            if b is not None:
                b[m].sub_(d_b)
            if onward:
                back.append(d_image.permute(0, 2, 3, 1))
        return torch.stack(back) if onward else None

    # All models at once, by kernels that build the patches as they go.

    @property
    def _frame(self) -> int:
        """Padding that images get in memory. Kernels see to it themselves, but with few channels
        one number at a time."""
        return 0 if self.weight.shape[1] % ALIGNED == 0 else self.padding

    @property
    def _sums_pooled(self) -> bool:
        return fused.sums_pooled(self.pool, self.padding - self._frame, self.weight.shape[0])

    def _fused_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Kept]:
        from skerry.kernels import convolution as kernels

        W = self.weight.of(X_md)
        x = x.to(kernels.dtype_of_products()).contiguous()
        if self._frame:
            x = nn.functional.pad(x, (0, 0, *[self._frame] * 4))
        w_mko = W.permute(0, 3, 4, 2, 1).to(x.dtype).reshape(len(W), -1, W.shape[1])
        run = partial(
            kernels.forward, x, w_mko, None if self.bias is None else self.bias.of(X_md),
            W.shape[3], self.padding - self._frame, self.pool, self.activation.name,
        )  # fmt: skip
        y, winner = run(self._tile("forward", x, len(W), kernels.forward_tiles(), run))
        return y, (x, y, winner)

    def _fused_backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        from skerry.kernels import convolution as kernels
        from skerry.kernels import convolution_weights as gradients

        x, y, winner = kept
        W, g = self.weight.of(X_md), g.contiguous()
        models, _, inputs, side, _ = W.shape
        back = None
        if not onward and self._sums_pooled:
            pooled = partial(
                gradients.pooled_weight_sums, x, g, y, winner, side, self.activation.name
            )
            tile = self._tile("pooled weights", x, models, gradients.POOLED_TILES, pooled)
            sums, bias = pooled(tile)
        else:
            G = gradients.before_pool(g, y, winner, *self.size, self.pool, self.activation.name)
            if onward:
                w_mkc = W.flip(3, 4).permute(0, 3, 4, 1, 2).to(G.dtype).reshape(models, -1, inputs)
                around = side - 1 - self.padding
                run = partial(kernels.forward, G, w_mkc, None, side, around, 1, "none")
                back, _ = run(self._tile("backward", x, models, kernels.forward_tiles(), run))
            whole = partial(gradients.weight_sums, x, G, side, self.padding - self._frame)
            sums = whole(self._tile("weights", x, models, gradients.WEIGHT_TILES, whole))
            bias = G.sum(dim=(1, 2, 3), dtype=X_md.dtype)
        W.sub_(sums.permute(0, 4, 3, 1, 2))
        if self.bias is not None:
            self.bias.of(X_md).sub_(bias)
        return back

    def _tile(
        self, what: str, x: Tensor, models: int, tiles: Any, run: Callable[[Any], Any]
    ) -> Any:
        from skerry.kernels import precision

        shapes = f"{what}, {models} models, images {tuple(x.shape)}, weights {self.weight.shape}"
        question = f"convolution {shapes}, pool {self.pool}, {precision.current()}"
        return fastest(question, tiles, run)


@dataclass(frozen=True)
class Flatten:
    """To vectors, in the order that nn.Flatten gives: channels first."""

    image: tuple[int, ...] | None
    """Height, width and channels of an image that lies channels last; None for raw inputs."""

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Kept]:
        return (x if self.image is None else x.permute(0, 1, 4, 2, 3)).flatten(2), None

    def backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        if self.image is None:
            return g
        height, width, channels = self.image
        return g.view(*g.shape[:2], channels, height, width).permute(0, 1, 3, 4, 2)

    def memory(self, batch: int, kernels: bool, item: int, onward: bool) -> tuple[int, int]:
        return 0, 4 * batch * math.prod(self.image or ())


@dataclass(frozen=True)
class Dropout:
    """A mask that follows from the device's key; all its lanes share it."""

    rate: float
    salt: int

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Kept]:
        if noise is None or self.rate == 0:
            return x, None
        first = x.movedim(-1, 2)  # the order in which the mask is drawn: channels first
        count = math.prod(first.shape[1:])
        keep = vmap(lambda key: uniform(key + self.salt, count) >= self.rate)(noise)
        mask = keep.view(len(noise), *first.shape[1:]).movedim(2, -1).to(x.dtype)
        mask = (mask / (1 - self.rate)).repeat_interleave(len(x) // len(noise), dim=0)
        return x * mask, mask

    def backward(self, X_md: Tensor, kept: Kept, g: Tensor, onward: bool) -> Tensor | None:
        return g if kept is None else g * kept

    def memory(self, batch: int, kernels: bool, item: int, onward: bool) -> tuple[int, int]:
        return 0, 0
