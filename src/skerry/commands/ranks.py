"""`--ranks`: the same command on several processes."""

import os
from collections.abc import Sequence

import typer

from skerry.errors import SkerryError


def is_one_of(ranks: int) -> bool:
    """Whether this process was started as one of so many ranks already."""
    from skerry.runs.executors.ranks import is_rank

    if not is_rank():
        return False
    started = int(os.environ["WORLD_SIZE"])
    if started != ranks:
        raise SkerryError(
            f"--ranks must be {started}, as many as torchrun has started (got {ranks}). Leave "
            "--ranks out."
        )
    return True


def run_on(ranks: int, arguments: Sequence[str]) -> None:
    """Start this very command on so many ranks, and end as they do."""
    import torch

    from skerry.runs.launch import launch

    threads = max(1, torch.get_num_threads() // ranks)
    code, line = launch(ranks, arguments, threads)
    if line:
        typer.echo(f"error: {line}", err=True)
    raise typer.Exit(code)
