"""The section with the theory explorer, and the setting at which its sliders start.

The explorer is in `assets/explorer`; `assets/theory` has the formulas of `skerry.theory`.
"""

import math
from collections.abc import Mapping
from typing import Any

from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.network.fleet import Fleet
from skerry.report.page.blocks import PageSection, note, text, widget
from skerry.report.page.report_data import ReportData
from skerry.report.page.sections.fleet import drawable_fleet
from skerry.report.words import rerun_command

DRAWS = 100  # rounds drawn to estimate p of a random network, to one or two digits
ALIKE, DIFFERENT = 0.1, 1.0  # zeta of an iid and of a non-iid split in the paper's Figure 1
ASSUMED = {"sigma2": 0.0, "smoothness": 1.0, "initial_error": 1.0, "epsilon": 1e-5}
"""Constants of the paper's Figure 1."""
SELECTIONS = ("uniform", "per_component", "one_each")  # the selection rules that the explorer knows


def theory_section(data: ReportData) -> PageSection:
    """The theory explorer, started at the experiment and the measured constants."""
    run = data.runs[0]
    try:
        fleet = drawable_fleet(run)
    except SkerryError:
        fleet = None
    measured = _measured(data)
    start = explorer_start(run.experiment, fleet, measured)
    words = "How many rounds and messages the bounds of the theory require for these devices."
    if measured:
        words += " The constants were measured by skerry advise in this folder."
    else:
        words += (
            " The constants of the problem are assumed, as in the paper's Figure 1, so only "
            "comparisons between primitives are meaningful."
        )
        measure = rerun_command([run.experiment], "advise", seeds=None, out=data.folder)
        words += f" Measure the constants of your problem: {measure}" if measure else ""
    limits = note(
        "The bounds cover only the average model, and hold for the worst problem with these "
        "constants. If they disagree with runs of your own problem, trust the runs."
    )
    names = ("question", "recommendation")
    advised = {name: data.advice[name] for name in names} if data.advice else None
    blocks = [text(words), limits, widget("theory", start=start, advised=advised)]
    return PageSection("theory", "Theory", blocks)


def _measured(data: ReportData) -> dict[str, Any]:
    """The constants that skerry advise measured in this folder; empty if it did not."""
    try:
        advice = data.advice or {}
        found = advice["constants"]
        names = ("zeta_intra2", "zeta_inter2", "sigma2")
        largest = {name: found["suprema"][name]["value"] for name in names}
        sizes = tuple(map(int, found["components"]))
        return {
            "devices": sum(sizes),
            "components": _islands(sizes),
            "sampled": int(found["sampled"]),
            "period": int(found["period"]),
            "p": _four_digits(found["mixing"]["minimum"]),
            "zeta_intra": _four_digits(math.sqrt(largest["zeta_intra2"])),
            "zeta_inter": _four_digits(math.sqrt(largest["zeta_inter2"])),
            "sigma2": _four_digits(largest["sigma2"]),
            "smoothness": _four_digits(found["smoothness"]["value"]),
            "initial_error": _four_digits(found["f0"]["value"]),
            "epsilon": _four_digits(advice["bounds"]["epsilon"]),
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def explorer_start(
    experiment: Experiment, fleet: Fleet | None, measured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The setting at which the sliders start, and the source of each number: experiment, network,
    measured or assumed. Without a fleet, p is assumed to be 1, as in Figure 1."""
    network, server, data = experiment.network, experiment.server, experiment.data
    sizes = fleet.sizes if fleet is not None else network.sizes
    devices = sum(sizes)
    known = {
        "devices": devices,
        "components": _islands(sizes),
        "sampled": min(server.sampled, devices),
        "period": server.period,
        "beta": server.beta,
        "selection": server.selection,
    }
    values = known | {
        "p": _four_digits(fleet.mixing_parameters(DRAWS).minimum) if fleet is not None else 1.0,
        "zeta_intra": ALIKE if data.intra == "iid" else DIFFERENT,
        "zeta_inter": ALIKE if data.inter == "iid" else DIFFERENT,
        **ASSUMED,
    }
    sources = dict.fromkeys(values, "assumed") | dict.fromkeys(known, "experiment")
    if fleet is not None:
        sources["p"] = "network"
    if measured:
        values |= measured
        sources |= {name: "measured" for name in measured if sources[name] == "assumed"}
    if server.selection not in SELECTIONS:
        values["selection"], sources["selection"] = "uniform", "assumed"
    return {"values": values, "sources": sources, "weights": server.weights}


def _four_digits(value: float) -> float:
    """The value rounded to four digits, for a slider."""
    return float(f"{value:.4g}")


def _islands(sizes: tuple[int, ...]) -> int | list[int]:
    """The number of islands, or their sizes if these are not as equal as possible."""
    even = max(sizes) - min(sizes) <= 1 and list(sizes) == sorted(sizes, reverse=True)
    return len(sizes) if even else list(sizes)
