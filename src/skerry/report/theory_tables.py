"""Tables of the theory for the terminal: bounds, their terms, regimes, mixing."""

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from skerry.report.theory_words import name, number, span, winner
from skerry.theory.regimes import AXES, HETEROGENEITY, Regime
from skerry.theory.rounds_and_messages import Answer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from skerry.network.contraction import MixingParameters


TERMS = ("initial", "noise", "intra", "inter", "sampling_intra", "sampling_inter")
WIDTH = 100  # where there is no terminal to ask


def console() -> "Console":
    from rich.console import Console

    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDTH)


def bounds_table(settings: Sequence[Sequence[Answer]], varied: Sequence[str]) -> "Table":
    """One row per setting and primitive; the fewest rounds of a setting stand out."""
    first = settings[0][0]
    columns = [*varied, "primitive", "rounds"]
    if first.N_b1 is not None:
        columns += ["rounds by\nlemma", "closed\nform"]
    columns += [] if first.stepsize is None else ["stepsize"]
    table = plain_table(*columns, "messages", left=("primitive",))
    for answers in settings:
        fewest = min(answer.rounds for answer in answers)
        for i, answer in enumerate(answers):
            where = [
                number(getattr(answer.parameters, field)) if i == 0 else "" for field in varied
            ]
            rounds = number(answer.rounds)
            bold = answer.rounds == fewest and len(answers) > 1
            cells = [*where, name(answer.label), f"[bold]{rounds}[/]" if bold else rounds]
            if answer.N_b1 is not None:
                cells += [number(answer.N_b2), number(answer.N_b1)]
            cells += [] if answer.stepsize is None else [number(answer.stepsize)]
            table.add_row(*cells, number(answer.messages))
    return table


def terms_table(answers: Sequence[Answer]) -> "Table":
    """What share of the rounds (order) or of epsilon (other modes) comes from where."""
    terms = [term for term in TERMS if any(term in answer.terms for answer in answers)]
    whole = "% of rounds" if answers[0].mode == "order" else "% of epsilon"
    table = plain_table(whole, *(term.replace("_", "\n") for term in terms))
    for answer in answers:
        total = sum(answer.terms.values()) or math.nan  # nothing to reach: no shares
        shares = (100 * answer.terms.get(term, math.nan) / total for term in terms)
        table.add_row(name(answer.label), *("-" if math.isnan(x) else f"{x:.1f}" for x in shares))
    return table


def regimes_table(regimes: Sequence[Regime]) -> "Table":
    """Who needs the fewest along each axis of one figure, one row per heterogeneity."""
    axes = {"sampled": "sampled (K)", "period": "period (H)", "p": "p"}
    table = plain_table("zeta_intra,\nzeta_inter", *axes.values(), left=axes.values())
    cells = {
        (r.zeta_intra, r.zeta_inter, r.axis): "\n".join(
            f"{winner(stretch.winner)} {span(stretch)}" for stretch in r.stretches
        )
        for r in regimes
    }
    for zetas in HETEROGENEITY:
        table.add_row(f"{zetas[0]:g}, {zetas[1]:g}", *(cells[*zetas, axis] for axis in AXES))
    return table


def mixing_table(mixing: "MixingParameters", sizes: Sequence[int]) -> "Table":
    """Components that are alike share a row."""
    table = plain_table("components", "devices each", "p")
    kinds: dict[tuple[int, float], int] = {}
    for size, p in zip(sizes, mixing.per_component, strict=True):
        kinds[size, p] = kinds.get((size, p), 0) + 1
    for (size, p), count in kinds.items():
        table.add_row(str(count), str(size), f"{p:.6f}")
    return table


def plain_table(*columns: str, left: Collection[str] = ()) -> "Table":
    """An empty table; the first column and those named in `left` are flush left."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        flush_left = column == columns[0] or column in left
        table.add_column(column, justify="left" if flush_left else "right", no_wrap=True)
    return table
