"""How operations of a user's module are computed when vmap batches them over many models.

Torch batches all of them, but some in a way that is slow on a GPU: a convolution with different
weights goes from model to model, so does the way back of attention, and a norm comes apart into
passes over float32. Where activations may be rounded, these are computed for all models at once, in
the plain cases; all others stay torch's own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from skerry.kernels import fused, precision
from skerry.models.many_models import attended, convolved, normalized


@contextmanager
def rounded_at_once(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Inside, a module computes in bf16 where torch's autocast would; what norms give, too."""
    with ExitStack() as all_of_it:
        # Without its cache, which knows nothing of vmap.
        cast = torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
        all_of_it.enter_context(cast)
        if fused.serves(device, dtype):
            all_of_it.enter_context(AllAtOnce())
        yield


class AllAtOnce(TorchFunctionMode):
    """Takes over the operations that the kernels know."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        ours = _ours().get(func)
        found = None if ours is None else ours(*args, **kwargs)
        return func(*args, **kwargs) if found is None else found


@cache
def _ours() -> dict[Any, Callable[..., Any]]:
    """What takes the place of torch's functions. It has the same arguments, and gives None where
    they are not plain."""
    return {
        torch.conv2d: _convolution,
        F.group_norm: _group_norm,
        F.layer_norm: _layer_norm,
        F.scaled_dot_product_attention: _attention,
        # A mode sees the outermost function only: this one is torch's own, but for the attention
        # inside it.
        F.multi_head_attention_forward: _changed(
            F.multi_head_attention_forward,
            scaled_dot_product_attention=_attention_or_torchs,
        ),
    }


def _changed(function: Any, **others: Any) -> FunctionType:
    """A function in whose text some names mean others."""
    names = {**function.__globals__, **others}
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _dtype(given: Tensor) -> torch.dtype:
    return torch.bfloat16 if precision.current() == "bf16" else given.dtype


def _floats(*tensors: Tensor | None) -> bool:
    """Whether all of them are there, in a precision that the kernels know."""
    known = (torch.float32, torch.bfloat16)
    return all(tensor is not None and tensor.dtype in known for tensor in tensors)


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor | None:  # fmt: skip
    stride, padding, dilation = map(_one_number, (stride, padding, dilation))
    if stride is None or padding is None or dilation != 1 or groups != 1 or input.ndim != 4:
        return None
    # Frozen weights are the same in all models: torch makes one convolution of them.
    if not _floats(input, weight) or not weight.requires_grad or not _fits(input, weight, padding):
        return None
    dtype = _dtype(weight)
    y = convolved(input.to(dtype), weight, stride, padding)
    return y if bias is None else y + bias.to(dtype)[:, None, None]


def _fits(input: Tensor, weight: Tensor, padding: int) -> bool:
    sides = zip(input.shape[2:], weight.shape[2:], strict=True)
    reaches = all(image + 2 * padding >= side for image, side in sides)
    return reaches and input.shape[1] == weight.shape[1] and input.numel() > 0


def _one_number(value: Any) -> int | None:
    """The same in both directions, or None."""
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

    if w is None or b is None or not _floats(x, w, b) or not 0 < x.numel() <= rows * LONGEST:
        return None
    size = x.numel() // rows
    if not w.numel() == b.numel() == groups * size // each:
        return None
    y = normalized(x.reshape(rows, size), w.flatten(), b.flatten(), groups, each, eps, _dtype(x))
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
    plain = _floats(query, key, value) and query.ndim > 2 and query.numel() > 0
    if not plain or tokens > LONGEST or width > WIDEST:
        return None
    q, k, v = (one.to(_dtype(query)).flatten(0, -3) for one in (query, key, value))
    y = attended(q, k, v, width**-0.5 if scale is None else scale, is_causal)
    return y.reshape(query.shape)


def _attention_or_torchs(*args: Any, **kwargs: Any) -> Tensor:
    found = _attention(*args, **kwargs)
    return F.scaled_dot_product_attention(*args, **kwargs) if found is None else found
