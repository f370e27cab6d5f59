"""The reproduction in two minutes: what came out again, what did not, under which scoring, how
sure, and why."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from skerry.report.text import Sheet
from skerry_paper.curve_statements import findings
from skerry_paper.protocol import SCORED, SHOWN_SCORINGS, SHOWN_TIMINGS, STATED, TIMED
from skerry_paper.study import Study
from skerry_paper.views.conclusions import (
    CLOSE,
    SHOWN,
    Found,
    Lead,
    Leads,
    all_leads,
    closest_sheet,
    decides,
    found_agreements,
    front_line,
    leads_sheet,
    verdicts,
)
from skerry_paper.views.conclusions import LEADS as LEADS_NOTE
from skerry_paper.views.formatting import dataset_words, tried_in_words
from skerry_paper.views.timing import ALL_SAMPLES
from skerry_paper.views.variants import OTHERS, USUAL, changes, in_points
from skerry_paper.views.view import View

Parts = Sequence[str | Sheet]

NOTHING_RUN = "No table of the paper has been run here."
TIMING = (
    '- **Timing.** The appendix states that each map shows the gap "after T = 100 rounds", and the '
    'gaps that its text quotes "at T = 100" are cells of Table 6. So every number here is given at '
    "the final round first; the mean over the last 20 rounds stands beside it, because a single "
    "round jumps, and because devices stand differently at the end of a period than after a server "
    "round. If the paper scored its final round, what fits the last 20 rounds is luck; if it "
    "smoothed, its text leaves that out."
)
YARDSTICK = (
    "- **Yardstick.** Signs alone prove little: most printed gaps favour S2S, so that always "
    "saying S2S meets most of them. Protocols are ranked by their distance from the printed gaps, "
    "with their rank correlation, and stand beside guesses that need no runs."
)
WHY = (
    "- **Why.** What is scored: S2S leaves devices with models of their own, which are good on "
    "labels like their own, while S2A gives all of them one model. When: after a server round "
    "S2A's devices have lost what they knew of their own labels, and win it back until the next. "
    "And with how large steps: the error of S2S grows with the square of the stepsize, that of S2A "
    "with the stepsize, so that small ones favour S2S; the paper tunes within a range whose upper "
    "end is the best almost everywhere ([stepsizes](protocol.md))."
)


def headline(studies: Mapping[str, Study]) -> Parts:
    """For a front page: how close one comes, what decides, who leads."""
    found = found_agreements(studies)
    if not found:
        return (NOTHING_RUN,)
    leads = all_leads(studies, found)
    close = closest_sheet(studies, found)
    return front_line(found), close, CLOSE, decides(leads), leads_sheet(leads), LEADS_NOTE


def in_two_minutes(
    studies: Mapping[str, Study], views: Mapping[str, View], curves: Mapping[str, Study]
) -> Parts:
    """Of the studies that meet printed cells; `curves` may have others, for what server rounds
    take."""
    found = found_agreements(studies)
    if not found:
        return (NOTHING_RUN,)
    leads = all_leads(studies, found)
    lines = [
        "- **Reproduced.** What the theory says exactly: "
        f"{_lower(views['fig14'].verdict)} Of what the text reads off the bounds: "
        f"Figure 1, {_lower(views['fig1'].verdict)} Figure 6, {_lower(views['fig6'].verdict)}",
        f"- **Reproduced under some scorings.** {_main_claim(leads)}",
        "- **How close the printed numbers come out:**",
        *(f"  {line}" for line in verdicts(studies, found)),
        *_drops(curves),
        TIMING,
        YARDSTICK,
        f"- **How sure.** {_how_sure(studies, found)}",
        *_other_ways(curves),
        WHY,
    ]
    return (
        front_line(found),
        "\n".join(lines),
        closest_sheet(studies, found),
        CLOSE,
        decides(leads),
        leads_sheet(leads),
        LEADS_NOTE,
    )


def _drops(studies: Mapping[str, Study]) -> Iterator[str]:
    """The paper sees S2A drop in every server round; how much, under both scorings."""
    parts = []
    for scoring in SHOWN_SCORINGS:
        lost = {one.key: one for one in findings("fig9", studies, scoring)}
        s2s, s2a = (lost.get(f"fig9_r3_drop_{name}") for name in ("s2s", "s2a"))
        if s2s and s2a and s2s.ours == s2s.ours and s2a.ours == s2a.ours:
            parts.append(
                f"{SCORED[scoring]} {s2a.ours:z.1f} points under S2A, {s2s.ours:z.1f} under S2S "
                f"({s2a.note})"
            )
    if parts:
        yield (
            "- **Reproduced.** The drops of S2A at every server round (CIFAR-10, islands that "
            f"differ, H = 20): {'; '.join(parts)}."
        )


def _main_claim(leads: Leads) -> str:
    """Where S2S leads on islands that differ, and where not."""
    told: dict[str, list[str]] = {"S2S": [], "S2A": [], "neither": []}
    for row in leads:
        if row[0].inter == "non-iid":
            for lead, where in _by_scoring(row):
                told[lead].append(f"{dataset_words(row[0].dataset)}, {where}")
    words = {"S2S": "S2S leads on", "S2A": "S2A leads on", "neither": "neither leads on"}
    parts = [f"{words[name]} {'; '.join(there)}" for name, there in told.items() if there]
    return (
        "The main claim, S2S where islands differ, over all cells that were run: "
        f"{'. '.join(part[0].upper() + part[1:] for part in parts)}."
    )


def _by_scoring(row: Sequence[Lead]) -> Iterator[tuple[str, str]]:
    """The leader, and under what; timings that agree are told at once."""
    found: dict[str, dict[str, list[str]]] = {}
    for lead, shown in zip(row, SHOWN, strict=True):
        by_leader = found.setdefault(SCORED[shown.scoring], {})
        by_leader.setdefault(lead.leader, []).append(TIMED[shown.timing])
    for scoring, leaders in found.items():
        for leader, timings in leaders.items():
            both = len(timings) == len(SHOWN_TIMINGS)
            yield leader, f"{scoring} ({'both timings' if both else timings[0]})"


def _how_sure(studies: Mapping[str, Study], found: Found) -> str:
    parts = []
    for dataset, ranked in found.items():
        runs = pd.concat([one.of(dataset=dataset).runs for one in studies.values()])
        scorings = sum(one.timing == STATED for one in ranked)
        parts.append(
            f"{dataset_words(dataset)}: {len(runs):,} runs, {tried_in_words(runs)}; the closest is "
            f"picked of {scorings} protocols at each timing, so that among near ones chance decides"
        )
    return (
        f"{'. '.join(parts)}. Intervals are over seeds. On CIFAR-10 rounding alone sends single "
        "runs elsewhere; `variants` tells what it does to means."
    )


def _other_ways(studies: Mapping[str, Study]) -> Iterator[str]:
    """What hangs on the network, on rounding and on the samples that devices are scored on."""
    told, clear = [], 0
    for name, words in {**OTHERS, ALL_SAMPLES: "devices scored on all test samples"}.items():
        if not {name, USUAL} <= studies.keys():
            continue
        found = changes(studies, name)
        at_the_end = {SCORED[s]: one for (s, timing), one in found.items() if timing == STATED}
        if at_the_end:
            gaps = (f"{scoring} {in_points(one)}" for scoring, one in at_the_end.items())
            pairs = max(one.gap.count for one in at_the_end.values())
            told.append(f"{words}: {', '.join(gaps)} ({pairs} pairs)")
            clear += sum(
                abs(one.gap.mean) > 2 * one.gap.standard_error for one in at_the_end.values()
            )
    if told:
        beyond = f"{clear} of them exceed" if clear else "None of them exceeds"
        yield (
            "- **Done otherwise.** CIFAR-10, by how many points the gap of the final round "
            f"changes, ± standard error. {'; '.join(told)}. {beyond} two standard errors."
        )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
