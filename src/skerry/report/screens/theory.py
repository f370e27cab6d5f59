"""`skerry theory mixing`, `regimes` and `constants`: how fast islands agree, who needs fewer where,
and the constants measured along a run, with the command that turns them into bounds."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from skerry.report.screens.bounds import span, winner
from skerry.report.text import PAGE, console, plain_table, plus_minus
from skerry.report.words import fleet_in_words, problem_in_words
from skerry.theory.constants import Constants
from skerry.theory.point_constants import Measurement, PointConstants
from skerry.theory.regimes import AXES, HETEROGENEITY, Regime

if TYPE_CHECKING:
    from rich.table import Table

    from skerry.config.experiment import Experiment
    from skerry.network.contraction import MixingParameters

CONSTANTS: tuple[tuple[str, Callable[[PointConstants], Measurement]], ...] = (
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


# Mixing


def tell_mixing(experiment: "Experiment", mixing: "MixingParameters", sizes: Sequence[int]) -> None:
    out = console(fold_at=PAGE)
    out.print(f"{fleet_in_words(experiment, sizes)}; {experiment.network.mixing} weights")
    out.print(mixing_table(mixing, sizes))
    p_min = plus_minus(mixing.minimum, mixing.standard_error or None, ".6f")
    out.print(f"p_min {p_min} ({mixing.method}): use it in bounds.")
    out.print(f"p_avg {mixing.average:.6f}, the mean over components: equal if all are alike.")
    out.print(f"A round of D2D leaves at most {1 - mixing.minimum:.2%} of intra disagreement.")


def mixing_table(mixing: "MixingParameters", sizes: Sequence[int]) -> "Table":
    """Components that are alike are in one row."""
    table = plain_table("components", "devices each", "p")
    alike = Counter(zip(sizes, mixing.per_island, strict=True))
    for (size, p), count in alike.items():
        table.add_row(str(count), str(size), f"{p:.6f}")
    return table


# Regimes


def tell_regimes(regimes: Sequence[Regime], figures: Mapping[str, str], epsilon: float) -> None:
    """`figures` names the measure of each figure of the paper."""
    out = console(fold_at=PAGE)
    out.print(
        f"n = 100, L = f0 = 1, sigma = 0, epsilon = {epsilon:g}, non-convex, all constants one; "
        "off their axis K = 20, H = 5, p = 1."
    )
    for which, measure in figures.items():
        out.print(f"\n[bold]Figure {which}: who needs the fewest {measure}[/]")
        out.print(regimes_table([panel for panel in regimes if panel.measure == measure]))


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


# Constants


def tell_constants(constants: Constants) -> None:
    """The constants at every checkpoint, their maxima, and what to do with them."""
    out = console(fold_at=PAGE)
    experiment = constants.experiment
    out.print(
        f"{fleet_in_words(experiment, constants.sizes)}; {problem_in_words(experiment)}; "
        "at the average model, ± one standard error"
    )
    out.print(constants_table(constants))
    for line in _summary(constants):
        out.print(line)
    for remark in constants.remarks:
        out.print(f"Mind that {remark}.")
    if constants.why_no_bounds:
        out.print(f"No bounds: {constants.why_no_bounds}", soft_wrap=True)
    else:
        out.print(f"Bounds: {bounds_command(constants)}", soft_wrap=True)


def constants_table(constants: Constants) -> "Table":
    """One row per constant, one column per checkpoint."""
    rounds = (f"round {at.round}" for at in constants.points)
    table = plain_table("", *rounds)
    for title, of in CONSTANTS:
        table.add_row(title, *(_measured(of(at)) for at in constants.points))
    values = (f"{at.smoothness.value:.4g}" for at in constants.points)
    table.add_row(f"L ({constants.smoothness.method})", *values)
    return table


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
    if x.selection != "uniform":
        options["selection"] = x.selection
    if x.weights != "equal":
        options["weights"] = x.weights
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return shlex.join(["skerry", "theory", "bounds", *words])


def _summary(constants: Constants) -> list[str]:
    mixing, R0 = constants.mixing, constants.R0_squared
    p_min = plus_minus(mixing.minimum, mixing.standard_error or None, ".6f", ".1g")
    return [
        f"p_min {p_min} ({mixing.method}); f0 {_measured(constants.f0)}; R0^2 "
        + ("not known for this model" if R0 is None else f"{R0:.4g}"),
        "The theory means the largest value over all x; the largest over these checkpoints is a "
        "lower estimate of it.",
    ]


def _measured(value: Measurement) -> str:
    return plus_minus(value.value, value.error or None, ".4g", ".1g")
