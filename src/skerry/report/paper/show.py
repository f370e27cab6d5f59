"""From a target and the studies at hand to what is shown; what is missing is said, not raised."""

from collections.abc import Callable, Mapping, Sequence

from skerry.paper.plans import PLANS
from skerry.paper.study import Study
from skerry.paper.targets import Target, View
from skerry.report.paper.accuracies import accuracies
from skerry.report.paper.aggregates import aggregates
from skerry.report.paper.blends import blends
from skerry.report.paper.cells import dataset_words
from skerry.report.paper.gap_tables import gap_tables
from skerry.report.paper.heat_maps import heat_maps
from skerry.report.paper.learning_curves import learning_curves
from skerry.report.paper.protocols import protocol_table
from skerry.report.paper.shown import Content, Shown
from skerry.report.paper.theory import theory
from skerry.report.paper.tracked import tracked
from skerry.report.style import paper

Studies = Mapping[str, Study]

VIEWS: dict[View, Callable[[Target, Studies], Content]] = {
    "theory": theory,
    "accuracies": accuracies,
    "gaps": gap_tables,
    "aggregate": aggregates,
    "heat maps": heat_maps,
    "curves": learning_curves,
    "tracked": tracked,
    "protocol": protocol_table,
    "blend": blends,
}


def show(target: Target, studies: Studies) -> Shown:
    """Everything there is to show of a target; studies with runs are enough, no store is read."""
    there = {name: studies[name] for name in target.studies if _has_runs(studies.get(name))}
    absent = [name for name in target.studies if name not in there]
    if target.studies and not there:
        return Shown(target, "Not run here.", (_how_to_get(absent, target),))
    with paper():
        content = VIEWS[target.view](target, there)
    missing = (_how_to_get(absent, target),) if absent else ()
    return Shown(target, content.verdict, (*content.parts, *missing))


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
