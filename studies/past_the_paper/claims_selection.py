"""Claims on whom the server samples, each beside its control."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from evidence import (
    Array,
    Difference,
    Row,
    differences,
    load,
    plus_minus,
    spread,
    table,
    tuned_values,
    verdict,
)

from skerry.analysis.statistics import estimate
from skerry.theory.counts import law_of_counts
from skerry.theory.participation import exchange_from_law

REGIMES = ("alike", "islands differ", "devices differ", "both differ")
PERIODS = (5, 20)
FLEETS = ("2 islands", "4 islands", "10 islands", "70 and 30", "40, 30, 20, 10")
AVERAGE, OWN = "average_accuracy", "own_accuracy"
WRONG = (0.1, 0.3, 0.5)
FEW = ("s2a", "one_each", 2)
MANY = ("s2a", "uniform", 20)
Server = tuple[str, str | None, int | None]
"""Primitive, selection rule and K."""
NONE: Server = ("none", None, None)


class Selection:
    """The rows of a part of the study of selection rules."""

    def __init__(self, part: str) -> None:
        kept = load("selection", part)
        self.about: dict[str, Any] = kept["about"]
        self.rows: list[Row] = kept["rows"]

    def row(
        self, fleet: str, regime: str, server: Server, H: int | None, **more: Any
    ) -> Row | None:
        """The row of a server on rings; None if it was not run."""
        primitive, rule, K = server
        wanted = {"fleet": fleet, "regime": regime, "primitive": primitive, "selection": rule}
        wanted |= {"sampled": K, "period": None if primitive == "none" else H}
        wanted |= {"topology": "ring", "wrong": None} | more
        found = [r for r in self.rows if all(r.get(k) == v for k, v in wanted.items())]
        return found[0] if found else None

    def values(
        self,
        fleet: str,
        regime: str,
        server: Server,
        H: int | None,
        measure: str = AVERAGE,
        tuned_by: str | None = None,
        **more: Any,
    ) -> Array | None:
        """One score per seed at stepsizes tuned on the other seeds; None if it was not run."""
        row = self.row(fleet, regime, server, H, **more)
        return None if row is None else tuned_values(row[measure], row[tuned_by or measure])


def law() -> Iterator[str]:
    """Table of the exact shares of the disagreement that S2A turns into bias."""
    rows = []
    for K, rule in ((2, "uniform"), (2, "one_each"), (20, "uniform"), (20, "per_component")):
        found = exchange_from_law((50, 50), law_of_counts(rule, (50, 50), K))
        rows.append((str(K), rule, f"{found.kappa_intra:.4f}", f"{found.kappa_inter:.4f}"))
    yield from table(("K", "rule", "of what is inside islands", "of what is between"), rows, left=2)


def law_against_runs(mnist: Selection) -> str:
    """How far measured shares are from the law, over all S2A lanes of MNIST on two rings. Complete
    islands agree, so that sampling both leaves nothing to compare but rounding errors."""
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for row in mnist.rows:
        on_rings = (row["primitive"], row["fleet"], row["topology"]) == ("s2a", "2 islands", "ring")
        if not on_rings or "bias_ratio" not in row:
            continue
        law_of = exchange_from_law(
            (50, 50), law_of_counts(row["selection"], (50, 50), row["sampled"])
        )
        between = np.array(row["inter_share"], dtype=float)
        expected = law_of.kappa_intra * (1 - between) + law_of.kappa_inter * between
        ratio = np.nanmean(np.array(row["bias_ratio"], dtype=float)) / np.nanmean(expected)
        ratios[row["selection"] == "uniform"].append(float(ratio))
    if not ratios[True] or not ratios[False]:
        return ""
    at_random, by_island = (np.array(ratios[one]) for one in (True, False))
    return (
        f" Over all S2A lanes on two rings, MNIST, the measured share divided by that of the law "
        f"is {at_random.mean():.2f} with uniform sampling ({len(at_random)} lanes, "
        f"{at_random.min():.2f} to {at_random.max():.2f}) and {by_island.mean():.2f} with the "
        f"other two rules ({len(by_island)} lanes, {by_island.min():.2f} to "
        f"{by_island.max():.2f})."
    )


COLUMNS: dict[str, Server] = {
    "no server": NONE,
    "S2A, 2 at random": ("s2a", "uniform", 2),
    "S2A, one of each": FEW,
    "S2A, 20 at random": MANY,
    "S2A, 10 of each": ("s2a", "per_component", 20),
}


def few_against_many(mnist: Selection) -> dict[tuple[str, int], Difference]:
    """S2A with one device of each island minus S2A with 20 random devices, average model."""
    return _against(mnist, FEW, MANY)


def few_against_none(mnist: Selection) -> dict[tuple[str, int], Difference]:
    """S2A with one device of each island minus no server, average model."""
    return _against(mnist, FEW, NONE)


def _against(mnist: Selection, one: Server, other: Server) -> dict[tuple[str, int], Difference]:
    places, pairs = [], []
    for regime, H in product(REGIMES, PERIODS):
        ours, theirs = (mnist.values("2 islands", regime, s, H) for s in (one, other))
        if ours is not None and theirs is not None:
            places.append((regime, H))
            pairs.append((ours, theirs))
    return dict(zip(places, differences(pairs), strict=True))


def few_table(mnist: Selection) -> Iterator[str]:
    """Accuracies of the average model with no server, two and twenty sampled devices."""
    gaps = few_against_many(mnist)
    rows = []
    for regime, H in product(REGIMES, PERIODS):
        found = [mnist.values("2 islands", regime, server, H) for server in COLUMNS.values()]
        if any(one is not None for one in found):
            shown = ["" if one is None else f"{estimate(one).mean:.2f}" for one in found]
            gap = gaps[regime, H].told() if (regime, H) in gaps else ""
            rows.append((regime, str(H), *shown, gap))
    yield from table(("data", "H", *COLUMNS, "one of each − 20 at random"), rows, left=2)


WHERE = {
    "Where islands differ and the devices of an island are alike": ("islands differ",),
    "Where all data are alike": ("alike",),
    "Where the devices of an island differ": ("devices differ", "both differ"),
}
"""The regimes in which two sampled devices are compared with twenty."""


def few_title(mnist: Selection) -> str:
    """The claim about two sampled devices that its tests allow."""
    gaps = few_against_many(mnist)
    behind = [one.sign < 0 for (regime, _), one in gaps.items() if regime == "islands differ"]
    if any(behind):
        return "Two devices against twenty"
    return "Two do what twenty do, where islands differ and their devices are alike"


def few_sentences(mnist: Selection) -> str:
    """Where two devices do what twenty do, and where they do not."""
    gaps, bare = few_against_many(mnist), few_against_none(mnist)
    told = []
    for words, regimes in WHERE.items():
        here = [one for (regime, _), one in gaps.items() if regime in regimes]
        if not here:
            continue
        text = (
            f"{words}, two devices, one of each island, are {verdict(here)} than twenty at random "
            f"({spread([one.mean for one in here])} points)"
        )
        none = [one for (regime, _), one in bare.items() if regime in regimes]
        if none:
            text += f"; beside no server they are {verdict(none)}"
            text += f" ({spread([one.mean for one in none])})"
        told.append(f"{text}.")
    return " ".join(told)


# Whether the server must know the islands


def label_values(
    labels: Selection, regime: str, K: int, H: int, wrong: float | None
) -> Array | None:
    """S2A whose server samples as many of every island by labels of which a share is wrong."""
    if wrong is None:
        return labels.values("2 islands", regime, ("s2a", "one_each", K), H)
    return labels.values("2 islands", regime, ("s2a", "believed_islands", K), H, wrong=wrong)


def label_gains(labels: Selection) -> dict[tuple[str, int, int, float], Difference]:
    """Gain of S2A over uniform sampling by regime, K, H and the share of wrong labels."""
    places, pairs = [], []
    for regime, K, H in product(("islands differ", "both differ"), (2, 20), PERIODS):
        usual = labels.values("2 islands", regime, ("s2a", "uniform", K), H)
        for wrong in (0.0, *WRONG):
            ours = label_values(labels, regime, K, H, wrong or None)
            if ours is not None and usual is not None:
                places.append((regime, K, H, wrong))
                pairs.append((ours, usual))
    return dict(zip(places, differences(pairs), strict=True))


def label_table(labels: Selection) -> Iterator[str]:
    gains = label_gains(labels)
    rows = []
    for regime, K, H in dict.fromkeys(place[:3] for place in gains):
        usual = labels.values("2 islands", regime, ("s2a", "uniform", K), H)
        bare = labels.values("2 islands", regime, NONE, None)
        levels = ["" if v is None else f"{estimate(v).mean:.2f}" for v in (bare, usual)]
        told = [gains[regime, K, H, wrong].told() for wrong in (0.0, *WRONG)]
        rows.append((regime, str(K), str(H), *levels, *told))
    header = ("data", "K", "H", "no server", "at random", "labels right")
    yield from table((*header, *(f"{wrong:.0%} wrong" for wrong in WRONG)), rows, left=3)


def label_sentence(labels: Selection) -> str:
    gains = label_gains(labels)
    parts = []
    for wrong in (0.0, *WRONG):
        here = [one for place, one in gains.items() if place[3] == wrong]
        name = "right" if not wrong else f"wrong for {wrong:.0%} of the devices"
        parts.append(
            f"with labels {name} S2A is {verdict(here)} "
            f"({spread([one.mean for one in here])} points)"
        )
    return (
        "The paper objects that a server may not know the islands. Suppose that it has labels, and "
        "a share of them is wrong. Beside uniform sampling, " + "; ".join(parts) + "."
    )


# CIFAR-10 over 1,000 rounds

SHOWN = (100, 300, 500, 700, 900, 1000)
"""The last rounds of the stretches that tables show."""
RULES = ("uniform", "per_component")


def stretch_means(long: Selection, server: Server) -> dict[int, Array]:
    """The average model of each seed in each stretch of 100 rounds, by the last round."""
    row = long.row("2 islands", "islands differ", server, 20)
    assert row is not None
    rounds, curves = np.array(row["round"]), np.array(row[AVERAGE], dtype=float)
    return {
        last: curves[:, (last - 100 < rounds) & (rounds <= last)].mean(axis=1)
        for last in range(100, 1001, 100)
    }


def lead_by_stretch(long: Selection, rule: str) -> dict[int, Difference]:
    """S2S minus S2A with K = 20 by stretches; one family of tests."""
    s2s, s2a = (stretch_means(long, (primitive, rule, 20)) for primitive in ("s2s", "s2a"))
    found = differences([(s2s[last], s2a[last]) for last in s2s])
    return dict(zip(s2s, found, strict=True))


def change_by_stretch(long: Selection) -> dict[int, Difference]:
    """How S2S minus S2A changes when every island is sampled, by stretches."""
    random, each = (lead_by_stretch(long, rule) for rule in RULES)
    found = differences([(each[last].by_seed, random[last].by_seed) for last in random])
    return dict(zip(random, found, strict=True))


def stretch_table(long: Selection) -> Iterator[str]:
    random, each = (lead_by_stretch(long, rule) for rule in RULES)
    change, bare = change_by_stretch(long), stretch_means(long, NONE)
    levels = {name: stretch_means(long, (name, "uniform", 20)) for name in ("s2s", "s2a")}
    rows = [
        (
            f"{last - 99:,} to {last:,}",
            *(f"{estimate(v[last]).mean:.2f}" for v in (bare, levels["s2s"], levels["s2a"])),
            *(found[last].told() for found in (random, each, change)),
        )
        for last in SHOWN
    ]
    header = ("rounds", "no server", "S2S", "S2A", "S2S − S2A", "10 of each island", "change")
    yield from table(header, rows)


def stretch_sentence(long: Selection) -> str:
    """What sampling every island does to S2S minus S2A early and late."""
    change = change_by_stretch(long)
    early, late = change[100], change[1000]

    def words(one: Difference) -> str:
        return f"{plus_minus(one.by_seed)} points{'' if one.sign else ', not clear,'}"

    return (
        "With every island sampled in proportion to its size instead of at random, S2S minus S2A "
        f"changes by {words(early)} in rounds 1 to 100 and by {words(late)} in rounds 901 to 1,000."
    )


# Own labels, at stepsizes tuned for own labels


def own_leads(
    mnist: Selection, fleet: str, measure: str, tuned_by: str
) -> dict[tuple[int, int], Array]:
    """S2S minus S2A by K and H with uniform sampling, where islands differ."""
    found = {}
    for K, H in product((10, 20), PERIODS):
        s2s, s2a = (
            mnist.values(fleet, "islands differ", (name, "uniform", K), H, measure, tuned_by)
            for name in ("s2s", "s2a")
        )
        if s2s is not None and s2a is not None:
            found[K, H] = s2s - s2a
    return found


SCORINGS = {
    "average model": (AVERAGE, AVERAGE),
    "devices, own labels": (OWN, OWN),
    "own labels, stepsizes tuned for the average model": (OWN, AVERAGE),
}


def winners(mnist: Selection) -> dict[str, dict[str, list[Difference]]]:
    """S2S minus S2A in every setting by scoring and fleet; one family per scoring."""
    found: dict[str, dict[str, list[Difference]]] = {}
    for name, (measure, tuned_by) in SCORINGS.items():
        places, pairs = [], []
        for fleet in FLEETS:
            for gap in own_leads(mnist, fleet, measure, tuned_by).values():
                places.append(fleet)
                pairs.append((gap, np.zeros_like(gap)))
        here: dict[str, list[Difference]] = {}
        for fleet, one in zip(places, differences(pairs), strict=True):
            here.setdefault(fleet, []).append(one)
        found[name] = here
    return found


def ahead(found: Sequence[Difference]) -> str:
    return f"{sum(one.mean > 0 for one in found)} of {len(found)}"


def winners_table(mnist: Selection) -> Iterator[str]:
    found = winners(mnist)
    rows = []
    for fleet in next(iter(found.values())):
        cells = [
            f"{ahead(here[fleet])} ({np.mean([one.mean for one in here[fleet]]):+.2f})"
            for here in found.values()
        ]
        rows.append((fleet, *cells))
    yield from table(("islands", *found), rows)


def winners_sentence(mnist: Selection) -> str:
    found = {
        name: [one for here in by_fleet.values() for one in here]
        for name, by_fleet in winners(mnist).items()
    }
    average, own = (found[name] for name in [*SCORINGS][:2])
    text = (
        f"By the average model S2S is ahead of S2A in {ahead(average)} settings ({verdict(average)}"
        f"); by devices on their own labels in {ahead(own)} ({verdict(own)})."
    )
    fleet = "70 and 30"
    by_own, by_average = (winners(mnist)[name].get(fleet, []) for name in [*SCORINGS][1:])
    if by_own:
        text += (
            " Stepsizes must be tuned for what is scored: on the islands of 70 and 30 devices S2S "
            f"is ahead in {ahead(by_own)} settings by own labels "
            f"({np.mean([one.mean for one in by_own]):+.2f} points), and with stepsizes tuned for "
            f"the average model in {ahead(by_average)} "
            f"({np.mean([one.mean for one in by_average]):+.2f})."
        )
    return text
