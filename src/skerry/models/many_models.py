"""Operations that vmap batches into those of many models, for the kernels that compute them so.

Every array begins with a dimension of models. A batch of models is then just more models, however
often vmap is applied: over lanes, then over devices.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def convolved(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """Of x [B, C, H, W] with w [O, C, R, S]; rounded as x is."""
    return _Convolution.apply(x[None], w[None], stride, padding).squeeze(0)  # type: ignore[no-any-return,no-untyped-call]


def normalized(
    x: Tensor, w: Tensor, b: Tensor, groups: int, each: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """Rows x [rows, size], as kernels/norms.py tells it; given as that dtype."""
    return _Norm.apply(x[None], w[None], b[None], groups, each, eps, dtype).squeeze(0)  # type: ignore[no-any-return,no-untyped-call]


def attended(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Of heads [heads, tokens, width]; they need no models of their own."""
    return _Attention.apply(q, k, v, scale, causal)  # type: ignore[no-any-return,no-untyped-call]


class _OfManyModels(torch.autograd.Function):
    """What all of them have in common."""

    arrays = 2
    """How many of the arguments, the first ones, have models."""
    shares_first = False
    """Whether a single first array may serve all models."""

    @classmethod
    def vmap(cls, info: Any, in_dims: Sequence[int | None], *given: Any) -> Any:
        merged = []
        for place, (array, dim) in enumerate(zip(given[: cls.arrays], in_dims, strict=False)):
            if dim is None and place == 0 and cls.shares_first and len(array) == 1:
                merged.append(array)
                continue
            whole = (
                array.expand(info.batch_size, *array.shape)
                if dim is None
                else array.movedim(dim, 0)
            )
            merged.append(whole.flatten(0, 1))
        found = cls.apply(*merged, *given[cls.arrays :])  # type: ignore[no-untyped-call]
        several = isinstance(found, tuple)
        split = [
            one.reshape(info.batch_size, -1, *one.shape[1:])
            for one in (found if several else [found])
        ]
        return (tuple(split), (0,) * len(split)) if several else (split[0], 0)


class _Gradient(_OfManyModels):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nobody asks for a second derivative."""


class _Convolution(_OfManyModels):
    shares_first = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
        from skerry.kernels.per_model_convolution import convolve

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


class _InputGradient(_Gradient):
    @staticmethod
    def forward(g: Tensor, w: Tensor, image: tuple[int, int], stride: int, padding: int) -> Tensor:
        from skerry.kernels.per_model_convolution import input_gradient

        return input_gradient(g, w, image, stride, padding)


class _WeightGradient(_Gradient):
    shares_first = True

    @staticmethod
    def forward(x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int) -> Tensor:
        from skerry.kernels.per_model_convolution import weight_gradient

        return weight_gradient(x, g, sides, stride, padding)


class _Norm(_OfManyModels):
    arrays = 3

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor, *told: Any) -> Tensor:
        from skerry.kernels.norms import normalize

        return normalize(x, w, b, *told)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, w, _, *ctx.told, _ = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return *_NormGradient.apply(g, x, w, *ctx.told), *[None] * 4  # type: ignore[no-untyped-call]


class _NormGradient(_Gradient):
    arrays = 3

    @staticmethod
    def forward(g: Tensor, x: Tensor, w: Tensor, *told: Any) -> Any:
        from skerry.kernels.norms import gradients

        return gradients(g, x, w, *told)


class _Attention(_OfManyModels):
    arrays = 3

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
        from skerry.kernels.attention import attend

        return attend(q, k, v, scale, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        q, k, v, *ctx.told = inputs
        ctx.save_for_backward(q, k, v)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return *_AttentionGradient.apply(g, *ctx.saved_tensors, *ctx.told), None, None  # type: ignore[no-untyped-call]


class _AttentionGradient(_Gradient):
    arrays = 4

    @staticmethod
    def forward(g: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Any:
        from skerry.kernels.attention import gradients

        return gradients(g, q, k, v, scale, causal)
