"""Kernels for any number of devices, islands, models and numbers: grids and places have room."""

import pytest
import torch

from kernel_laws import CUDA, TOLERANCE, Noted, distance, needs_triton, numbers, weights

pytestmark = needs_triton


@pytest.mark.parametrize("kernel", ["mixing._share", "mixing._spread", "tracking._before_step"])
def test_grids_stay_within_limits_for_models_of_any_size(kernel, monkeypatch):
    """Beyond the first axis a grid ends at 65,535; here a model has 80 million numbers."""
    from skerry.kernels import mixing, tracking

    noted = Noted()
    monkeypatch.setattr(f"skerry.kernels.{kernel}", noted)
    X, sampled = torch.empty(70_000, 2, 80_000_000, device="meta"), torch.arange(3)
    {
        "mixing._share": lambda: mixing.share_and_collect(X, sampled, X, torch.ones(2, 1)),
        "mixing._spread": lambda: mixing.island_spread(X),
        "tracking._before_step": lambda: tracking.before_step(X, X, X),
    }[kernel]()
    assert max(noted.grids[0][1:], default=1) <= 65_535


@pytest.mark.parametrize("kernel", ["_convolve_and_pool", "_weight_sums", "_pooled_weight_sums"])
def test_grids_of_convolutions_stay_within_limits_for_any_number_of_models(kernel, monkeypatch):
    from skerry.kernels import convolution, convolution_weights

    noted, models, tile = Noted(), 70_000, convolution.Tile(32, 32, 4, 2)
    here = convolution if kernel == "_convolve_and_pool" else convolution_weights
    monkeypatch.setattr(here, kernel, noted)

    def new(*shape):
        return torch.empty(models, *shape, device="meta")

    x, y, G = new(2, 8, 8, 3), new(2, 3, 3, 5), new(2, 6, 6, 5)
    {
        "_convolve_and_pool": lambda: here.convolve_and_pool(
            x, new(27, 5), None, 3, 0, 2, "relu", tile
        ),
        "_weight_sums": lambda: here.weight_sums(x, G, 3, 0, tile),
        "_pooled_weight_sums": lambda: here.pooled_weight_sums(x, y, y, y, 3, "relu", tile),
    }[kernel]()
    assert max(noted.grids[0][1:]) <= 65_535


def test_offsets_into_a_very_large_batch_have_64_bits(monkeypatch):
    """Here a model's own gradients are more than 2^31 numbers, though its images are not."""
    import triton.language as tl

    from skerry.kernels import convolution, convolution_weights

    noted = Noted()
    monkeypatch.setattr(convolution_weights, "_weight_sums", noted)
    for size in (10, 20_000):
        x = torch.empty(1, size, 32, 32, 3, device="meta")
        G = torch.empty(1, size, 30, 30, 128, device="meta")
        convolution_weights.weight_sums(x, G, 3, 0, convolution.Tile(32, 32, 4, 2))
    assert [told["OFFSET"] for told in noted.told] == [tl.int32, tl.int64]


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_more_devices_and_islands_than_an_axis_of_a_grid():
    """65,535 along all axes but the first."""
    from skerry.kernels.dense import _run_update
    from skerry.kernels.mixing import mix_in_place

    count, W = 70_000, weights(1, 2)
    X = numbers(2 * count, 8)
    exact = (W.double() @ X.double().view(count, 2, 8)).view(2 * count, 8)
    mix_in_place(X, W)
    assert distance(X, exact) < 1e-5
    A, P, x = numbers(count, 3, 8), numbers(count, 3, 4, seed=1), numbers(count, 4, 8, seed=2)
    exact = A.double() - P.double() @ x.double()
    _run_update(A, P, x, "64 x 128")
    assert distance(A, exact) < TOLERANCE["tf32"]
