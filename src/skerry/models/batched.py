"""How operations of a user's module are computed when vmap batches them over many models.

Torch batches all of them, but some in a way that is slow on a GPU: a convolution with different
weights goes from model to model, and so does the way back of attention. Where products may be
rounded, these are computed for all models at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from skerry.kernels import fused, precision


@contextmanager
def rounded_at_once(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Inside, a module computes in bf16 where torch's autocast would."""
    with ExitStack() as all_of_it:
        # Without its cache, which knows nothing of vmap.
        cast = torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
        all_of_it.enter_context(cast)
        if fused.serves(device, dtype):
            all_of_it.enter_context(sdpa_kernel(SDPBackend.MATH))
            all_of_it.enter_context(OwnConvolutions())
        yield


class OwnConvolutions(TorchFunctionMode):
    """Takes over the convolutions that the kernels know."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.conv2d:
            told = _told(*args, **kwargs)
            if told is not None:
                return _convolved(*told)
        return func(*args, **kwargs)


Told = tuple[Tensor, Tensor, Tensor | None, int, int]


def _told(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Told | None:  # fmt: skip
    """The arguments of a convolution, if it is a plain one."""
    stride, padding, dilation = map(_one_number, (stride, padding, dilation))
    if stride is None or padding is None or dilation != 1 or groups != 1 or input.ndim != 4:
        return None
    return input, weight, bias, stride, padding


def _one_number(value: Any) -> int | None:
    """The same in both directions, or None."""
    if isinstance(value, int):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(set(value)) == 1:
        return int(value[0])
    return None


def _convolved(x: Tensor, w: Tensor, b: Tensor | None, stride: int, padding: int) -> Tensor:
    dtype = torch.bfloat16 if precision.current() == "bf16" else w.dtype
    y: Tensor = _Convolution.apply(x.to(dtype)[None], w.to(dtype)[None], stride, padding)[0]  # type: ignore[no-untyped-call]
    return y if b is None else y + b.to(dtype)[:, None, None]


def _at_once(
    batch: int, in_dims: Sequence[int | None], first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Two arrays, of which one or both have a batch of models, with the batch as part of their
    first dimension. A single input is left to be shared by all."""
    merged = []
    for tensor, dim, may_be_shared in zip((first, second), in_dims, (True, False), strict=False):
        if dim is None and may_be_shared and len(tensor) == 1:
            merged.append(tensor)
            continue
        whole = tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        merged.append(whole.flatten(0, 1))
    return merged[0], merged[1]


class _OfManyModels(torch.autograd.Function):
    """What the three below have in common: under vmap, a batch of models is more models."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, first: Tensor, second: Tensor, *told: Any) -> Any:
        found = cls.apply(*_at_once(info.batch_size, in_dims, first, second), *told)  # type: ignore[no-untyped-call]
        return found.unflatten(0, (info.batch_size, -1)), 0


class _Convolution(_OfManyModels):
    @staticmethod
    def forward(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
        from skerry.kernels.weights_of_each import convolve

        return convolve(x, w, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, w, *ctx.told = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = _InputGradient.apply(g, w, tuple(x.shape[-2:]), *ctx.told)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            dw = _WeightGradient.apply(x, g, tuple(w.shape[-2:]), *ctx.told)  # type: ignore[no-untyped-call]
        return dx, dw, None, None


class _InputGradient(_OfManyModels):
    @staticmethod
    def forward(g: Tensor, w: Tensor, image: tuple[int, int], stride: int, padding: int) -> Tensor:
        from skerry.kernels.weights_of_each import input_gradient

        if len(g) < len(w):
            g = g.expand(len(w), *g.shape[1:])
        return input_gradient(g, w, image, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nobody asks for a second derivative."""


class _WeightGradient(_OfManyModels):
    @staticmethod
    def forward(x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int) -> Tensor:
        from skerry.kernels.weights_of_each import weight_gradient

        return weight_gradient(x, g, sides, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nobody asks for a second derivative."""
