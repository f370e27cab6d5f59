"""`skerry theory`: bounds, mixing, measured constants, and the paper's figures about them."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from skerry.cli.commands import options
from skerry.cli.commands.options import option
from skerry.errors import SkerryError, unknown

if TYPE_CHECKING:
    from skerry.theory.rounds_and_messages import BoundCandidate

app = typer.Typer(
    help="The theory: rounds and messages that suffice, mixing, and measured constants of an "
    "experiment.",
    no_args_is_help=True,
)

FIGURES = {"1": "rounds", "6": "messages"}

Epsilon = Annotated[float, option("The target accuracy.")]
Downlink = Annotated[
    float, typer.Option("--downlink", help="Price of a message from the server to a device.")
]


def _numbers_option(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, metavar="NUMBERS")


@app.command("bounds")
def theory_bounds(
    devices: Annotated[str, _numbers_option("Devices (n).")] = "100",
    components: Annotated[
        str, _numbers_option("Islands (C), or their sizes joined by +, such as 30+70.")
    ] = "2",
    sampled: Annotated[str, _numbers_option("Devices that the server samples (K).")] = "20",
    period: Annotated[str, _numbers_option("Rounds from one server round to the next (H).")] = "5",
    p: Annotated[
        str, _numbers_option("Mixing parameter: D2D leaves at most 1-p of the intra disagreement.")
    ] = "1",
    zeta_intra: Annotated[str, _numbers_option("Gradient heterogeneity inside islands.")] = "0.1",
    zeta_inter: Annotated[str, _numbers_option("Gradient heterogeneity between islands.")] = "0.1",
    sigma2: Annotated[str, _numbers_option("Variance of a device's stochastic gradient.")] = "0",
    smoothness: Annotated[str, _numbers_option("L: how fast gradients change.")] = "1",
    initial_error: Annotated[
        str,
        _numbers_option(
            "R0^2 = ||x0 - x*||^2 if convex, else f(x0) - f*.", "--initial-error", "--gap"
        ),
    ] = "1",
    epsilon: Annotated[str, _numbers_option("The target accuracy, averaged over rounds.")] = "1e-5",
    convex: Annotated[
        bool,
        typer.Option(
            "--convex/--non-convex", help="Average of f - f*, or of the squared gradient norm."
        ),
    ] = False,
    mode: Annotated[
        str | None,
        option(
            "Constants of the bounds. order: all one; printed: the paper's; repaired: the "
            "paper's, corrected; certified: none, the full recursion is evaluated.",
            default="order; certified unless devices are sampled uniformly",
        ),
    ] = None,
    primitive: Annotated[
        str | None, option("s2s, s2a, blend, joined by commas; blend has certified bounds only.")
    ] = None,
    beta: Annotated[str, option("The beta of blend: NUMBERS, or best.")] = "0.5",
    selection: Annotated[
        str,
        option(
            "Whom the server samples: uniform, per_component, one_each, bernoulli, joined by "
            "commas; others than uniform have certified bounds only."
        ),
    ] = "uniform",
    weights: Annotated[
        str, option("Weights of the average: equal, or stratified (islands by their size).")
    ] = "equal",
    uplink: Annotated[float, option("Price of a message to the server.")] = 1,
    downlink: Downlink = 1,
    broadcast: Annotated[
        float | None, option("Price of one message to all devices, if the server can send one.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print how many rounds and messages S2S, S2A and blend need to reach a target.

    NUMBERS are one number, a range (1:50, 1:50:5) or a list (5,10,20). The defaults are the
    setting of the paper's Figure 1.
    """
    from skerry.report.screens.theory import print_bounds
    from skerry.theory.communication import Prices
    from skerry.theory.rounds_and_messages import BoundGrid

    texts = {
        "devices": devices, "components": components, "sampled": sampled, "period": period, "p": p,
        "zeta_intra": zeta_intra, "zeta_inter": zeta_inter, "sigma2": sigma2,
        "smoothness": smoothness, "initial_error": initial_error, "epsilon": epsilon,
    }  # fmt: skip
    selections = _split_once("selection", selection, "uniform or per_component")
    is_uniform = set(selections) == {"uniform"} and weights == "equal"
    mode = mode or ("order" if is_uniform else "certified")
    default = "s2s,s2a,blend" if mode == "certified" else "s2s,s2a"
    asked = BoundGrid(
        _settings(texts),
        _candidates(primitive or default, beta, selections),
        mode,
        convex,
        Prices(uplink, downlink, broadcast),
        weights,
    )
    if as_json:
        rows = [answer.to_json() for setting in asked.answers for answer in setting]
        options.print_json({"rows": rows})
    else:
        print_bounds(asked)


