"""`skerry reproduce`: the paper's tables and figures from real runs, beside the printed numbers."""

import math
import sys
from collections.abc import Sequence
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
    may_be_stopped,
    save_picture,
)
from skerry.cli.commands.plug_ins import find_plug_ins
from skerry.errors import RecordsError

if TYPE_CHECKING:
    from skerry_paper.plan import Profile
    from skerry_paper.plans import Need
    from skerry_paper.study import Study
    from skerry_paper.targets import Target

LIST = "list"
IN_FULL = 3
"""So many targets are printed in full; of more, the verdicts, and where their pages are."""
CPU_WARNING = (
    "Without a GPU a run of the CNN takes ten minutes and more for 100 rounds on two cores "
    "(docs/speed.md), and this is {} of them. Stop with Ctrl-C whenever you like: the same command "
    "goes on."
)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="table1 to table6, fig1 to fig14, or all of them; protocol, blend and others that "
            "the paper does not have; list tells what each is.",
        ),
    ],
    dataset: Annotated[
        Literal["mnist", "cifar10", "cifar100"] | None,
        typer.Option(
            help="Only what is about this data set.",
            show_default="mnist, cifar10 with a GPU, cifar100 if it is there",
        ),
    ] = None,
    profile: Annotated[
        Literal["quick", "full"],
        typer.Option(help="quick: fewer seeds, stepsizes and looks; full: as the paper."),
    ] = "quick",
    settings: Settings = None,
    executor: ExecutorName = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where records, studies and pages go.")
    ] = Path("reproduction"),
    again: Again = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="How long it may take: what tells most is run first, what does not fit is left "
            "for the next time.",
            show_default="as long as it takes",
        ),
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Run nothing: show the studies kept in this folder, such as "
            "studies/reproduction/data; repeatable, studies of one name are joined.",
        ),
    ] = None,
) -> None:
    """Make a table or figure of the paper anew, and put the printed numbers beside it."""
    from skerry_paper.study import kept_studies
    from skerry_paper.targets import Request

    if LIST in names:
        _list()
        return
    request = Request.named(names)
    if dataset:
        request = request.about([dataset])
    if kept:
        _show(request.targets, kept_studies(*kept), out)
        return
    if not dataset:
        request = request.about(_within_reach(request.targets, device))
    find_plug_ins()
    with may_be_stopped(f"Finished runs are in {out}. The same command goes on."):
        studies = _computed(
            request.needs(profile), profile, settings or [], device, out, again, minutes,
            (executor, workers, ray_address),
        )  # fmt: skip
    _show(request.targets, studies, out)
    for name in studies:
        _say_what_is_left_out(name, profile)


def _within_reach(targets: Sequence["Target"], device: str) -> Sequence[str]:
    """The data sets of these targets. Where a target is about several, those that this machine
    can do; what is left out is said."""
    from skerry_paper.plans import DATASETS

    if all(len(target.datasets) < 2 for target in targets):
        return DATASETS
    from skerry.data.sources.fetch import cached
    from skerry.engine.world import pick_device

    gpu = pick_device(device).type == "cuda"
    reasons = {
        "mnist": "",
        "cifar10": "" if gpu else "no GPU here",
        "cifar100": "" if gpu and cached("cifar100") else "needs a GPU and its archive",
    }
    about = dict.fromkeys(name for target in targets for name in target.datasets)
    if left := [f"{name} ({reasons[name]})" for name in about if reasons[name]]:
        typer.echo(f"Left out: {', '.join(left)}. --dataset asks for it all the same.", err=True)
    return [name for name in about if not reasons[name]]


def _computed(
    needs: list["Need"],
    profile: "Profile",
    settings: list[str],
    device: str,
    out: Path,
    again: bool,
    minutes: float | None,
    place: tuple[str | None, int | None, str | None],
) -> dict[str, "Study"]:
    from skerry.engine.world import pick_device
    from skerry.report.screens.progress import watch_sweep
    from skerry.runs.executors.executor import open_executor
    from skerry_paper.compute import compute
    from skerry_paper.plans import PLANS, count_of

    slow = [need for need in needs if PLANS[need.study].dataset != "mnist"]
    if slow and pick_device(device).type == "cpu":
        typer.echo(CPU_WARNING.format(f"{count_of(slow, profile):,}"), err=True)
    executor, workers, ray_address = place
    with redirect_stdout(sys.stderr), watch_sweep("average_accuracy") as watcher:
        return compute(
            needs,
            profile,
            out=out,
            executor=open_executor(executor, device=device, workers=workers, address=ray_address),
            command=" ".join(["skerry", *sys.argv[1:]]),
            device=device,
            settings=settings,
            again=again,
            minutes=math.inf if minutes is None else minutes,
            watcher=watcher,
            tell=watcher.say,
        )


def _show(targets: Sequence["Target"], studies: dict[str, "Study"], out: Path) -> None:
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
        replace_file(page, view.markdown.encode())
        written = ", ".join(map(str, [page, *(out / f"{name}.png" for name in view.figures)]))
        screen.print(f"Written: {written}", style="dim", markup=False)


def _say_what_is_left_out(name: str, profile: "Profile") -> None:
    from skerry_paper.plans import PLANS

    if profile == "quick" and PLANS[name].left_out:
        typer.echo(f"{name}: {PLANS[name].left_out}")


def _list() -> None:
    from skerry.report.text import Sheet, console
    from skerry_paper.plans import count_of
    from skerry_paper.targets import TARGETS

    rows = []
    for target in TARGETS.values():
        quick, full = (f"{count_of(target.needs, p):,}" for p in ("quick", "full"))
        data = ", ".join(target.datasets) or "(theory)"
        rows.append((target.name, target.title, data, quick, full))
    header = ("target", "what", "data", "runs\nquick", "runs\nfull")
    console().print(Sheet("Targets", header, tuple(rows), "lllrr").to_rich())
    typer.echo("all: every table and figure. Runs that several need are computed once.")
