"""The theory of these runs, to play with: where the explorer's sliders start. The explorer itself
is in `assets/explorer`, the formulas of `skerry.theory` in `assets/theory`."""

import math
from collections.abc import Mapping
from typing import Any

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryError
from skerry.network.fleet import Fleet
from skerry.report.page.blocks import Section, note, text, widget
from skerry.report.page.sections.advice import advice_of
from skerry.report.page.sections.fleet import fleet_of
from skerry.report.page.study import Study

DRAWS = 100  # rounds that stand for a network without a formula; p to a digit or two
ALIKE, DIFFERENT = 0.1, 1.0
"""Heterogeneities of the paper's Figure 1: a split that is iid, and one that is not."""
ASSUMED = {"sigma2": 0.0, "smoothness": 1.0, "initial_error": 1.0, "epsilon": 1e-5}
"""As in the paper's Figure 1."""
SELECTIONS = ("uniform", "per_component", "one_each")
"""Rules of selection that the explorer knows."""


def theory(study: Study) -> Section:
    run = study.runs[0]
    try:
        fleet = fleet_of(run)
    except SkerryError:
        fleet = None
    measured = _measured(study)
    start = explorer_start(run.experiment, fleet, measured)
    said = "What the bounds say about such a fleet. Move a slider to change it."
    if measured:
        said += " The constants are those that skerry advise measured here."
    else:
        said += (
            " The constants of the problem are assumed, as in the paper's Figure 1: the numbers "
            "compare, but are not those of your problem. skerry advise --out measures its own."
        )
    return Section(
        "theory",
        "Theory",
        [
            text(said),
            widget("theory", start=start),
            note(
                "Bounds are about the average model alone, and hold for the worst problem with "
                "such constants. Where they disagree with runs of your own problem, trust the runs."
            ),
        ],
    )


def _measured(study: Study) -> dict[str, Any]:
    """The setting at which an advice asked the same bounds; empty where there is none."""
    try:
        told = advice_of(study) or {}
        found = told["constants"]
        largest = {name: found["suprema"][name]["value"] for name in _SUPREMA}
        sizes = tuple(map(int, found["components"]))
        return {
            "devices": sum(sizes),
            "components": _components(sizes),
            "sampled": int(found["sampled"]),
            "period": int(found["period"]),
            "p": _four_digits(found["mixing"]["minimum"]),
            "zeta_intra": _four_digits(math.sqrt(largest["zeta_intra2"])),
            "zeta_inter": _four_digits(math.sqrt(largest["zeta_inter2"])),
            "sigma2": _four_digits(largest["sigma2"]),
            "smoothness": _four_digits(found["smoothness"]["value"]),
            "initial_error": _four_digits(found["f0"]["value"]),
            "epsilon": _four_digits(told["bounds"]["epsilon"]),
        }
    except (RecordsError, AttributeError, KeyError, TypeError, ValueError):
        return {}


_SUPREMA = ("zeta_intra2", "zeta_inter2", "sigma2")


def explorer_start(
    experiment: Experiment, fleet: Fleet | None, measured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The setting that the sliders begin with, and where each of its numbers comes from:
    experiment, network, measured or assumed. Without a fleet p is assumed to be 1, as in
    Figure 1."""
    network, server, data = experiment.network, experiment.server, experiment.data
    sizes = fleet.sizes if fleet is not None else network.sizes
    devices = sum(sizes)
    known = {
        "devices": devices,
        "components": _components(sizes),
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
    """As much as a person wants to see beside a slider."""
    return float(f"{value:.4g}")


def _components(sizes: tuple[int, ...]) -> int | list[int]:
    return len(sizes) if _even(sizes) else list(sizes)


def _even(sizes: tuple[int, ...]) -> bool:
    """Whether the count alone says the sizes: as equal as possible, the larger ones first."""
    return max(sizes) - min(sizes) <= 1 and list(sizes) == sorted(sizes, reverse=True)
