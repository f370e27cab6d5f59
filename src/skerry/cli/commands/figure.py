"""`skerry figure`: draw publication figures of recorded runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from skerry.cli.commands.options import Folder, PictureFile, option, save_picture, split_names
from skerry.errors import SkerryError, as_options, printable, unknown
from skerry.report.figure_kinds import KINDS, FigureRequest, draw_figure


def figure_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")],
    folder: Folder = Path("runs"),
    file: PictureFile = None,
    measure: Annotated[
        list[str] | None,
        option(
            "The measure to draw; repeatable for curves and bound.",
            default="average_accuracy; front: own_accuracy",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        option(
            "Primitives to draw, such as s2s,s2a,blend:0.5; gap: the first minus the second.",
            "PRIMITIVES",
            "all",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        option(
            "Draw a panel for each value of a field; repeatable, or joined by commas. Other "
            "fields are averaged over.",
            "FIELD",
            "all that vary",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        option(
            "Only runs with this value, such as period=5 or seed=0; repeatable. The same "
            "field twice means either value.",
            "FIELD=VALUE",
        ),
    ] = None,
    rows: Annotated[str | None, option("gap: the field of the vertical axis.", "FIELD")] = None,
    columns: Annotated[
        str | None, option("gap: the field of the horizontal axis.", "FIELD")
    ] = None,
    x: Annotated[
        str | None,
        option(
            "The horizontal axis. sensitivity: a field. front: a measure. cost: as --over.",
            "NAME",
            "sampled and period; device_accuracy; messages",
        ),
    ] = None,
    over: Annotated[
        str | None,
        option(
            "curves: the horizontal axis: rounds, messages, bytes (with the server; all_messages "
            "and all_bytes add those between devices), seconds or joules.",
            "NAME",
            "rounds",
        ),
    ] = None,
    clock: Annotated[
        str | None,
        option(
            "Seconds and joules of the runs under a clock: a TOML file, or an example such as "
            "wifi_home.",
            "CLOCK",
        ),
    ] = None,
    lines: Annotated[
        str | None,
        option(
            "curves, sensitivity: the field that sets the line style.",
            "FIELD",
            "sensitivity: topology",
        ),
    ] = None,
    best: Annotated[
        str | None,
        option(
            "gap, sensitivity: each primitive at its best value of a field, such as "
            "training.stepsize.",
            "FIELD",
        ),
    ] = None,
    last: Annotated[
        int | None,
        option("gap, sensitivity: mean over the last R rounds.", "R", "the final value", min=1),
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round",
            metavar="N",
            help="network: the round, from 1.",
            show_default="the first server round",
        ),
    ] = None,
    rounds: Annotated[
        str | None,
        option("timeline: the rounds, from 1.", "A:B", "the first two server rounds"),
    ] = None,
    width: Annotated[
        str, option("column: 3.3 inches, one column of a page; full: 6.9 inches.")
    ] = "column",
    title: Annotated[str, option("Title of the figure.", default="none")] = "",
) -> None:
    from skerry.analysis.names import parse_where
    from skerry.report.style import WIDTHS, check_format, paper

    if kind not in KINDS:
        raise SkerryError(unknown("figure", kind, KINDS))
    if width not in WIDTHS:
        raise SkerryError(unknown("width", width, WIDTHS))
    path = file or Path(f"{kind}.png")
    check_format(path)
    plain: dict[str, Any] = {
        "rows": rows, "columns": columns, "x": x, "lines": lines, "best": best, "last": last,
        "round": round_, "rounds": rounds, "clock": clock,
    }  # fmt: skip
    given = {"measure": measure, "compare": compare, "by": by, "over": over, **plain}
    takes = KINDS[kind].takes
    unused = [name for name, value in given.items() if value is not None and name not in takes]
    if unused:
        raise SkerryError(
            f"{kind} has no use for --{', --'.join(unused)}. It takes: --{', --'.join(takes)}, "
            "--where, --width, --title."
        )
    asked = FigureRequest(
        folder=folder,
        measures=split_names(measure),
        compare=split_names([compare] if compare else None),
        by=split_names(by) if by is not None else None,
        where=parse_where(where or ()),
        over=over or "rounds",
        width=WIDTHS[width],
        title=title,
        **plain,
    )
    with paper():
        drawn = draw_figure(kind, asked)
        save_picture(drawn.figure, path, dpi=200)
    for line in drawn.notes:
        typer.echo(printable(as_options(line)))
    typer.echo(f"Wrote {path}.")


figure_command.__doc__ = "\n\n".join(
    ["Draw a publication figure of recorded runs.", "The kinds:"]
    + [f"{name}: {kind.says}." for name, kind in KINDS.items()]
)
