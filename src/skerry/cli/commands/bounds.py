"""`skerry theory bounds`: the question that the theory was written for, with ranges."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from skerry.cli.commands.options import AsJson, names, print_json
from skerry.cli.commands.ranges import MOST, numbers
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.theory.bounds_over import Contender

Downlink = Annotated[
    float, typer.Option("--downlink", help="Price of a message from the server to a device.")
]


def _range(help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, metavar="NUMBERS")


def bounds(
    devices: Annotated[str, _range("Devices (n).")] = "100",
    components: Annotated[
        str, _range("Components (C), or their sizes joined by +, such as 30+70.")
    ] = "2",
    sampled: Annotated[str, _range("Devices that the server samples (K).")] = "20",
    period: Annotated[str, _range("Rounds from one server round to the next (H).")] = "5",
    p: Annotated[str, _range("Mixing parameter: D2D leaves 1-p of intra disagreement.")] = "1",
    zeta_intra: Annotated[str, _range("Gradient heterogeneity inside components.")] = "0.1",
    zeta_inter: Annotated[str, _range("Gradient heterogeneity between components.")] = "0.1",
    sigma2: Annotated[str, _range("Variance of a device's stochastic gradient.")] = "0",
    smoothness: Annotated[str, _range("L: how fast gradients change.")] = "1",
    initial_error: Annotated[
        str,
        _range("R0^2 = ||x0 - x*||^2 if convex, else f(x0) - f*.", "--initial-error", "--gap"),
    ] = "1",
    epsilon: Annotated[str, _range("The accuracy wanted of the average over rounds.")] = "1e-5",
    convex: Annotated[
        bool,
        typer.Option(
            "--convex/--non-convex", help="Average of f - f*, or of the squared gradient norm."
        ),
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            help="order: all constants one; printed: the paper's; repaired: constants that "
            "survive checking; certified: the full recursion.",
            show_default="order; certified unless devices are sampled uniformly",
        ),
    ] = None,
    primitive: Annotated[
        str | None,
        typer.Option(help="s2s, s2a, blend, joined by commas; blend has certified bounds only."),
    ] = None,
    beta: Annotated[
        str, typer.Option(help="The beta of blend: numbers as above, or best.")
    ] = "0.5",
    selection: Annotated[
        str,
        typer.Option(
            help="Whom the server samples: uniform, per_component, one_each, bernoulli, joined by "
            "commas; others than uniform have certified bounds only."
        ),
    ] = "uniform",
    weights: Annotated[
        str,
        typer.Option(help="What S2A delivers: equal, or stratified (islands by their size)."),
    ] = "equal",
    uplink: Annotated[float, typer.Option(help="Price of a message to the server.")] = 1,
    downlink: Downlink = 1,
    broadcast: Annotated[
        float | None,
        typer.Option(help="Price of one message to all devices, if the server can send one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many rounds and messages S2S, S2A and blend need.

    NUMBERS are one number, a range (1:50, 1:50:5) or a list (5,10,20). The defaults are the
    setting of the paper's Figure 1.
    """
    from skerry.report.screens.theory import print_bounds
    from skerry.theory.bounds_over import BoundsOver
    from skerry.theory.communication import Prices

    texts = {
        "devices": devices,
        "components": components,
        "sampled": sampled,
        "period": period,
        "p": p,
        "zeta_intra": zeta_intra,
        "zeta_inter": zeta_inter,
        "sigma2": sigma2,
        "smoothness": smoothness,
        "initial_error": initial_error,
        "epsilon": epsilon,
    }
    rules = _named("selection", selection, "uniform or per_component")
    plain = set(rules) == {"uniform"} and weights == "equal"
    mode = mode or ("order" if plain else "certified")
    default = "s2s,s2a,blend" if mode == "certified" else "s2s,s2a"
    asked = BoundsOver(
        _settings(texts),
        _contenders(primitive or default, beta, rules),
        mode,
        convex,
        Prices(uplink, downlink, broadcast),
        weights,
    )
    if as_json:
        print_json({"rows": [answer.to_json() for setting in asked.answers for answer in setting]})
    else:
        print_bounds(asked)


def _settings(texts: Mapping[str, str]) -> dict[str, list[Any]]:
    """The values of each parameter, as the options name them."""
    from skerry.theory.bounds_over import WHOLE

    values = {
        field: _components(text)
        if field == "components"
        else numbers(field.replace("_", "-"), text, whole=field in WHOLE)
        for field, text in texts.items()
    }
    count = prod(map(len, values.values()))
    if count > MOST:
        raise SkerryError(
            f"the ranges must make at most {MOST:,} settings (got {count:,}). "
            "Take larger steps or fewer ranges."
        )
    return values


def _components(text: str) -> list[Any]:
    """Counts, or one tuple of sizes written as 30+70."""
    if "+" not in text:
        return list(numbers("components", text, whole=True))
    sizes = (numbers("components", part, whole=True)[0] for part in text.split("+"))
    return [tuple(int(size) for size in sizes)]


def _contenders(primitives: str, beta: str, rules: Sequence[str]) -> list["Contender"]:
    """Every primitive under every rule of selection."""
    from skerry.theory.bounds_over import Contender

    betas: list[float | Literal["best"]] = (
        ["best"] if beta == "best" else [*numbers("beta", beta, whole=False)]
    )
    return [
        Contender(primitive, one, rule)
        for rule in rules
        for primitive in _named("primitive", primitives, "s2s,s2a")
        for one in (betas if primitive == "blend" else [0.5])
    ]


def _named(option: str, text: str, example: str) -> list[str]:
    """The names that an option lists, each once."""
    found = list(dict.fromkeys(names([text])))
    if not found:
        raise SkerryError(f"--{option} must name something (got '{text}'). Give {example}.")
    return found
