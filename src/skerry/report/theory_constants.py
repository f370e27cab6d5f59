"""Measured constants for the terminal, and the command that turns them into bounds."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from skerry.report.theory_tables import console, plain_table
from skerry.report.words import fleet_in_words, problem_in_words
from skerry.theory.constants import Constants
from skerry.theory.constants_at import ConstantsAt, Measured

if TYPE_CHECKING:
    from rich.table import Table

ROWS: tuple[tuple[str, Callable[[ConstantsAt], Measured]], ...] = (
    ("loss", lambda at: at.loss),
    ("sigma^2, mean over devices", lambda at: at.sigma2),
    ("sigma^2, largest of a device", lambda at: at.sigma2_max),
    ("zeta_intra^2", lambda at: at.intra.total),
    ("  of it heterogeneity", lambda at: at.intra.pure),
    ("  of it minibatch noise", lambda at: at.intra.noise),
    ("zeta_inter^2", lambda at: at.inter.total),
    ("  of it heterogeneity", lambda at: at.inter.pure),
    ("  of it minibatch noise", lambda at: at.inter.noise),
)


def tell(constants: Constants) -> None:
    """Print the constants at every checkpoint, their maxima, and what to do with them."""
    out = console()
    experiment = constants.experiment
    out.print(
        f"{fleet_in_words(experiment, constants.sizes)}; {problem_in_words(experiment)}; "
        "at the average model, ± one standard error"
    )
    out.print(constants_table(constants))
    for line in summary(constants):
        out.print(line)
    for remark in constants.remarks:
        out.print(f"Mind that {remark}.")
    out.print(f"Bounds: {bounds_command(constants)}", soft_wrap=True)


def constants_table(constants: Constants) -> "Table":
    """One row per constant, one column per checkpoint."""
    rounds = (f"round {at.round}" for at in constants.points)
    table = plain_table("", *rounds)
    for title, of in ROWS:
        table.add_row(title, *(_measured(of(at)) for at in constants.points))
    values = (f"{at.smoothness.value:.4g}" for at in constants.points)
    table.add_row(f"L ({constants.smoothness.method})", *values)
    return table


def summary(constants: Constants) -> list[str]:
    mixing = constants.mixing
    error = f" ± {mixing.standard_error:.1g}" if mixing.standard_error else ""
    R0 = constants.R0_squared
    return [
        f"p_min {mixing.minimum:.6f}{error} ({mixing.method}); f0 {_measured(constants.f0)}; R0^2 "
        + ("not known for this model" if R0 is None else f"{R0:.4g}"),
        "The theory means the largest value over all x; the largest over these checkpoints is a "
        "lower estimate of it.",
    ]


def bounds_command(constants: Constants) -> str:
    """`skerry theory bounds` with these constants, to paste."""
    x = constants.parameters(epsilon=0.1)
    equal = len(set(x.sizes)) == 1
    options = {
        "mode": "certified",
        "devices": x.devices,
        "components": len(x.sizes) if equal else "+".join(map(str, x.sizes)),
        "sampled": x.sampled,
        "period": x.period,
        "p": f"{x.p:.4g}",
        "zeta-intra": f"{x.zeta_intra:.4g}",
        "zeta-inter": f"{x.zeta_inter:.4g}",
        "sigma2": f"{x.sigma2:.4g}",
        "smoothness": f"{x.smoothness:.4g}",
        "initial-error": f"{x.initial_error:.4g}",
        "epsilon": x.epsilon,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return shlex.join(["skerry", "theory", "bounds", *words])


def _measured(value: Measured) -> str:
    return f"{value.value:.4g}" + (f" ± {value.error:.1g}" if value.error else "")
