"""Common layers for many models at once, with hand-written forward and backward passes.

A layer takes M = devices x lanes models as rows of flat parameters, X [M, d]. Its input is
[G, B, ...] with G = M, or fewer if consecutive models share an input (the lanes of a device share
its minibatch). Images are channels last, [G, B, H, W, C].

In the backward pass the gradient is already scaled by the stepsize of its lane, so that a layer
updates its parameters by subtracting.
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
from skerry.kernels.autotune import fastest
from skerry.models.noise import keyed_uniform

VECTOR_WIDTH = 8
"""Channels that kernels read at once."""

Saved = Any
"""What a layer saves in its forward pass for its backward pass."""


@dataclass(frozen=True)
class Slot:
    """Position and shape of a parameter in the flat vector."""

    start: int
    shape: tuple[int, ...]

    def view(self, X: Tensor) -> Tensor:
        """The parameter as a view of X [..., d]."""
        flat = X[..., self.start : self.start + math.prod(self.shape)]
        return flat.view(*X.shape[:-1], *self.shape)


class Layer(Protocol):
    """Forward and backward pass of one layer for many models."""

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Saved]:
        """Output, and what `backward` needs; `noise` has a key per device, or is None."""

    def backward(self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool) -> Tensor | None:
        """Update X by the gradient g at the output; with `input_grad`, return that of the input."""

    def memory(self, batch: int, kernels: bool, item: int, input_grad: bool) -> tuple[int, int]:
        """Bytes per model that are saved for the backward pass, and temporary bytes at the peak.

        `kernels` says whether fused kernels run; `item` is the bytes of a number in them.
        """


@dataclass(frozen=True)
class Activation:
    """ReLU, ELU or none; the gradient follows from the output, so only that is saved."""

    name: str = "none"

    def apply_(self, z: Tensor) -> Tensor:
        """Apply the activation in place."""
        if self.name == "relu":
            return z.relu_()
        return nn.functional.elu_(z) if self.name == "elu" else z

    def backward(self, g: Tensor, y: Tensor) -> Tensor:
        """Gradient at the input, from the gradient g at the output y."""
        if self.name == "relu":
            return torch.ops.aten.threshold_backward(g, y, 0)  # type: ignore[no-any-return]
        if self.name == "elu":
            return torch.ops.aten.elu_backward(g, 1, 1, 1, True, y)  # type: ignore[no-any-return]
        return g


@dataclass(frozen=True)
class Dense:
    """Dense layer y = act(x W^T + b), as batched products on views of X."""

    weight: Slot
    bias: Slot | None
    activation: Activation

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Saved]:
        if len(x) < len(X_md):
            x = x.repeat_interleave(len(X_md) // len(x), dim=0)
        W, b = self.weight.view(X_md), None if self.bias is None else self.bias.view(X_md)
        if fused.steps_dense(X_md, x.shape[1]):
            from skerry.kernels.dense import dense_forward

            y = dense_forward(x, W, b, self.activation.name)
        else:
            x = x.to(X_md.dtype)
            z = torch.bmm(x, W.mT) if b is None else torch.baddbmm(b.unsqueeze(1), x, W.mT)
            y = self.activation.apply_(z)
        return y, (x, y)

    def backward(self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool) -> Tensor | None:
        x, y = saved
        g = self.activation.backward(g.to(y.dtype), y)
        if self.bias is not None:
            self.bias.view(X_md).sub_(g.sum(dim=1, dtype=X_md.dtype))
        W = self.weight.view(X_md)
        if fused.steps_dense(X_md, x.shape[1]):
            from skerry.kernels.dense import dense_backward

            return dense_backward(W, g, x, input_grad)
        back = torch.bmm(g, W) if input_grad else None
        subtract_product(W, g.mT, x)
        return back

    def memory(self, batch: int, kernels: bool, item: int, input_grad: bool) -> tuple[int, int]:
        outputs, inputs = self.weight.shape
        number = batch * (item if batch <= fused.MAX_DENSE_SAMPLES else 4)
        return number * (inputs + outputs), number * (inputs + 2 * outputs)


@dataclass(frozen=True)
class Convolution:
    """Convolution y = act(pool(conv(x) + b)).

    Pooling comes before the activation: the two commute for increasing activations, and pooling
    leaves a quarter of the numbers.
    """

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

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Saved]:
        run = self._fused_forward if fused.runs_on(X_md) else self._plain_forward
        return run(X_md, x)

    def backward(self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool) -> Tensor | None:
        run = self._fused_backward if fused.runs_on(X_md) else self._plain_backward
        return run(X_md, saved, g, input_grad)

    def memory(self, batch: int, kernels: bool, item: int, input_grad: bool) -> tuple[int, int]:
        outputs, inputs, side, _ = self.weight.shape
        before = batch * outputs * math.prod(self.size)
        after = before // self.pool**2
        into = batch * inputs * math.prod(self.image)
        weights = outputs * inputs * side * side
        if kernels:  # y, positions of maxima and x; then the gradients at the output and before it
            framed = batch * inputs * math.prod(e + 2 * self._frame for e in self.image)
            saved = after * (item + 1) + framed * item
            if self._sums_pooled and not input_grad:
                patches = 4 * outputs * inputs * (side + 1) ** 2  # for four windows at once
                return saved, after * item + 4 * (patches + 5 * weights)
            made = before + into if input_grad else before
            return saved, (after + made) * item + 2 * 4 * weights
        return 4 * before + 12 * after, 4 * (before + into + weights)

    # Plain: one model after the other by torch, whose convolutions are near peak speed on a CPU.

    def _plain_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Saved]:
        W, b = self.weight.view(X_md), None if self.bias is None else self.bias.view(X_md)
        lanes = len(W) // len(x)
        outputs, saved = [], []
        for m in range(len(W)):
            image = x[m // lanes].permute(0, 3, 1, 2)  # a view: memory stays channels last
            z = nn.functional.conv2d(image, W[m], None if b is None else b[m], padding=self.padding)
            y, winner = z, None
            if self.pool > 1:
                y, winner = nn.functional.max_pool2d_with_indices(z, (self.pool, self.pool))
            y = self.activation.apply_(y)
            outputs.append(y.permute(0, 2, 3, 1))
            saved.append((image, z, y, winner))
        return torch.stack(outputs) if len(outputs) > 1 else outputs[0].unsqueeze(0), saved

    def _plain_backward(
        self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool
    ) -> Tensor | None:
        W, b = self.weight.view(X_md), None if self.bias is None else self.bias.view(X_md)
        back = []
        for m, (image, z, y, winner) in enumerate(saved):
            slope = self.activation.backward(g[m].permute(0, 3, 1, 2), y)
            if winner is not None:
                pool = [self.pool, self.pool]
                slope = torch.ops.aten.max_pool2d_with_indices_backward(
                    slope, z, pool, pool, [0, 0], [1, 1], False, winner
                )
            d_image, d_W, d_b = torch.ops.aten.convolution_backward(
                slope, image, W[m], [len(W[m])], [1, 1], [self.padding] * 2, [1, 1], False,
                [0, 0], 1, [input_grad, True, b is not None],
            )  # fmt: skip
            W[m].sub_(d_W)
            if b is not None:
                b[m].sub_(d_b)
            if input_grad:
                back.append(d_image.permute(0, 2, 3, 1))
        return torch.stack(back) if input_grad else None

    # Fused: all models at once, by kernels that never store the patches.

    @property
    def _frame(self) -> int:
        """Padding that is added to images in memory. Kernels can pad by themselves, but with few
        channels only one number at a time."""
        return 0 if self.weight.shape[1] % VECTOR_WIDTH == 0 else self.padding

    @property
    def _sums_pooled(self) -> bool:
        return fused.sums_pooled(self.pool, self.padding - self._frame, self.weight.shape[0])

    def _fused_forward(self, X_md: Tensor, x: Tensor) -> tuple[Tensor, Saved]:
        from skerry.kernels import convolution as kernels

        W = self.weight.view(X_md)
        x = x.to(kernels.dtype_of_products()).contiguous()
        if self._frame:
            x = nn.functional.pad(x, (0, 0, *[self._frame] * 4))
        w_mko = W.permute(0, 3, 4, 2, 1).to(x.dtype).reshape(len(W), -1, W.shape[1])
        b = None if self.bias is None else self.bias.view(X_md)
        run = partial(
            kernels.convolve_and_pool, x, w_mko, b, W.shape[3],
            self.padding - self._frame, self.pool, self.activation.name,
        )  # fmt: skip
        y, winner = run(self._tile("forward", x, len(W), kernels.forward_tiles(), run))
        return y, (x, y, winner)

    def _fused_backward(
        self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool
    ) -> Tensor | None:
        from skerry.kernels import convolution as kernels
        from skerry.kernels import convolution_weights as gradients

        x, y, winner = saved
        W, g = self.weight.view(X_md), g.contiguous()
        models, _, inputs, side, _ = W.shape
        back = None
        if not input_grad and self._sums_pooled:
            pooled = partial(
                gradients.pooled_weight_sums, x, g, y, winner, side, self.activation.name
            )
            tile = self._tile("pooled weights", x, models, gradients.POOLED_TILES, pooled)
            sums, bias = pooled(tile)
        else:
            G = gradients.before_pool(g, y, winner, *self.size, self.pool, self.activation.name)
            if input_grad:
                w_mkc = W.flip(3, 4).permute(0, 3, 4, 1, 2).to(G.dtype).reshape(models, -1, inputs)
                around = side - 1 - self.padding
                run = partial(kernels.convolve_and_pool, G, w_mkc, None, side, around, 1, "none")
                back, _ = run(self._tile("backward", x, models, kernels.forward_tiles(), run))
            whole = partial(gradients.weight_sums, x, G, side, self.padding - self._frame)
            sums = whole(self._tile("weights", x, models, gradients.WEIGHT_TILES, whole))
            bias = G.sum(dim=(1, 2, 3), dtype=X_md.dtype)
        W.sub_(sums.permute(0, 4, 3, 1, 2))
        if self.bias is not None:
            self.bias.view(X_md).sub_(bias)
        return back

    def _tile(
        self, what: str, x: Tensor, models: int, tiles: Any, run: Callable[[Any], Any]
    ) -> Any:
        """The fastest tile for these shapes."""
        from skerry.kernels import precision

        shapes = f"{what}, {models} models, images {tuple(x.shape)}, weights {self.weight.shape}"
        name = f"convolution {shapes}, pool {self.pool}, {precision.current()}"
        return fastest(name, tiles, run)


@dataclass(frozen=True)
class Flatten:
    """Flattens inputs to vectors in the order of nn.Flatten, which is channels first."""

    image: tuple[int, ...] | None
    """Height, width and channels of a channels-last image; None for raw inputs."""

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Saved]:
        return (x if self.image is None else x.permute(0, 1, 4, 2, 3)).flatten(2), None

    def backward(self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool) -> Tensor | None:
        if self.image is None:
            return g
        height, width, channels = self.image
        return g.view(*g.shape[:2], channels, height, width).permute(0, 1, 3, 4, 2)

    def memory(self, batch: int, kernels: bool, item: int, input_grad: bool) -> tuple[int, int]:
        return 0, 4 * batch * math.prod(self.image or ())


@dataclass(frozen=True)
class Dropout:
    """Dropout with a mask drawn from the device's noise key, shared by all its lanes."""

    rate: float
    salt: int

    def forward(self, X_md: Tensor, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Saved]:
        if noise is None or self.rate == 0:
            return x, None
        first = x.movedim(-1, 2)  # masks are drawn in channels-first order
        count = math.prod(first.shape[1:])
        keep = vmap(lambda key: keyed_uniform(key + self.salt, count) >= self.rate)(noise)
        mask = keep.view(len(noise), *first.shape[1:]).movedim(2, -1).to(x.dtype)
        mask = (mask / (1 - self.rate)).repeat_interleave(len(x) // len(noise), dim=0)
        return x * mask, mask

    def backward(self, X_md: Tensor, saved: Saved, g: Tensor, input_grad: bool) -> Tensor | None:
        return g if saved is None else g * saved

    def memory(self, batch: int, kernels: bool, item: int, input_grad: bool) -> tuple[int, int]:
        return 0, 0


def subtract_product(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor) -> None:
    """W <- W - P x in place for many models; P is scaled by the stepsize.

    The update is part of the product, so that no gradient is stored.
    """
    if fused.runs_on(W_nrk):
        from skerry.kernels.dense import subtract_product_tuned

        subtract_product_tuned(W_nrk, P_nrb, x_nbk)
    elif len(W_nrk) == 1:  # on a CPU, one product is faster than a batch of one
        W_nrk[0].addmm_(P_nrb[0], x_nbk[0], alpha=-1)
    else:
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
