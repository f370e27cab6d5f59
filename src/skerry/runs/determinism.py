"""Runs that repeat to the bit, whatever else is computed beside them.

How numbers are added up depends on how many threads share the work, on the lanes that are computed
in the same products, and, on a GPU, on how many devices step at once and on which kernel was the
quickest. So a deterministic run is alone in its stack, on one thread; and torch's own switch, which
the engine and the kernels ask, keeps memory and stopwatch out of the rest.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from skerry.engine.ranks.group import Rank, RankGroup

THREADS = 1
LANES = 1
MARK = "deterministic"
"""In the versions of a run that was computed so from start to end."""


@contextmanager
def torch_is_deterministic(wanted: bool = True) -> Iterator[None]:
    """Compute on one thread, always in the same order."""
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when a GPU is first used
    threads, was_on = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    was_lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(THREADS)
    # A user's own model may do what has no deterministic form: torch says so, and goes on.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(was_on, warn_only=was_lenient)


def circumstances(
    lanes: int, deterministic: bool, ranks: RankGroup | None = None
) -> dict[str, str]:
    """What decides a run's last bits besides versions and machine."""
    found = {"threads": str(torch.get_num_threads()), "lanes": str(lanes)}
    if isinstance(ranks, Rank):
        found["ranks"] = str(ranks.count)
    return {**found, MARK: "yes"} if deterministic else found


def was_deterministic(versions: Mapping[str, str]) -> bool:
    return versions.get(MARK) == "yes"
