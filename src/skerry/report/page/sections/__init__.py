"""The sections of the page, in their order.

A section is a function from the report's data to a PageSection, or None if it has nothing to show.
To add one, write the function and add it to SECTIONS.
"""

from collections.abc import Callable

from skerry.report.page.blocks import PageSection
from skerry.report.page.report_data import ReportData
from skerry.report.page.sections import fleet, measured, overview, provenance, theory, time

SECTIONS: tuple[Callable[[ReportData], PageSection | None], ...] = (
    overview.advice_section,
    overview.runs_section,
    measured.winners_section,
    measured.curves_section,
    measured.consensus_section,
    measured.cost_section,
    time.time_section,
    measured.gaps_section,
    measured.wins_section,
    measured.stepsizes_section,
    measured.devices_section,
    fleet.network_section,
    fleet.labels_section,
    theory.theory_section,
    provenance.provenance_section,
    provenance.recipe_section,
    provenance.terms_section,
)
"""All sections. If there are no runs, only `overview.runs_section` is shown."""
