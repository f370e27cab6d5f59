"""The view of a target: its verdict, tables and figures, made from studies alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from skerry.errors import skerry_command
from skerry.report.style import paper
from skerry_paper.plans import PLANS
from skerry_paper.study import Studies
from skerry_paper.targets import Kind, Target
from skerry_paper.views.accuracies import accuracies_view
from skerry_paper.views.aggregates import aggregates_view
from skerry_paper.views.blend import blend_view
from skerry_paper.views.bound_claims import bounds_view
from skerry_paper.views.conventions import conventions_view
from skerry_paper.views.curves import learning_curves_view, server_rounds_view
from skerry_paper.views.drops import drops_view
from skerry_paper.views.formatting import dataset_name
from skerry_paper.views.gap_maps import gap_maps_view
from skerry_paper.views.gap_tables import gap_tables_view
from skerry_paper.views.guidelines import guidelines_view
from skerry_paper.views.protocols import protocols_view
from skerry_paper.views.stepsizes import stepsizes_view
from skerry_paper.views.timing import timing_view
from skerry_paper.views.variants import variants_view
from skerry_paper.views.view import View

VIEWS: dict[Kind, Callable[[Target, Studies], View]] = {
    "bounds": bounds_view,
    "accuracies": accuracies_view,
    "gap tables": gap_tables_view,
    "aggregates": aggregates_view,
    "gap maps": gap_maps_view,
    "learning curves": learning_curves_view,
    "server rounds": server_rounds_view,
    "protocols": protocols_view,
    "blend": blend_view,
    "timing": timing_view,
    "stepsizes": stepsizes_view,
    "drops": drops_view,
    "variants": variants_view,
    "guidelines": guidelines_view,
    "conventions": conventions_view,
}
NEED_THEIR_OWN_RUNS: tuple[Kind, ...] = ("timing", "stepsizes", "drops", "variants", "conventions")
"""Views that show nothing if only the studies of other targets are available."""


def view_of(target: Target, studies: Studies) -> View:
    """The view of a target from the available studies; missing studies are named in it."""
    shown = dict.fromkeys((*target.studies, *target.also_shows))
    available = {n: studies[n] for n in shown if n in studies and len(studies[n].runs)}
    missing = [name for name in target.studies if name not in available]
    if missing == list(target.studies) != [] and (
        target.kind in NEED_THEIR_OWN_RUNS or not available
    ):
        return View(target, "Not run here.", (_how_to_run(missing, target),))
    with paper():
        view = VIEWS[target.kind](target, available)
    return replace(view, parts=(*view.parts, _how_to_run(missing, target))) if missing else view


def _how_to_run(missing: Sequence[str], target: Target) -> str:
    """Which studies are missing, and the command that makes them."""
    about = "; ".join(PLANS[name].about for name in missing)
    datasets = list(dict.fromkeys(PLANS[name].dataset for name in missing))
    # The command takes one data set.
    each = (skerry_command("reproduce", target.name, dataset=name) for name in datasets)
    text = f"Missing: {about}. To make it: `{' && '.join(each)}`."
    if "cifar100" not in datasets:
        return text
    fetch = partial(skerry_command, "data", "fetch")
    return (
        f"{text} {dataset_name('cifar100')} needs its official archive, the binary edition, first: "
        f"`{fetch('cifar100')}`, or, from a downloaded file, "
        f"`{fetch('cifar100', path='cifar-100-binary.tar.gz')}`."
    )
