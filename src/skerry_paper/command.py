"""`skerry reproduce`: the paper's tables and figures from real runs, beside the printed numbers."""

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skerry.cli.commands.options import (
    Again,
    Device,
    ExecutorName,
    RayAddress,
    Settings,
    Workers,
    find_plug_ins,
    handle_ctrl_c,
    save_picture,
)
from skerry.errors import RecordsError, skerry_command

if TYPE_CHECKING:  # a command imports nothing heavy until it runs
    from skerry_paper.study import StudyData
    from skerry_paper.targets import Target

LIST = "list"
IN_FULL = 3
"""Up to this many targets are printed in full; of more, only the verdicts."""
CPU_WARNING = (
    "Without a GPU, 100 rounds of the CNN take ten minutes and more on two cores (docs/speed.md), "
    "and there are {:,} such runs. You can stop with Ctrl-C; the same command resumes."
)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="table1 to table6, fig1 to fig14, or all of them; protocol, blend and other "
            "studies that the paper does not have; list shows every target.",
        ),
    ],
    dataset: Annotated[
        Literal["mnist", "cifar10", "cifar100"] | None,
        typer.Option(
            help="Only runs on this data set.",
            show_default="mnist; cifar10 with a GPU; cifar100 with a GPU and its archive",
        ),
    ] = None,
    profile: Annotated[
        Literal["quick", "full"],
        typer.Option(help="quick: fewer seeds, stepsizes and evaluations; full: as in the paper."),
    ] = "quick",
    settings: Settings = None,
    executor: ExecutorName = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for records, studies and pages.")
    ] = Path("reproduction"),
    again: Again = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Time limit. The most informative runs come first; the same command runs the "
            "rest later.",
            show_default="no limit",
        ),
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Run nothing; print the studies in this folder and write their pages, such as "
            "studies/reproduction/data. Repeatable; files of the same study are joined.",
        ),
    ] = None,
) -> None:
    """Reproduce tables and figures of the paper and compare them with the printed numbers."""
    from skerry_paper.study import load_studies
    from skerry_paper.targets import Request

    if LIST in names:
        _print_targets()
        return
    request = Request.parse(names)
    if dataset:
        request = request.restrict_to([dataset])
    if kept:
        _show(request.targets, load_studies(*kept), out)
        return
    from skerry.engine.world import pick_device
    from skerry.report.screens.progress import show_progress
    from skerry.runs.executors.executor import open_executor
    from skerry_paper.compute import compute
    from skerry_paper.plans import PLANS, count_plan_runs

    if not dataset:
        request = request.restrict_to(_available_datasets(request.targets, device))
    find_plug_ins()
    needs = request.needs(profile)
    slow = [need for need in needs if PLANS[need.study].dataset != "mnist"]
    if slow and pick_device(device).type == "cpu":
        typer.echo(CPU_WARNING.format(count_plan_runs(slow, profile)), err=True)
    with (
        handle_ctrl_c(f"Finished runs are in {out}. The same command resumes."),
        redirect_stdout(sys.stderr),
        show_progress("average_accuracy") as display,
    ):
        studies = compute(
            needs,
            profile,
            out=out,
            executor=open_executor(executor, device=device, workers=workers, address=ray_address),
            command=skerry_command(*sys.argv[1:]),
            device=device,
            settings=settings or [],
            again=again,
            minutes=math.inf if minutes is None else minutes,
            progress=display,
            report=display.say,
        )
    _show(request.targets, studies, out)
    if profile == "quick":
        for name in studies:
            typer.echo(f"{name}: {PLANS[name].omissions}")


def _available_datasets(targets: Sequence["Target"], device: str) -> Sequence[str]:
    """The data sets of these targets that this machine can run; prints which are left out. A
    single data set is never left out."""
    from skerry.data.sources.fetch import is_cached
    from skerry.engine.world import pick_device
    from skerry_paper.plans import DATASETS

    if all(len(target.datasets) < 2 for target in targets):
        return DATASETS
    gpu = pick_device(device).type == "cuda"
    reasons = {
        "mnist": "",
        "cifar10": "" if gpu else "there is no GPU",
        "cifar100": "" if gpu and is_cached("cifar100") else "needs a GPU and its archive",
    }
    names = dict.fromkeys(name for target in targets for name in target.datasets)
    if left := [f"{name} ({reasons[name]})" for name in names if reasons[name]]:
        typer.echo(f"Left out: {', '.join(left)}. Use --dataset to run it anyway.", err=True)
    return [name for name in names if not reasons[name]]


def _show(targets: Sequence["Target"], studies: Mapping[str, "StudyData"], out: Path) -> None:
    """Print the view of every target and write its page and figures to `out`."""
    from skerry.files import replace_file
    from skerry.report.text import console
    from skerry_paper.views import view_of

    screen = console()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordsError(
            f"cannot write to {out} ({error.strerror}). Choose another folder."
        ) from None
    for target in targets:
        view = view_of(target, studies)
        if len(targets) > IN_FULL:
            screen.print(view.title, style="bold", markup=False)
            screen.print(view.verdict, markup=False)
        else:
            view.print_to(screen)
        for name, figure in view.figures.items():
            save_picture(figure, out / f"{name}.png")
        page = out / f"{target.name}.md"
        replace_file(page, view.to_markdown().encode())
        written = ", ".join(map(str, [page, *(out / f"{name}.png" for name in view.figures)]))
        screen.print(f"Written: {written}", style="dim", markup=False)


def _print_targets() -> None:
    from skerry.report.text import Sheet, console
    from skerry_paper.plans import count_plan_runs
    from skerry_paper.targets import TARGETS

    rows = []
    for target in TARGETS.values():
        quick, full = (f"{count_plan_runs(target.needs, p):,}" for p in ("quick", "full"))
        data = ", ".join(target.datasets) or "(theory)"
        rows.append((target.name, target.title, data, quick, full))
    header = ("target", "what", "data", "runs\nquick", "runs\nfull")
    console().print(Sheet("Targets", header, tuple(rows), "lllrr").to_rich())
    typer.echo("all: every table and figure. Runs that several targets need are computed once.")
