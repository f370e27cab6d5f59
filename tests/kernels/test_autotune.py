"""Precisions restore torch's settings, and the fastest variant is timed once."""

import pytest
import torch

from kernel_laws import CUDA, needs_triton
from skerry.kernels.precision import arithmetic

pytestmark = needs_triton


def test_a_precision_leaves_torchs_settings_as_they_were():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    with arithmetic("tf32"):
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (True, True)
        with arithmetic("float32"):
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, False)
        assert matmul.allow_tf32
    assert (matmul.allow_tf32, cudnn.allow_tf32) == before


@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_the_fastest_variant_is_timed_once_and_cached(tmp_path, monkeypatch):
    from skerry.kernels import autotune

    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path))
    autotune._load_cache.cache_clear()
    asked = []

    def run(seconds):
        asked.append(seconds)
        torch.cuda._sleep(int(seconds * 1e8))

    assert autotune.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    first = len(asked)
    assert autotune.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) == first
    autotune._load_cache.cache_clear()  # as another process would find it
    assert autotune.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) == first
    (tmp_path / "kernels.json").write_text("no JSON")
    autotune._load_cache.cache_clear()
    assert autotune.fastest("sleep", [0.3, 0.01, 0.2], run) == 0.01
    assert len(asked) > first
    autotune._load_cache.cache_clear()
