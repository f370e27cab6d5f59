"""The front page of the reproduction: the verdict first, then what holds, and what does not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import holm
from skerry.report.text import NOTHING, Sheet
from skerry_paper.agreement import (
    ALWAYS_S2S,
    ZERO,
    Agreement,
    DistanceChange,
    Found,
    all_agreements,
    baselines,
    distance_change,
    printed_of,
)
from skerry_paper.conventions import (
    MIDDLE,
    Convention,
    ConventionRuns,
    convention_runs,
    policies,
    single_changes,
)
from skerry_paper.curve_statements import curve_findings
from skerry_paper.plan import STEPSIZES
from skerry_paper.protocol import (
    SCORINGS,
    SHOWN_PROTOCOLS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    SMALL_GAP,
    STATED,
    TIMINGS,
    Protocol,
    cell_gaps,
)
from skerry_paper.study import Studies, for_dataset
from skerry_paper.views import conclusions
from skerry_paper.views import formatting as fmt
from skerry_paper.views.conclusions import LeadSummary, LeadTable
from skerry_paper.views.timing import ALL_SAMPLES
from skerry_paper.views.variants import OTHERS, USUAL, paired_changes
from skerry_paper.views.view import View

Parts = Sequence[str | Sheet]

NOTHING_RUN = "No table of the paper has been run here."
LARGEST = round(max(STEPSIZES), 6)
NAN = float("nan")
CONVENTIONS = (
    "The paper prints gaps of test accuracy, S2S minus S2A, but does not say which model is scored "
    "on which test data. The first author's other public code has the paper's network to the "
    "number, and one way of scoring: a fifth of the samples, test samples dealt to devices like "
    "the training samples, each device scored on its own, after the final round. `By the "
    "conventions` below means that way; the other rows use all samples, as the paper's text may be "
    "read. The paper does not say that it was made with that code."
)
FRONT_NOTE = (
    "Distance: root mean square difference from the printed gaps, in points, ± half of the 95 % "
    f"interval over seeds. Signs: printed gaps above {SMALL_GAP:g} points with the same sign here. "
    f"Clear: the same, only where our gap is clear (paired t test over seeds, false discovery "
    f"rate {LEVEL}). Tuned: the stepsize of each cell and algorithm is the one with the best "
    "score on the other seeds, among those that were run, so that no run is scored at a stepsize "
    "which it helped to choose. "
    "`zero` predicts no gap and `always S2S` the best single gap for all cells: a row that is not "
    "closer than both does not predict the size of the gaps. A configuration that two tables print "
    "(K/n = 0.2, H = 5) counts once."
)
REGIMES_NOTE = (
    "Mean gaps in points over the printed cells of each regime, a printed dash as 0. Ours are by "
    "the conventions. [What was scored](protocol.md) has every other way of scoring."
)
CHANGES_NOTE = (
    f"Change of the distance in points, ± half of its 95 % interval over seeds, from the "
    f"conventions at stepsize {MIDDLE:.3g}, over the cells and seeds that both have: + is farther "
    f"from the printed gaps. Clear (*): a t test over seeds at level {LEVEL}, with Holm's "
    "correction over the changes of a data set."
)
TIMING = (
    '- **Timing.** The appendix says that each map shows the gap "after T = 100 rounds", and the '
    'gaps that its text quotes "at T = 100" are cells of Table 6. So every number here is first '
    "given at the final round. The mean over the last 20 rounds is also given, because a single "
    "round is noisy, and because the accuracy of devices changes between two server rounds. If the "
    "paper scored the final round, a good fit of the last 20 rounds is chance; if it averaged over "
    "rounds, its text does not say so."
)
BASELINES = (
    "- **Baselines.** Signs alone prove little: most printed gaps favour S2S, so always predicting "
    "S2S matches most signs. Protocols are ranked by their distance from the printed gaps, with "
    "their rank correlation, and are compared with baselines that need no runs."
)
REASONS = (
    "- **Reasons.** What is scored: S2S leaves devices with their own models, which are good on "
    "labels like their own, while S2A gives all devices the same model. When it is scored: in a "
    "server round the devices of S2A lose accuracy on their own labels, and regain it until the "
    "next one. The stepsize: the error of S2S grows with the square of the stepsize, that of S2A "
    "with the stepsize, so small stepsizes favour S2S; the paper tunes within a range whose upper "
    "end is best almost everywhere."
)


def summary_parts(studies: Studies, views: Mapping[str, View], all_studies: Studies) -> Parts:
    """The front page. `studies` have the cells of the printed tables; `all_studies` may have
    others too."""
    found = all_agreements(studies)
    followed = {one.dataset: one for one in convention_runs(all_studies)}
    if not found and not followed:
        return (NOTHING_RUN,)
    datasets = list(dict.fromkeys((*found, *followed)))
    verdicts = [_verdict(name, studies, found, followed.get(name)) for name in datasets]
    parts: list[str | Sheet] = ["\n".join(f"- {one}" for one in verdicts), CONVENTIONS]
    parts += [_distances(datasets, studies, found, followed), FRONT_NOTE]
    if followed:
        parts += [
            _regimes([*followed.values()]),
            REGIMES_NOTE,
            *_differences([*followed.values()], studies),
        ]
    leads = conclusions.all_leads(studies, found)
    holds = [
        "- **Reproduced.** The exact statements of the theory: "
        f"{_lower(views['fig14'].verdict)} The text's statements about the bounds: "
        f"Figure 1, {_lower(views['fig1'].verdict)} Figure 6, {_lower(views['fig6'].verdict)}",
        *([f"- **Reproduced under some scorings.** {_main_claim(leads)}"] if leads else []),
        *_drops(all_studies),
        *_momentum(all_studies),
        "- **Blends, which the paper does not have.** "
        f"{views['blend'].verdict.partition(' Following the theory')[0]}",
    ]
    return *parts, "## What else holds, and what does not", "\n".join(holds)


def detail_parts(studies: Studies, all_studies: Studies) -> Parts:
    """What the front page leaves out: what the closest protocols depend on."""
    found = all_agreements(studies)
    if not found:
        return ()
    lines = [TIMING, BASELINES, f"- **Certainty.** {_certainty(studies, found)}"]
    lines += [*_variants(all_studies), REASONS]
    return ("\n".join(lines),)


# The verdict


class Row(NamedTuple):
    """One way of scoring, and how well it meets the printed gaps."""

    words: str
    stepsize: str
    met: Agreement


def _rows(dataset: str, studies: Studies, found: Found, runs: ConventionRuns | None) -> list[Row]:
    """The conventions tuned and at every stepsize, then all samples under both shown scorings."""
    rows = [
        Row("by the conventions", one.stepsize_words, runs.agreement(one))
        for one in policies()
        if runs is not None and runs.has(one)
    ]
    if dataset in found:
        stated = conclusions.stated_agreements(studies, dataset)
        rows += [Row(f"all samples, {SCORINGS[s]}", "tuned", met) for s, met in stated.items()]
    return rows


def _verdict(dataset: str, studies: Studies, found: Found, runs: ConventionRuns | None) -> str:
    """The verdict on a data set: bold, then the numbers behind it."""
    baseline = baselines(printed_of(dataset))
    rows = _rows(dataset, studies, found, runs)
    first, *others = rows
    closest = min((one for one in others if one.words == first.words), key=_distance, default=None)
    bold = f"with {_at(first.stepsize)}, {_closeness(first.met, baseline)}"
    if closest:
        bold += f"; with {_at(closest.stepsize)} for all, {_closeness(closest.met, baseline)}"
    text = (
        f"**{fmt.dataset_name(dataset)}: {bold}.** "
        f"{first.words[:1].upper() + first.words[1:]}, {_at(first.stepsize)}, our gaps are "
        f"{fmt.with_interval(first.met.rms, first.met.rms_half)} points from the printed ones "
        f"(`zero` {fmt.decimal(baseline[ZERO].rms)}, `always S2S` "
        f"{fmt.decimal(baseline[ALWAYS_S2S].rms)}), with {fmt.equal_signs(first.met)} signs right "
        f"(`always S2S` {fmt.equal_signs(baseline[ALWAYS_S2S])})"
    )
    if first.met.clear.of:
        text += f", {fmt.out_of(*first.met.clear)} where our gap is clear"
    text += f"{_regime_words(runs, Convention())}."
    if closest and runs:
        one = next(one for one in policies() if one.stepsize_words == closest.stepsize)
        tried = ", ".join(row.stepsize for row in rows[1:] if row.words == first.words)
        later = runs.agreement(replace(one, timing="last 20"))
        text += (
            f" Of the stepsizes that were run ({tried}), {closest.stepsize} is the closest, chosen "
            "by the printed gaps themselves: "
            f"{fmt.with_interval(closest.met.rms, closest.met.rms_half)} points, "
            f"{fmt.equal_signs(closest.met)} signs{_regime_words(runs, one)}; as a mean over the "
            f"last 20 rounds {fmt.with_interval(later.rms, later.rms_half)} points and "
            f"{fmt.equal_signs(later)} signs."
        )
    return text


def _distance(row: Row) -> float:
    return row.met.rms


def _at(stepsize: str) -> str:
    return "stepsizes tuned" if stepsize == "tuned" else f"stepsize {stepsize}"


def _closeness(met: Agreement, baseline: Mapping[str, Agreement]) -> str:
    """In words: closer to the printed gaps than both baselines, than one, or than none."""
    zero, always = baseline[ZERO], baseline[ALWAYS_S2S]
    if met.beats(zero) and met.beats(always):
        return "closer to the printed gaps than both baselines"
    if met.beats(zero):
        how = "not clearly closer" if met.rms < always.rms else "no closer"
        return f"closer to the printed gaps than `zero`, {how} than `always S2S`"
    if met.rms < zero.rms:
        return "not clearly closer to the printed gaps than `zero`"
    return "no closer to the printed gaps than `zero`"


def _regime_words(runs: ConventionRuns | None, policy: Convention) -> str:
    """How many regime means have the printed sign, of those above SMALL_GAP."""
    if runs is None or not runs.has(policy):
        return ""
    means = [(theirs, ours) for *_, theirs, ours in runs.regime_means(policy)]
    large = [(theirs, ours) for theirs, ours in means if abs(theirs) > SMALL_GAP]
    same = sum(theirs * ours > 0 for theirs, ours in large)
    return f"; {fmt.out_of(same, len(large))} regime means have the printed sign"


def _distances(
    datasets: Sequence[str],
    studies: Studies,
    found: Found,
    followed: Mapping[str, ConventionRuns],
) -> Sheet:
    rows = []
    for dataset in datasets:
        name = fmt.dataset_name(dataset)
        every = _rows(dataset, studies, found, followed.get(dataset))
        baseline = baselines(printed_of(dataset))
        every += [Row(one, NOTHING, baseline[one]) for one in (ALWAYS_S2S, ZERO)]
        for row in every:
            distance, ranks, signs, clear, _ = fmt.agreement_cells(row.met)
            rows.append((name, row.words, row.stepsize, distance, signs, clear, ranks))
    header = ("data set", "scored", "stepsize", "distance", "signs", "clear", "ranks")
    return Sheet("Distance from the printed gaps, final round", header, tuple(rows), "lllrrrr")


def _regimes(followed: Sequence[ConventionRuns]) -> Sheet:
    rows = []
    for runs in followed:
        run = [one for one in policies() if runs.has(one)]
        means = [{one[:2]: one[2:] for one in runs.regime_means(policy)} for policy in run]
        by_policy = dict(zip(run, means, strict=True))
        for regime in means[0] if means else ():
            ours = (by_policy.get(one, {}).get(regime, (0.0, NAN))[1] for one in policies())
            cells = (fmt.signed_points(value) for value in (means[0][regime][0], *ours))
            rows.append((fmt.dataset_name(runs.dataset), fmt.regime_short(*regime), *cells))
    stepsizes = (_at(one.stepsize_words) for one in policies())
    header = ("data set", "intra / inter", "printed", *stepsizes)
    return Sheet("Mean gap of each regime", header, tuple(rows), "ll" + "r" * (len(header) - 2))


# What each convention changes


def _differences(followed: Sequence[ConventionRuns], studies: Studies) -> Parts:
    """A table of single changes, and a sentence on the clear ones; nothing if there are none."""
    found = {runs.dataset: _changes(runs) for runs in followed}
    found = {dataset: changes for dataset, changes in found.items() if changes}
    if not found:
        return ()
    names = list(dict.fromkeys(what for changes in found.values() for what in changes))
    rows, clear = [], []
    marks = {dataset: _clear(changes) for dataset, changes in found.items()}
    for what in names:
        cells = []
        for dataset, changes in found.items():
            if one := changes.get(what):
                text = fmt.with_error(one.change, one.half)
                cells += [text + " *" * (what in marks[dataset]), str(one.cells)]
            else:
                cells += [NOTHING, NOTHING]
        rows.append((what, *cells))
    for dataset, those in marks.items():
        told = [f"{what} ({fmt.signed_points(found[dataset][what].change)})" for what in those]
        clear.append(f"{fmt.dataset_name(dataset)}: {'; '.join(told) or 'none'}")
    columns = (text for name in found for text in (fmt.dataset_name(name), "cells"))
    title = "Which convention makes the difference: one thing changed at a time"
    sheet = Sheet(title, ("what is changed", *columns), tuple(rows), "l" + "rr" * len(found))
    older = [text for runs in followed if (text := _all_samples(runs, studies))]
    return sheet, " ".join((f"{CHANGES_NOTE} Clear changes. {'. '.join(clear)}.", *older))


def _all_samples(runs: ConventionRuns, studies: Studies) -> str:
    """What all samples change by the study of the paper's protocol, where nothing else has them."""
    fifth = Convention(scoring="label_mix_accuracy", stepsize=LARGEST)
    if runs.has(Convention(samples=1.0, stepsize=LARGEST)) or not runs.has(fifth):
        return ""
    usual = Protocol("own_accuracy", STATED, LARGEST, "standard")
    if not (older := studies.get(runs.dataset)):
        return ""
    one = distance_change(runs.gaps(fifth), cell_gaps([older], usual), runs.printed)
    return (
        f"All samples on {fmt.dataset_name(runs.dataset)}, compared with the study {older.name} "
        f"at stepsize {LARGEST:g} (both scored on all test samples, weighted by own labels; "
        f"minibatches there are drawn with replacement): {fmt.with_error(one.change, one.half)} "
        f"points over {one.cells} cells."
    )


