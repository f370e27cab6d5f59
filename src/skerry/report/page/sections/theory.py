"""The theory of these runs, to play with."""

from skerry.errors import SkerryError
from skerry.report.page.blocks import Section, text, widget
from skerry.report.page.explorer import explorer_start
from skerry.report.page.fleets import fleet_of
from skerry.report.page.study import Study


def theory(study: Study) -> Section:
    run = study.runs[0]
    try:
        fleet = fleet_of(run)
    except SkerryError:
        fleet = None
    return Section(
        "theory",
        "Theory",
        [
            text("What the bounds say about such a fleet. Move a slider to change it."),
            widget("theory", start=explorer_start(run.experiment, fleet)),
        ],
    )
