"""`skerry theory bounds`: the question that the theory was written for, with ranges."""

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
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
        str,
        typer.Option(
            help="order: all constants one; printed: the paper's; repaired: constants that "
            "survive checking; certified: the full recursion."
        ),
    ] = "order",
    primitive: Annotated[
        str | None,
        typer.Option(help="s2s, s2a, blend, joined by commas; blend has certified bounds only."),
    ] = None,
    beta: Annotated[
        str, typer.Option(help="The beta of blend: numbers as above, or best.")
    ] = "0.5",
    uplink: Annotated[float, typer.Option(help="Price of a message to the server.")] = 1,
    downlink: Downlink = 1,
    broadcast: Annotated[
        float | None,
        typer.Option(help="Price of one message to all devices, if the server can send one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """How many rounds and messages S2S, S2A and blend need.

    NUMBERS are one number, a range (1:50, 1:50:5) or a list (5,10,20). The defaults are the
    setting of the paper's Figure 1.
    """
    from skerry.commands.inquiry import Inquiry, parse_settings
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
    default = "s2s,s2a,blend" if mode == "certified" else "s2s,s2a"
    inquiry = Inquiry(
        parse_settings(texts),
        mode,
        convex,
        primitives=[name.strip() for name in (primitive or default).split(",")],
        beta=beta,
        prices=Prices(uplink, downlink, broadcast),
    )
    if as_json:
        print_json({"rows": [row.to_json() for rows in inquiry.answers for row in rows]})
    else:
        inquiry.tell()


def print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, allow_nan=False))