def _changes(runs: ConventionRuns) -> dict[str, DistanceChange]:
    base = Convention(stepsize=MIDDLE)
    if not runs.has(base):
        return {}
    ours = runs.gaps(base)
    found = {
        what: distance_change(ours, runs.gaps(other), runs.printed)
        for what, other in single_changes(base).items()
        if other != base and runs.has(other)
    }
    return {what: one for what, one in found.items() if np.isfinite(one.half)}  # several seeds


def _clear(changes: Mapping[str, DistanceChange]) -> list[str]:
    """The clear changes, the largest first: a t test with Holm's correction over all of them."""
    corrected = dict(zip(changes, holm([one.p for one in changes.values()]), strict=True))
    clear = [what for what in changes if corrected[what] <= LEVEL]
    return sorted(clear, key=lambda what: -abs(changes[what].change))


# What else holds


def _momentum(studies: Studies) -> Iterator[str]:
    """What momentum changes of the gap, beside the printed change (Figure 12)."""
    found = {one.key: one for one in curve_findings("fig12", studies, "average_accuracy")}
    change = found.get("fig12_change")
    if change and change.printed and change.ours == change.ours:
        apart = abs(change.ours - change.printed.value) > change.half
        verdict = "Contradicted" if apart else "Reproduced"
        yield (
            f"- **{verdict}.** Momentum on the server leaves the gap as it is "
            f"({change.printed.value_in_words.removesuffix(' p.p.')} points): the average model "
            f"has {fmt.with_error(change.ours, change.half)} "
            "([Figure 12](figures.md#fig12) has both readings of FedAvgM)."
        )


