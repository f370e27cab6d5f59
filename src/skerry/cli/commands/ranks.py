"""`--ranks`: the same command on several processes."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from skerry.cli.commands.options import print_json
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.config.experiment import Experiment


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


def tell_plan(
    experiment: "Experiment",
    compare: Sequence[str],
    seeds: int,
    ranks: int | None,
    device: str,
    as_json: bool,
) -> None:
    """What each rank would hold, or this process alone; nothing is run."""
    from skerry.report.screens.sweep import print_rank_plan
    from skerry.runs.rank_plan import plan_ranks
    from skerry.runs.variants import expand

    found = plan_ranks(expand(experiment, compare, seeds), ranks, device)
    if as_json:
        print_json(asdict(found))
    else:
        print_rank_plan(found)
