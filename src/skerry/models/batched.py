"""Faster batching of some operations of a user's module over many models, in bf16 on a GPU.

Torch's vmap can batch all of these operations, but is slow on a GPU for some: it loops over models
for a convolution with different weights and for the backward pass of attention, and splits a norm
into passes over float32. In plain cases the kernels compute these for all models at once; in all
other cases torch does.

In the autograd functions below, every array begins with a dimension of models. Applying vmap, over
lanes and then over devices, makes that dimension longer.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from skerry.kernels import fused, precision


@contextmanager
def bf16_autocast(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Context in which a module computes in bf16 as torch's autocast does, and rounds norms too."""
    with ExitStack() as contexts:
        # Without autocast's cache, which does not support vmap.
        cast = torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
        contexts.enter_context(cast)
        if fused.supports(device, dtype):
            contexts.enter_context(KernelMode())
        yield


class KernelMode(TorchFunctionMode):
    """Context in which kernels replace some of torch's functions, where their arguments allow."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        replacement = _replacements().get(func)
        result = None if replacement is None else replacement(*args, **kwargs)
        return func(*args, **kwargs) if result is None else result


@cache
def _replacements() -> dict[Any, Callable[..., Any]]:
    """Replacements of torch's functions: same arguments, None if the kernels do not cover them."""
    return {
        torch.conv2d: _convolution,
        F.group_norm: _group_norm,
        F.layer_norm: _layer_norm,
        F.scaled_dot_product_attention: _attention,
        # A mode intercepts the outermost function only, so that attention inside this function of
        # torch's has to be replaced there.
        F.multi_head_attention_forward: _with_globals(
            F.multi_head_attention_forward, scaled_dot_product_attention=_attention_or_torch
        ),
    }


def _with_globals(function: Any, **replaced: Any) -> FunctionType:
    """A copy of a function in which some global names are replaced."""
    names = {**function.__globals__, **replaced}
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _dtype(tensor: Tensor) -> torch.dtype:
    return torch.bfloat16 if precision.current() == "bf16" else tensor.dtype


def _are_supported(*tensors: Tensor | None) -> bool:
    """Whether all tensors are given, in a dtype that the kernels support."""
    supported = (torch.float32, torch.bfloat16)
    return all(tensor is not None and tensor.dtype in supported for tensor in tensors)


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor | None:  # fmt: skip
    stride, padding, dilation = map(_single_value, (stride, padding, dilation))
    if stride is None or padding is None or dilation != 1 or groups != 1 or input.ndim != 4:
        return None
    # Frozen weights are shared by all models: torch batches that into one convolution.
    if not _are_supported(input, weight) or not weight.requires_grad:
        return None
    if not _is_valid(input, weight, padding):
        return None
    dtype = _dtype(weight)
    y = convolve_models(input.to(dtype), weight, stride, padding)
    return y if bias is None else y + bias.to(dtype)[:, None, None]


def _is_valid(input: Tensor, weight: Tensor, padding: int) -> bool:
    """Whether shapes fit and nothing is empty; otherwise torch raises its own error."""
    sides = zip(input.shape[2:], weight.shape[2:], strict=True)
    reaches = all(image + 2 * padding >= side for image, side in sides)
    return reaches and input.shape[1] == weight.shape[1] and input.numel() > 0


def _single_value(value: Any) -> int | None:
    """The number, if it is the same in both directions, else None."""
    if isinstance(value, int):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(set(value)) == 1:
        return int(value[0])
    return None


def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor | None:  # fmt: skip
    if input.ndim < 2 or input.shape[1] % num_groups:
        return None
    rows, each = input.shape[0] * num_groups, math.prod(input.shape[2:])
    return _norm(input, rows, num_groups, each, weight, bias, eps)


def _layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor | None:  # fmt: skip
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        return None
    return _norm(input, input.shape[: -len(shape)].numel(), 1, 1, weight, bias, eps)


def _norm(
    x: Tensor, rows: int, groups: int, each: int, w: Tensor | None, b: Tensor | None, eps: float
) -> Tensor | None:
    from skerry.kernels.norms import LONGEST

    if w is None or b is None or not _are_supported(x, w, b) or not 0 < x.numel() <= rows * LONGEST:
        return None
    size = x.numel() // rows
    if not w.numel() == b.numel() == groups * size // each:
        return None
    y = normalize_models(
        x.reshape(rows, size), w.flatten(), b.flatten(), groups, each, eps, _dtype(x)
    )
    return y.reshape(x.shape)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:  # fmt: skip
    from skerry.kernels.attention import LONGEST, WIDEST

    if attn_mask is not None or dropout_p or not query.shape == key.shape == value.shape:
        return None
    tokens, width = query.shape[-2:]
    plain = _are_supported(query, key, value) and query.ndim > 2 and query.numel() > 0
    if not plain or tokens > LONGEST or width > WIDEST:
        return None
    q, k, v = (one.to(_dtype(query)).flatten(0, -3) for one in (query, key, value))
    y = attend_models(q, k, v, width**-0.5 if scale is None else scale, is_causal)
    return y.reshape(query.shape)


