"""Autotuning: time several variants of a kernel once and remember the fastest on disk."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from skerry.files import cache_folder, replace_file
from skerry.kernels.fused import interpreted

Variant = TypeVar("Variant")

REPEATS = 3


def fastest(name: str, variants: Sequence[Variant], run: Callable[[Variant], Any]) -> Variant:
    """The variant with which `run` is fastest on this GPU.

    `name` describes the operation and its shapes; it is the key of the cache. The first variant
    must run everywhere. It is used without timing when results must repeat to the bit, because
    timings vary.
    """
    if len(variants) == 1 or interpreted() or torch.are_deterministic_algorithms_enabled():
        return variants[0]
    key = f"{_machine()}; {name}"
    by_name = {str(variant): variant for variant in variants}
    cached = _load_cache()
    if cached.get(key) not in by_name:
        times = {str(variant): _milliseconds(run, variant) for variant in variants}
        cached[key] = min(times, key=times.__getitem__)
        _save_cache(cached)
    return by_name[cached[key]]


def _milliseconds(run: Callable[[Variant], Any], variant: Variant) -> float:
    from triton.runtime.errors import OutOfResources

    try:
        run(variant)  # compile first
    except OutOfResources:  # the tile is too large for this GPU
        return float("inf")
    times = []
    for _ in range(REPEATS):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        run(variant)
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended))
    return median(times)


@cache
def _machine() -> str:
    import triton

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}"


@cache
def _load_cache() -> dict[str, str]:
    try:
        cached = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or damaged: measure again
        return {}
    return cached if isinstance(cached, dict) else {}


def _save_cache(cached: dict[str, str]) -> None:
    file = _file()
    with suppress(OSError):  # a read-only cache only costs another measurement
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(cached, indent=1).encode())


def _file() -> Path:
    return cache_folder() / "kernels.json"
