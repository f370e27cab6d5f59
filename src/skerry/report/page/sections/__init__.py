"""The sections of the page, in their order. A section is a function from the study to its pieces
(None where it has nothing to say); adding one is a function and a line here."""

from collections.abc import Callable

from skerry.report.page.blocks import Section
from skerry.report.page.sections.advice import advice
from skerry.report.page.sections.comparisons import gaps, stepsizes, who_won, wins
from skerry.report.page.sections.curves import consensus, cost, learning_curves
from skerry.report.page.sections.devices import devices
from skerry.report.page.sections.fleet import labels, network
from skerry.report.page.sections.overview import what_was_run
from skerry.report.page.sections.provenance import how_it_was_run, to_repeat
from skerry.report.page.sections.theory import theory
from skerry.report.page.study import Study

SECTIONS: tuple[Callable[[Study], Section | None], ...] = (
    advice,
    who_won,
    learning_curves,
    consensus,
    cost,
    gaps,
    wins,
    stepsizes,
    devices,
    network,
    labels,
    theory,
    how_it_was_run,
    to_repeat,
)
"""What follows `what_was_run`, if there are any runs."""

__all__ = ["SECTIONS", "what_was_run"]