def _drops(studies: Studies) -> Iterator[str]:
    """The accuracy lost in server rounds under both scorings, which the paper reports for S2A."""
    parts, clear = [], False
    for scoring in SHOWN_SCORINGS:
        found = {one.key: one for one in curve_findings("fig9", studies, scoring)}
        s2s, s2a = (found.get(f"fig9_r3_drop_{name}") for name in ("s2s", "s2a"))
        if s2s and s2a and s2s.ours == s2s.ours and s2a.ours == s2a.ours:
            lost = [fmt.with_interval(one.ours, one.half) for one in (s2a, s2s)]
            clear |= s2a.ours > s2a.half
            told = f"{lost[0]} points under S2A, {lost[1]} under S2S"
            parts.append(f"{SCORINGS[scoring]} {told} ({s2a.note})")
    if parts:
        verdict = "Reproduced" if clear else "Seen, but with too few seeds to be clear"
        yield (
            f"- **{verdict}.** The drops of S2A in every server round (CIFAR-10, islands differ, "
            f"H = 20): {'; '.join(parts)}."
        )


def _main_claim(leads: LeadTable) -> str:
    """Sentences on where S2S and S2A lead, on islands with different data."""
    places: dict[str, list[str]] = {"S2S": [], "S2A": [], "neither": []}
    for row in leads:
        if row[0].inter == "non-iid":
            for leader, where in _leaders(row):
                places[leader].append(f"{fmt.dataset_name(row[0].dataset)}, {where}")
    words = {"S2S": "S2S leads on", "S2A": "S2A leads on", "neither": "Neither leads on"}
    parts = [f"{words[name]} {'; '.join(where)}" for name, where in places.items() if where]
    return (
        "The main claim is that S2S is better where islands differ. Over all cells that were run: "
        f"{'. '.join(parts)}."
    )