@app.command("mixing")
def theory_mixing(
    file: options.ExperimentFile = None,
    settings: options.Settings = None,
    draws: Annotated[
        int, option("Random rounds drawn where p has no formula.", min=2, max=100_000)
    ] = 400,
    as_json: options.AsJson = False,
) -> None:
    """Print p, how fast mixing reduces disagreement inside the islands of an experiment."""
    from dataclasses import asdict

    from skerry.network.fleet import build_fleet
    from skerry.report.screens.theory import print_mixing

    experiment = options.read_experiment(file, settings)
    fleet = build_fleet(experiment.network, experiment.seed, rounds=experiment.rounds)
    found = fleet.mixing_parameters(draws)
    if as_json:
        options.print_json({"components": list(fleet.sizes), **asdict(found)})
    else:
        print_mixing(experiment, found, fleet.sizes)


@app.command("constants")
def theory_constants(
    file: options.ExperimentFile = None,
    settings: options.Settings = None,
    rounds: Annotated[
        str, option("Rounds after which to measure: a list, or a range such as 0:50:10.")
    ] = "0,10,50",
    draws: Annotated[
        int, option("Pairs of minibatches per device and measured round.", min=2, max=10_000)
    ] = 20,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure sigma^2, zeta^2, L, f0 and p of an experiment during one run."""
    from skerry.report.screens.theory import print_constants
    from skerry.theory.constants import measure_constants

    found = measure_constants(
        options.read_experiment(file, settings),
        rounds=[int(t) for t in options.parse_numbers("rounds", rounds, whole=True)],
        draws=draws,
        device=device,
    )
    if as_json:
        options.print_json(found.to_json())
    else:
        print_constants(found)


@app.command("figure")
def theory_figure(
    which: Annotated[str, typer.Argument(help="1: rounds; 6: messages.", metavar="1|6")],
    path: options.PictureFile = None,
    epsilon: Epsilon = 1e-5,
    downlink: Downlink = 1,
    as_json: options.AsJson = False,
) -> None:
    """Draw Figure 1 (rounds) or 6 (messages) of the paper, with the crossing points marked."""
    from skerry.report.figures.predictions import regimes_figure
    from skerry.report.style import check_format
    from skerry.theory.communication import Prices
    from skerry.theory.regimes import regime_table

    if which not in FIGURES:
        raise SkerryError(unknown("figure", which, FIGURES))
    if path is None and not as_json:
        path = Path(f"figure-{which}.png")
    if path is not None:
        check_format(path)
    table = regime_table(epsilon, Prices(downlink=downlink))
    panels = [panel for panel in table if panel.measure == FIGURES[which]]
    if as_json:
        options.print_json({"figure": int(which), "panels": [panel.to_json() for panel in panels]})
    if path is not None:
        priced = f", a downlink costs {downlink:g}" if downlink != 1 else ""
        options.save_picture(regimes_figure(panels, f"ε = {epsilon:g}{priced}"), path)
    if not as_json:
        typer.echo(f"Figure {which}: {path}")


@app.command("regimes")
def theory_regimes(
    epsilon: Epsilon = 1e-5, downlink: Downlink = 1, as_json: options.AsJson = False
) -> None:
    """Print which primitive needs fewer rounds and messages: Figures 1 and 6 as tables."""
    from skerry.report.screens.theory import print_regimes
    from skerry.theory.communication import Prices
    from skerry.theory.regimes import regime_table

    table = regime_table(epsilon, Prices(downlink=downlink))
    if as_json:
        options.print_json({"rows": [panel.to_json(curves=False) for panel in table]})
    else:
        print_regimes(table, FIGURES, epsilon)


def _settings(texts: Mapping[str, str]) -> dict[str, list[Any]]:
    from skerry.theory.parameters import WHOLE_NUMBERS

    values = {
        field: _parse_components(text)
        if field == "components"
        else options.parse_numbers(field.replace("_", "-"), text, whole=field in WHOLE_NUMBERS)
        for field, text in texts.items()
    }
    count = prod(map(len, values.values()))
    if count > options.MAX_NUMBERS:
        raise SkerryError(
            f"the ranges must make at most {options.MAX_NUMBERS:,} settings (got {count:,}). "
            "Take larger steps or fewer ranges."
        )
    return values


def _parse_components(text: str) -> list[Any]:
    """Parse numbers of islands, or one tuple of sizes written as 30+70."""
    if "+" not in text:
        return list(options.parse_numbers("components", text, whole=True))
    sizes = (options.parse_numbers("components", part, whole=True)[0] for part in text.split("+"))
    return [tuple(int(size) for size in sizes)]


def _candidates(primitives: str, beta: str, selections: Sequence[str]) -> list["BoundCandidate"]:
    """Combine every primitive with every selection."""
    from skerry.theory.rounds_and_messages import BoundCandidate

    betas: list[float | Literal["best"]] = (
        ["best"] if beta == "best" else [*options.parse_numbers("beta", beta, whole=False)]
    )
    return [
        BoundCandidate(primitive, beta_value, selection)
        for selection in selections
        for primitive in _split_once("primitive", primitives, "s2s,s2a")
        for beta_value in (betas if primitive == "blend" else [0.5])
    ]


def _split_once(option: str, text: str, example: str) -> list[str]:
    found = list(dict.fromkeys(options.split_names([text])))
    if not found:
        raise SkerryError(f"--{option} must name something (got '{text}'). Give {example}.")
    return found
