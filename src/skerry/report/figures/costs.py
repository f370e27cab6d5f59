"""A measure against what was sent for it."""

from typing import TYPE_CHECKING

from skerry.errors import SkerryError, unknown
from skerry.report.figures.rounds import fill_band, fit_height
from skerry.report.figures.series import labelled, looks_of, measured, over_seeds
from skerry.report.figures.titles import measure_title
from skerry.report.style import plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COSTS = {
    "messages": ("uplink_messages", "downlink_messages"),
    "bytes": ("uplink_bytes", "downlink_bytes"),
    "all_messages": ("uplink_messages", "downlink_messages", "d2d_messages"),
    "all_bytes": ("uplink_bytes", "downlink_bytes", "d2d_bytes"),
}
TITLES = {
    "messages": "messages to and from the server",
    "bytes": "traffic of the server (bytes)",
    "all_messages": "messages, those between devices too",
    "all_bytes": "traffic, that between devices too (bytes)",
}


def cost(frame: "pd.DataFrame", measure: str, axis: "Axes", price: str = "messages") -> "Axes":
    """Mean over seeds and band, over what had been sent by then; a line ends where its run does.

    `frame` is that of `skerry.load`.
    """
    if price not in COSTS:
        raise SkerryError(unknown("cost", price, COSTS))
    there = measured(labelled(frame), measure, *COSTS[price])
    there = there.assign(_sent=there[list(COSTS[price])].sum(axis="columns"))
    drawn = []
    for name, look in looks_of(there["label"]).items():
        ours = there[there["label"] == name]
        band = over_seeds(ours, measure, "round")
        sent = over_seeds(ours, "_sent", "round").mean
        drawn.append(band)
        axis.plot(
            sent, band.mean, color=look.colour, marker=look.marker,
            markevery=max(1, len(sent) // 7), label=plain(name),
        )  # fmt: skip
        fill_band(axis, band._replace(at=sent), measure, look.colour)
    fit_height(axis, measure, drawn)
    from matplotlib.ticker import EngFormatter

    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_xlabel(TITLES[price])
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return axis
