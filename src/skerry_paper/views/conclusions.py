"""What the reproduction comes to: which protocol is closest to the printed tables, at both timings
and beside guesses that need no runs; and who leads where."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skerry.analysis.statistics import estimate, moments
from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper.agreement import (
    ALWAYS_S2S,
    NEARLY_ALL,
    ZERO,
    Agreement,
    agreement,
    agreements,
    guesses,
    printed_of,
)
from skerry_paper.printed import TABLE_AXES
from skerry_paper.protocol import (
    SCORED,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    STATED,
    TELLING,
    TIMED,
    Protocol,
    TableGrid,
    as_shown,
    gaps,
    table_runs,
)
from skerry_paper.study import Study, Timing
from skerry_paper.views.formatting import (
    SYMBOLS,
    agreement_cells,
    dataset_words,
    give_or_take,
    out_of,
    plain_number,
    signs,
)

Ranked: TypeAlias = Mapping[Protocol, Agreement]
"""The closest first."""
Found: TypeAlias = Mapping[str, Ranked]
"""By data set."""

DECIDES = {True: "What is scored decides who wins.", False: "Both scorings agree on who wins."}
CHOOSE = (
    "Who wants devices that know their own labels chooses by the columns of own labels; who wants "
    "one model that knows all labels, by those of the average model."
)
LEADS = (
    "Leads are means over all cells with K < n, in points, ± 95 % interval over seeds, at the best "
    f"stepsize tried for each cell and primitive; within {TELLING:g} points or their interval they "
    "count as none. In brackets: the cells in which the leader is ahead. Final: after 100 rounds, "
    "the timing that the paper states; last 20: the mean over the last 20 rounds."
)
ISLANDS = {"non-iid": "differ", "iid": "alike"}


def found_agreements(studies: Mapping[str, Study]) -> Found:
    """Every protocol that meets a printed cell."""
    every = list(studies.values())
    datasets = dict.fromkeys(name for study in every for name in study.runs["dataset"])
    found = {
        name: {protocol: one for protocol, one in agreements(every, name).items() if one.cells}
        for name in datasets
    }
    return {name: ranked for name, ranked in found.items() if ranked}


def at_timing(ranked: Ranked, timing: Timing) -> Ranked:
    return {one: met for one, met in ranked.items() if one.timing == timing}


# Who leads


@dataclass(frozen=True)
class Lead:
    """Who is ahead on a data set, over all cells of an inter split."""

    dataset: str
    inter: str
    mean: float
    half: float
    """Of its 95 % interval over seeds: what a seed does to all cells counts once."""
    ahead: int
    cells: int

    @classmethod
    def of(cls, studies: Sequence[Study], dataset: str, inter: str, protocol: Protocol) -> "Lead":
        grid = TableGrid.of(table_runs(studies), protocol.scaling)
        asked = (grid.cells["inter"] == inter) & (grid.cells["share"] < 1)
        gap_cs = grid.gaps_by_seed(protocol)[asked.to_numpy(bool)]
        gap_c, gap_s = moments(gap_cs)[0], moments(gap_cs.T)[0]
        gap_c = gap_c[np.isfinite(gap_c)]
        over_seeds = estimate(gap_s)
        ahead = int((gap_c * over_seeds.mean > 0).sum())
        return cls(dataset, inter, over_seeds.mean, over_seeds.half_width, ahead, len(gap_c))

    @property
    def leader(self) -> str:
        """Where the lead is beyond the rounding of the printed tables and beyond its interval."""
        if abs(self.mean) <= TELLING or abs(self.mean) <= self.half:
            return "neither"
        return "S2S" if self.mean > 0 else "S2A"

    @property
    def words(self) -> str:
        """`S2S by 0.49 ± 0.08 (94 of 96)`."""
        if not self.cells:
            return "not run"
        size = plus_minus(abs(self.mean), self.half, ".2f", ".2f")
        if self.leader == "neither":
            return f"neither ({size})"
        return f"{self.leader} by {size} ({out_of(self.ahead, self.cells)})"


Leads: TypeAlias = Sequence[Sequence[Lead]]
SHOWN = [as_shown(scoring, timing) for timing in SHOWN_TIMINGS for scoring in SHOWN_SCORINGS]


def all_leads(studies: Mapping[str, Study], found: Found) -> Leads:
    """A row per data set and split of the islands, a lead under each scoring and timing."""
    rows = []
    for dataset in found:
        those = [one.of(dataset=dataset) for one in studies.values()]
        rows += [[Lead.of(those, dataset, inter, one) for one in SHOWN] for inter in ISLANDS]
    return rows


def leads_sheet(leads: Leads) -> Sheet:
    rows = tuple(
        (dataset_words(row[0].dataset), ISLANDS[row[0].inter], *(one.words for one in row))
        for row in leads
    )
    header = ("data set", "islands", *(one.short for one in SHOWN))
    return Sheet("Who leads", header, rows, "ll" + "l" * len(SHOWN))


def decides(leads: Leads) -> str:
    """Whether S2S leads under one scoring and S2A under the other, somewhere at one timing."""
    at_once = [
        {one.leader for one, shown in zip(row, SHOWN, strict=True) if shown.timing == timing}
        for row in leads
        for timing in SHOWN_TIMINGS
    ]
    return f"**{DECIDES[any({'S2S', 'S2A'} <= leaders for leaders in at_once)]}** {CHOOSE}"


# What is closest


def closest_sheet(studies: Mapping[str, Study], found: Found) -> Sheet:
    """By data set: the closest protocol at each timing, what the paper states (the final round,
    stepsizes tuned) under both scorings, and guesses."""
    rows = []
    for dataset, ranked in found.items():
        printed = printed_of(dataset)
        those = [one.of(dataset=dataset) for one in studies.values()]
        parts: dict[tuple[str, str], Agreement] = {}
        for scoring in SHOWN_SCORINGS:
            met = agreement(gaps(those, as_shown(scoring)), printed)
            parts["as stated: final round, tuned", SCORED[scoring]] = met
        for timing in SHOWN_TIMINGS:
            for protocol, met in [*at_timing(ranked, timing).items()][:1]:
                parts[f"closest, {TIMED[timing]}", _how(protocol)] = met
        guessed = guesses(printed)
        parts |= {(name, NOTHING): guessed[name] for name in (ALWAYS_S2S, ZERO)}
        name = dataset_words(dataset)
        for key, met in parts.items():
            away, *others = agreement_cells(met)[:3]
            rows.append((name, *key, away, plain_number(met.without_noise), *others))
    header = ("data set", "", "scored", "distance", "without noise", "ranks", "signs")
    return Sheet("How close one comes to the printed gaps", header, tuple(rows), "lllrrrr")


CLOSE = (
    "Distance: root mean square difference from the printed gaps, in points; ranks: Spearman's "
    "correlation with them; both ± half of the 95 % interval over seeds. Without noise: less what "
    "our own standard errors add to the distance, about what many more seeds would come to. Signs: "
    f"of printed gaps beyond {TELLING:g} points. Always S2S has the one gap for all cells that "
    "comes closest; zero is no gap at all: what does not beat them says nothing of how large gaps "
    "are, whatever it says of their order."
)


def front_line(found: Found) -> str:
    """Where, at the stated timing, something beats predicting zero, and where nothing does."""
    told: dict[bool, list[str]] = {True: [], False: []}
    for dataset, ranked in found.items():
        zero = guesses(printed_of(dataset))[ZERO]
        for met in [*at_timing(ranked, STATED).values()][:1]:
            told[met.beats(zero)].append(
                f"{dataset_words(dataset)} ({plain_number(met.rms)} against "
                f"{plain_number(zero.rms)} points)"
            )
    parts = []
    if told[False]:
        parts.append(
            "no way of scoring comes clearly closer to the printed gaps than predicting zero on "
            f"{' and '.join(told[False])}"
        )
    if told[True]:
        parts.append(f"some do on {' and '.join(told[True])}")
    return f"**After 100 rounds, the timing that the paper states, {'; '.join(parts)}.**"


def _how(protocol: Protocol) -> str:
    scored, _, *others = protocol.words.split("; ")
    return "; ".join((scored, *others))


def verdicts(studies: Mapping[str, Study], found: Found) -> Iterator[str]:
    """A line per data set and timing: whether any protocol beats what needs no runs; at the stated
    timing also with stepsizes tuned, which the paper states too."""
    for dataset, ranked in found.items():
        guessed = guesses(printed_of(dataset))
        for timing in SHOWN_TIMINGS:
            if there := at_timing(ranked, timing):
                told = [_verdict(there, guessed), *_by_table(studies, dataset, next(iter(there)))]
                if timing == STATED:
                    told.append(_tuned(studies, dataset))
                yield f"- {dataset_words(dataset)}, {_when(timing)}: {' '.join(told)}"


def _tuned(studies: Mapping[str, Study], dataset: str) -> str:
    """The two scorings that tables show, as the paper states its stepsizes."""
    those = [one.of(dataset=dataset) for one in studies.values()]
    found = {
        scoring: agreement(gaps(those, as_shown(scoring)), printed_of(dataset))
        for scoring in SHOWN_SCORINGS
    }
    told = (f"{SCORED[name]} {give_or_take(met.rms, met.rms_half)}" for name, met in found.items())
    return f"With stepsizes tuned, as it states too: {', '.join(told)}."


def _by_table(studies: Mapping[str, Study], dataset: str, protocol: Protocol) -> Iterator[str]:
    """Where a protocol beats one gap for all cells in one table of a data set, but not in the
    other."""
    found = gaps([one.of(dataset=dataset) for one in studies.values()], protocol)
    told: dict[bool, str] = {}
    for name, printed in printed_of(dataset).groupby("table"):
        met, always = agreement(found, printed), guesses(printed)[ALWAYS_S2S]
        told[met.beats(always)] = (
            f"along {SYMBOLS[TABLE_AXES[str(name)]]} ({give_or_take(met.rms, met.rms_half)} "
            f"against {plain_number(always.rms)})"
        )
    if len(told) > 1:
        yield f"Table by table it beats one gap for all cells {told[True]}, not {told[False]}."


def _when(timing: Timing) -> str:
    return f"{TIMED[timing]}{', as the paper states it' if timing == STATED else ''}"


def _verdict(ranked: Ranked, guessed: Mapping[str, Agreement]) -> str:
    protocol, met = next(iter(ranked.items()))
    zero, always = guessed[ZERO], guessed[ALWAYS_S2S]
    told = f"{_how(protocol)}, {give_or_take(met.rms, met.rms_half)} points away"
    bars = f"zero ({plain_number(zero.rms)})", f"one gap for all cells ({plain_number(always.rms)})"
    beaten = [bar for bar, guess in zip(bars, (zero, always), strict=True) if met.beats(guess)]
    if not beaten and met.rms > zero.rms:
        text = (
            f"**no protocol is closer to the printed gaps than {bars[0]}**; the closest is {told}"
        )
        if met.without_noise < zero.rms:
            text += (
                f" ({plain_number(met.without_noise)} without the noise of our own seeds, so that "
                "more of them may bring it closer than zero)"
            )
    elif not beaten:
        text = f"no protocol is clearly closer than {' or '.join(bars)}; the closest is {told}"
    elif len(beaten) == 1:
        (other,) = (bar for bar in bars if bar not in beaten)
        text = (
            f"the closest, {told}, beats {beaten[0]}, but not {other} beyond what seeds leave open"
        )
    else:
        text = f"the closest, {told}, beats {' and '.join(bars)}"
    fullest = max(one.cells for one in ranked.values())
    most = max(
        (one for one in ranked.values() if one.cells > NEARLY_ALL * fullest),
        key=lambda one: one.signs.part if one.signs.of else -1,
    )
    return (
        f"{text}. Of the printed signs protocols meet at best {signs(most)}; always saying S2S, "
        f"{signs(always)}."
    )


def best_by_scoring(ranked: Ranked) -> list[Protocol]:
    """The closest protocol of each scoring."""
    first: dict[str, Protocol] = {}
    for protocol in ranked:
        first.setdefault(protocol.scoring, protocol)
    return list(first.values())


def scorings_sheet(found: Found, timing: Timing) -> Sheet:
    """Each scoring at the stepsize and scaling at which it is closest."""
    rows = [
        (
            dataset_words(dataset),
            SCORED[one.scoring],
            *_stepsize(one),
            *agreement_cells(ranked[one]),
        )
        for dataset, ranked in found.items()
        for one in best_by_scoring(at_timing(ranked, timing))
    ]
    header = (
        "data set",
        "scored",
        "stepsize",
        "inputs",
        "distance",
        "ranks",
        "signs",
        "clear",
        "dashes",
    )
    return Sheet(
        f"Each scoring where it is closest, {TIMED[timing]}", header, tuple(rows), "llllrrrrr"
    )


def _stepsize(protocol: Protocol) -> tuple[str, str]:
    return tuple(protocol.words.split("; ")[2:4])  # type: ignore[return-value]
