"""The summary of the reproduction: what came out again, under which scoring, and how certain."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from skerry.report.text import Sheet
from skerry_paper.agreement import Found, all_agreements
from skerry_paper.curve_statements import curve_findings
from skerry_paper.protocol import (
    SCORINGS,
    SHOWN_PROTOCOLS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    STATED,
    TIMINGS,
)
from skerry_paper.study import Studies, for_dataset
from skerry_paper.views import conclusions
from skerry_paper.views.conclusions import LeadSummary, LeadTable
from skerry_paper.views.formatting import dataset_name, describe_tuning, estimate_text
from skerry_paper.views.timing import ALL_SAMPLES
from skerry_paper.views.variants import OTHERS, USUAL, paired_changes
from skerry_paper.views.view import View

Parts = Sequence[str | Sheet]

NOTHING_RUN = "No table of the paper has been run here."
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
    "end is best almost everywhere ([stepsizes](protocol.md))."
)


def _tables(studies: Studies, found: Found) -> Parts:
    leads = conclusions.all_leads(studies, found)
    return (
        conclusions.closest_sheet(studies, found),
        conclusions.CLOSENESS_NOTE,
        conclusions.scoring_sentence(leads),
        conclusions.leads_sheet(leads),
        conclusions.LEADS_NOTE,
    )


def summary_parts(studies: Studies, views: Mapping[str, View], all_studies: Studies) -> Parts:
    """The summary page. `studies` have the cells of the printed tables; `all_studies` may have
    others too."""
    found = all_agreements(studies)
    if not found:
        return (NOTHING_RUN,)
    leads = conclusions.all_leads(studies, found)
    lines = [
        "- **Reproduced.** The exact statements of the theory: "
        f"{_lower(views['fig14'].verdict)} The text's statements about the bounds: "
        f"Figure 1, {_lower(views['fig1'].verdict)} Figure 6, {_lower(views['fig6'].verdict)}",
        f"- **Reproduced under some scorings.** {_main_claim(leads)}",
        "- **Distance from the printed numbers:**",
        *(f"  {line}" for line in conclusions.closeness_sentences(studies, found)),
        *_drops(all_studies),
        TIMING,
        BASELINES,
        f"- **Certainty.** {_certainty(studies, found)}",
        *_variants(all_studies),
        REASONS,
    ]
    return conclusions.front_sentence(found), "\n".join(lines), *_tables(studies, found)


def _drops(studies: Studies) -> Iterator[str]:
    """The accuracy lost in server rounds under both scorings, which the paper reports for S2A."""
    parts = []
    for scoring in SHOWN_SCORINGS:
        found = {one.key: one for one in curve_findings("fig9", studies, scoring)}
        s2s, s2a = (found.get(f"fig9_r3_drop_{name}") for name in ("s2s", "s2a"))
        if s2s and s2a and s2s.ours == s2s.ours and s2a.ours == s2a.ours:
            parts.append(
                f"{SCORINGS[scoring]} {s2a.ours:z.1f} points under S2A, {s2s.ours:z.1f} under S2S "
                f"({s2a.note})"
            )
    if parts:
        yield (
            "- **Reproduced.** The drops of S2A in every server round (CIFAR-10, islands differ, "
            f"H = 20): {'; '.join(parts)}."
        )


def _main_claim(leads: LeadTable) -> str:
    """Sentences on where S2S and S2A lead, on islands with different data."""
    places: dict[str, list[str]] = {"S2S": [], "S2A": [], "neither": []}
    for row in leads:
        if row[0].inter == "non-iid":
            for leader, where in _leaders(row):
                places[leader].append(f"{dataset_name(row[0].dataset)}, {where}")
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
            f"{dataset_name(dataset)}: {len(runs):,} runs, {describe_tuning(runs)}; the closest is "
            f"the best of {count} protocols at each timing, so among close ones chance decides"
        )
    return (
        f"{'. '.join(parts)}. Intervals are over seeds. On CIFAR-10 rounding alone changes single "
        "runs; `variants` shows its effect on means."
    )


def _variants(studies: Studies) -> Iterator[str]:
    """The effect of the network, of rounding and of the number of test samples."""
    parts, clear = [], 0
    for name, words in {**OTHERS, ALL_SAMPLES: "devices scored on all test samples"}.items():
        if not {name, USUAL} <= studies.keys():
            continue
        found = paired_changes(studies, name)
        final = {SCORINGS[s]: one for (s, timing), one in found.items() if timing == STATED}
        if final:
            gaps = (f"{scoring} {estimate_text(one.gap)}" for scoring, one in final.items())
            pairs = max(one.gap.count for one in final.values())
            parts.append(f"{words}: {', '.join(gaps)} ({pairs} pairs)")
            clear += sum(abs(one.gap.mean) > 2 * one.gap.standard_error for one in final.values())
    if parts:
        beyond = f"{clear} of them exceed" if clear else "None of them exceeds"
        yield (
            "- **Variants.** Change of the gap in the final round on CIFAR-10, in points ± "
            f"standard error. {'; '.join(parts)}. {beyond} two standard errors."
        )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