def _leaders(row: Sequence[LeadSummary]) -> Iterator[tuple[str, str]]:
    """The leader under each scoring and timing; timings that agree are joined."""
    found: dict[str, dict[str, list[str]]] = {}
    for lead, protocol in zip(row, SHOWN_PROTOCOLS, strict=True):
        by_leader = found.setdefault(SCORINGS[protocol.scoring], {})
        by_leader.setdefault(lead.leader, []).append(TIMINGS[protocol.timing])
    for scoring, leaders in found.items():
        for leader, timings in leaders.items():
            both = len(timings) == len(SHOWN_TIMINGS)
            yield leader, f"{scoring} ({'both timings' if both else timings[0]})"


def _certainty(studies: Studies, found: Found) -> str:
    parts = []
    for dataset, ranked in found.items():
        runs = pd.concat([one.runs for one in for_dataset(studies, dataset)])
        count = sum(one.timing == STATED for one in ranked)
        parts.append(
            f"{fmt.dataset_name(dataset)}: {len(runs):,} runs, {fmt.describe_tuning(runs)}; the "
            f"closest is the best of {count} protocols at each timing, so among close ones chance "
            "decides"
        )
    return (
        f"{'. '.join(parts)}. Intervals are over seeds. On CIFAR-10 rounding alone changes single "
        "runs; `variants` shows its effect on means."
    )


def _variants(studies: Studies) -> Iterator[str]:
    """The effect of the network, of rounding and of the number of test samples."""
    parts, p_values = [], []
    for name, words in {**OTHERS, ALL_SAMPLES: "devices scored on all test samples"}.items():
        if not {name, USUAL} <= studies.keys():
            continue
        found = paired_changes(studies, name)
        final = {SCORINGS[s]: one for (s, timing), one in found.items() if timing == STATED}
        if final:
            gaps = (f"{scoring} {fmt.estimate_text(one.gap)}" for scoring, one in final.items())
            pairs = max(one.gap.count for one in final.values())
            parts.append(f"{words}: {', '.join(gaps)} ({pairs} pairs)")
            p_values += [one.p for one in final.values()]
    if parts:
        clear = int((holm(p_values) <= LEVEL).sum())
        yield (
            "- **Variants.** Change of the gap in the final round on CIFAR-10, in points ± half of "
            f"its 95 % interval over pairs. {'; '.join(parts)}. {clear or 'None'} of them is clear "
            f"(t test at level {LEVEL}, Holm)."
        )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
