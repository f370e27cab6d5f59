"""The sections of the page, in their order.

A section is a function from the report's data to a PageSection, or None if it has nothing to show.
To add one, write the function and add it to SECTIONS.
"""

from collections.abc import Callable

from skerry.report.page.blocks import PageSection
from skerry.report.page.report_data import ReportData
from skerry.report.page.sections.advice import advice_section
from skerry.report.page.sections.fleet import labels_section, network_section
from skerry.report.page.sections.measured import (
    consensus_section,
    cost_section,
    curves_section,
    devices_section,
    gaps_section,
    stepsizes_section,
    winners_section,
    wins_section,
)
from skerry.report.page.sections.overview import runs_section
from skerry.report.page.sections.provenance import provenance_section, recipe_section
from skerry.report.page.sections.theory import theory_section

SECTIONS: tuple[Callable[[ReportData], PageSection | None], ...] = (
    advice_section,
    winners_section,
    curves_section,
    consensus_section,
    cost_section,
    gaps_section,
    wins_section,
    stepsizes_section,
    devices_section,
    network_section,
    labels_section,
    theory_section,
    provenance_section,
    recipe_section,
)
"""The sections after `runs_section`, shown if there are any runs."""

__all__ = ["SECTIONS", "runs_section"]