def _attention_or_torch(*args: Any, **kwargs: Any) -> Tensor:
    result = _attention(*args, **kwargs)
    return F.scaled_dot_product_attention(*args, **kwargs) if result is None else result


def convolve_models(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """Convolution of x [B, C, H, W] with w [O, C, R, S], in the dtype of x."""
    y: Tensor = _apply(_CONVOLUTION, x[None], w[None], stride, padding)
    return y.squeeze(0)


def normalize_models(
    x: Tensor, w: Tensor, b: Tensor, groups: int, each: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """Norm of the rows of x [rows, size] in this dtype; kernels/norms.py explains the arguments."""
    y: Tensor = _apply(_NORM, x[None], w[None], b[None], groups, each, eps, dtype)
    return y.squeeze(0)


def attend_models(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Attention of heads [heads, tokens, width]; models are just more heads."""
    y: Tensor = _apply(_ATTENTION, q, k, v, scale, causal)
    return y


@dataclass(frozen=True)
class _Kernel:
    """A function of `skerry.kernels` on arrays that begin with a dimension of models."""

    module: str
    function: str
    arrays: int
    """Number of leading arguments that are arrays."""
    shares_first: bool = False
    """Whether the first array may have one entry for all models."""
    gradients: Callable[..., Sequence[Tensor | None]] | None = None
    """`(g, needed, *arguments)`: gradients at the arrays; None: they have no gradients."""


class _ManyModels(torch.autograd.Function):
    """A kernel under autograd and vmap, which merges its dimension into that of the models."""

    @staticmethod
    def forward(kernel: _Kernel, *arguments: Any) -> Any:
        module = import_module(f"skerry.kernels.{kernel.module}")
        return getattr(module, kernel.function)(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.kernel, *arguments = inputs
        if ctx.kernel.gradients is not None:
            ctx.save_for_backward(*arguments[: ctx.kernel.arrays])
            ctx.options = arguments[ctx.kernel.arrays :]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        needed = ctx.needs_input_grad[1:]
        found = ctx.kernel.gradients(g, needed, *ctx.saved_tensors, *ctx.options)
        return None, *found, *[None] * len(ctx.options)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], kernel: _Kernel, *arguments: Any) -> Any:
        merged = list(arguments)
        for i, (array, dim) in enumerate(
            zip(arguments[: kernel.arrays], in_dims[1:], strict=False)
        ):
            if dim is None and i == 0 and kernel.shares_first and len(array) == 1:
                continue
            alike = dim is None
            whole = array.expand(info.batch_size, *array.shape) if alike else array.movedim(dim, 0)
            merged[i] = whole.flatten(0, 1)
        result = _apply(kernel, *merged)
        several = isinstance(result, tuple)
        split = [
            one.reshape(info.batch_size, -1, *one.shape[1:])
            for one in (result if several else [result])
        ]
        return (tuple(split), (0,) * len(split)) if several else (split[0], 0)


def _apply(kernel: _Kernel, *arguments: Any) -> Any:
    return _ManyModels.apply(kernel, *arguments)  # type: ignore[no-untyped-call]


def _convolution_gradients(
    g: Tensor, needed: Sequence[bool], x: Tensor, w: Tensor, *options: int
) -> Sequence[Tensor | None]:
    image, sides = tuple(x.shape[-2:]), tuple(w.shape[-2:])
    dx = _apply(_INPUT_GRADIENT, g, w, image, *options) if needed[0] else None
    dw = _apply(_WEIGHT_GRADIENT, x, g, sides, *options) if needed[1] else None
    return dx, dw


def _norm_gradients(g: Tensor, _: Any, x: Tensor, w: Tensor, b: Tensor, *options: Any) -> Any:
    return _apply(_NORM_GRADIENTS, g, x, w, *options[:-1])


def _attention_gradients(g: Tensor, _: Any, *arguments: Any) -> Any:
    return _apply(_ATTENTION_GRADIENTS, g, *arguments)


_INPUT_GRADIENT = _Kernel("per_model_convolution", "input_gradient", 2)
_WEIGHT_GRADIENT = _Kernel("per_model_convolution", "weight_gradient", 2, shares_first=True)
_CONVOLUTION = _Kernel("per_model_convolution", "convolve", 2, True, _convolution_gradients)
_NORM_GRADIENTS = _Kernel("norms", "norm_gradients", 3)
_NORM = _Kernel("norms", "normalize", 3, gradients=_norm_gradients)
_ATTENTION_GRADIENTS = _Kernel("attention", "attention_gradients", 4)
_ATTENTION = _Kernel("attention", "attend", 3, gradients=_attention_gradients)
