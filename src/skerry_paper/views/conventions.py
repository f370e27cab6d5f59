"""The printed tables beside runs that follow the conventions of the first author's other code."""

from collections.abc import Sequence

from skerry.report.text import Sheet
from skerry_paper.agreement import ALWAYS_S2S, ZERO, Agreement, baselines
from skerry_paper.conventions import Convention, ConventionRuns, convention_runs, policies
from skerry_paper.protocol import SCORINGS
from skerry_paper.study import Studies
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import Part, View

ABOUT = (
    "The first author's other public code has the network of the paper's appendix to the number "
    "(3,353,034 parameters). It uses a fifth of the samples, deals training and test samples by "
    "one rule, takes a whole minibatch of a device (128 samples, or all that it has) in every "
    "round, and scores each device on its own test samples, as a plain mean over devices. The "
    "paper does not say that it was made with that code. Here `own tests` are the test samples "
    "that a device was dealt; a device without any is scored by its label mix."
)
SCORED = ("own_accuracy", "own_accuracy_weighted", "label_mix_accuracy", "average_accuracy")
NAMES = SCORINGS | {
    "own_accuracy": "devices, own tests",
    "own_accuracy_weighted": "devices, own tests, by samples held",
    "label_mix_accuracy": "devices, label mix",
}
MORE = (
    "[The front page](README.md) has the regimes, and what each convention changes when nothing "
    "else is changed."
)


def conventions_view(target: Target, studies: Studies) -> View:
    """Distances under the conventions, for every scoring and stepsize."""
    found = convention_runs(studies)
    if not found:
        return View(target, "Not run here.", (ABOUT,))
    parts: tuple[Part, ...] = (ABOUT, _distances(found), fmt.AGREEMENT_NOTE, MORE)
    return View(target, " ".join(map(conventions_verdict, found)), parts)


def conventions_verdict(runs: ConventionRuns) -> str:
    """One sentence on the tuned stepsize and the closest one, beside the baselines."""
    base = Convention()
    choices = [one for one in policies(base) if runs.has(one)]
    if not choices:
        return f"{fmt.dataset_name(runs.dataset)}: no printed cell was run."
    met = {one: runs.agreement(one) for one in choices}
    best = min(choices, key=lambda one: met[one].rms)
    zero, always = (baselines(runs.printed)[name] for name in (ZERO, ALWAYS_S2S))
    tuned = f"tuned for each algorithm {_distance(met[base])}, " if base in met else ""
    return (
        f"{fmt.dataset_name(runs.dataset)}, own tests, final round, distance from the printed "
        f"gaps in points: {tuned}at stepsize {best.stepsize_words}, the closest, "
        f"{_distance(met[best])} (signs {fmt.equal_signs(met[best])}); "
        f"zero {zero.rms:.2f}, always S2S {always.rms:.2f} (signs {fmt.equal_signs(always)})."
    )


def _distances(found: Sequence[ConventionRuns]) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for runs in found:
        name = fmt.dataset_name(runs.dataset)
        for scoring in SCORED:
            for one in policies(Convention(scoring=scoring)):
                if runs.has(one):
                    met = runs.agreement(one)
                    cells = (NAMES[scoring], one.stepsize_words, str(met.cells))
                    rows.append((name, *cells, *fmt.agreement_cells(met)))
        for baseline, met in baselines(runs.printed).items():
            rows.append((name, baseline, "", str(met.cells), *fmt.agreement_cells(met)))
    header = ("data set", "scored", "stepsize", "cells", *fmt.AGREEMENT_HEADER)
    title = "A fifth of the samples, final round"
    return Sheet(title, header, tuple(rows), f"lllr{fmt.AGREEMENT_SIDES}")


def _distance(met: Agreement) -> str:
    return fmt.with_interval(met.rms, met.rms_half)
