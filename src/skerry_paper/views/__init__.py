"""From a target and the studies at hand to what is shown; what is missing is said, not raised."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from skerry.report.style import paper
from skerry_paper.plans import PLANS
from skerry_paper.study import Study
from skerry_paper.targets import Kind, Target
from skerry_paper.views.accuracies import accuracies
from skerry_paper.views.aggregates import aggregates
from skerry_paper.views.blend import blend
from skerry_paper.views.bound_claims import bound_claims
from skerry_paper.views.drops import drops
from skerry_paper.views.formatting import dataset_words
from skerry_paper.views.gap_maps import gap_maps
from skerry_paper.views.gap_tables import gap_tables
from skerry_paper.views.guidelines import guidelines
from skerry_paper.views.learning_curves import learning_curves
from skerry_paper.views.protocols import protocol_table
from skerry_paper.views.server_rounds import server_rounds
from skerry_paper.views.stepsizes import stepsizes
from skerry_paper.views.timing import timing
from skerry_paper.views.variants import variants
from skerry_paper.views.view import View

Studies = Mapping[str, Study]

VIEWS: dict[Kind, Callable[[Target, Studies], View]] = {
    "bounds": bound_claims,
    "accuracies": accuracies,
    "gap tables": gap_tables,
    "aggregates": aggregates,
    "gap maps": gap_maps,
    "learning curves": learning_curves,
    "server rounds": server_rounds,
    "protocols": protocol_table,
    "blend": blend,
    "timing": timing,
    "stepsizes": stepsizes,
    "drops": drops,
    "variants": variants,
    "guidelines": guidelines,
}


NEED_THEIR_OWN: tuple[Kind, ...] = ("timing", "stepsizes", "drops", "variants")
"""Views that say nothing of what other targets keep."""


def view_of(target: Target, studies: Studies) -> View:
    """Everything there is to show of a target; studies with runs are enough, no store is read."""
    shown = dict.fromkeys((*target.studies, *target.beside))
    there = {name: studies[name] for name in shown if _has_runs(studies.get(name))}
    absent = [name for name in target.studies if name not in there]
    own = [name for name in target.studies if name in there]
    if target.studies and not own and (target.kind in NEED_THEIR_OWN or not there):
        return View(target, "Not run here.", (_how_to_get(absent, target),))
    with paper():
        view = VIEWS[target.kind](target, there)
    missing = (_how_to_get(absent, target),) if absent else ()
    return replace(view, parts=(*view.parts, *missing))


def _has_runs(study: Study | None) -> bool:
    return study is not None and len(study.runs) > 0


def _how_to_get(absent: Sequence[str], target: Target) -> str:
    """Which studies are missing, and the command that makes them."""
    about = "; ".join(PLANS[name].about for name in absent)
    datasets = list(dict.fromkeys(PLANS[name].dataset for name in absent))
    asked = " ".join(f"--dataset {name}" for name in datasets)
    lines = [f"Missing: {about}. To make it: `skerry reproduce {target.name} {asked}`."]
    if "cifar100" in datasets:
        lines.append(
            f"{dataset_words('cifar100')} needs its official archive, the binary edition, first: "
            "`skerry data fetch cifar100`, or, from a file brought along, "
            "`skerry data fetch cifar100 --path cifar-100-binary.tar.gz`."
        )
    return " ".join(lines)
