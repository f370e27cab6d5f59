"""`skerry figure`: pictures for papers from a folder of records."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import Folder, PictureFile, names, save_picture
from skerry.errors import SkerryError, as_options, unknown
from skerry.report.figure_kinds import KINDS, FigureRequest, draw_figure

_KINDS_IN_WORDS = "\n\n".join(f"{name}: {kind.says}." for name, kind in KINDS.items())


def figure(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")],
    folder: Folder = Path("runs"),
    file: PictureFile = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="What to look at; repeatable for curves and bound.",
            show_default="average_accuracy; front: own_accuracy",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="PRIMITIVES",
            help="Which to draw, such as s2s,s2a,blend:0.5; gap: the first minus the second.",
            show_default="all",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="A panel for each value of a field; repeatable, or joined by commas. Fields "
            "that are not named are averaged over.",
            show_default="all that vary",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Only runs with this value, such as period=5 or seed=0; repeatable, and one "
            "field twice means either value.",
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="FIELD", help="gap: what varies downwards.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="FIELD", help="gap: what varies sideways.")
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The horizontal axis. sensitivity: a field. front: a measure. cost: messages, "
            "bytes, all_messages or all_bytes.",
            show_default="sampled and period; device_accuracy; messages",
        ),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="curves, sensitivity: a field told by the style of lines.",
            show_default="sensitivity: topology",
        ),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="gap, sensitivity: each primitive at its best value of a field, such as "
            "training.stepsize.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="R",
            help="gap, sensitivity: mean over the last R rounds.",
            show_default="the final value",
        ),
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round",
            metavar="N",
            help="network: which round, from 1.",
            show_default="the first server round",
        ),
    ] = None,
    width: Annotated[
        str, typer.Option(help="column: 3.3 inches, one column of a page; full: 6.9.")
    ] = "column",
    title: Annotated[str, typer.Option(help="Above the figure.", show_default="none")] = "",
) -> None:
    from skerry.analysis.names import parse_where
    from skerry.report.style import WIDTHS, check_format, paper

    if kind not in KINDS:
        raise SkerryError(unknown("figure", kind, KINDS))
    if width not in WIDTHS:
        raise SkerryError(unknown("width", width, WIDTHS))
    path = file or Path(f"{kind}.png")
    check_format(path)
    given = {
        "measure": measure, "compare": compare, "by": by, "rows": rows, "columns": columns,
        "x": x, "lines": lines, "best": best, "last": last, "round": round_,
    }  # fmt: skip
    _check_taken(kind, [name for name, value in given.items() if value is not None])
    asked = FigureRequest(
        folder=folder,
        measures=names(measure),
        compare=names([compare] if compare else None),
        by=names(by) if by is not None else None,
        where=parse_where(where or ()),
        lines=lines,
        x=x,
        rows=rows,
        columns=columns,
        best=best,
        last=last,
        round=round_,
        width=WIDTHS[width],
        title=title,
    )
    with paper():
        drawn = draw_figure(kind, asked)
        save_picture(drawn.figure, path, dpi=200)
    for line in drawn.notes:
        typer.echo(as_options(line))
    typer.echo(f"Wrote {path}.")


figure.__doc__ = f"""Draw a figure for a paper from recorded runs.

The kinds:

{_KINDS_IN_WORDS}
"""


def _check_taken(kind: str, asked: list[str]) -> None:
    foreign = [f"--{name}" for name in asked if name not in KINDS[kind].takes]
    if foreign:
        takes = ", ".join(f"--{name}" for name in KINDS[kind].takes)
        raise SkerryError(
            f"{kind} has no use for {', '.join(foreign)}. It takes: {takes}, --where, --width, "
            "--title."
        )
