"""Write docs/selection/ from the numbers in studies/selection/data: `make docs`.

    python studies/selection/page.py

Every sentence with a number is computed, and so is its verdict: "clear" means a paired t test over
seeds at the level 0.05, with Holm's correction over the column that the difference stands in.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skerry.analysis.compare import Comparison
from skerry.analysis.statistics import estimate
from skerry.theory.participation import exchange_under

sys.path.insert(0, str(Path(__file__).parent))  # for readers that load this file by its path
import kept
from kept import AVERAGE, DEVICES, NO_SERVER, OWN, Study, Values, cell, level, sign, table, told

FOLDER = Path(__file__).parents[2] / "docs" / "selection"
REGIMES = ("islands differ", "both differ", "devices differ", "alike")
REGIME_WORDS = {
    "islands differ": "islands differ; devices of an island are alike",
    "both differ": "islands differ, and devices of an island too",
    "devices differ": "devices differ; islands are alike",
    "alike": "all devices are alike",
}
PERIODS = (5, 20)
PRIMITIVES = ("s2s", "blend(0.5)", "s2a")
WRONG = (0.1, 0.3, 0.5)
SIZES = {
    "2 islands": (50, 50),
    "4 islands": (25,) * 4,
    "10 islands": (10,) * 10,
    "70 and 30": (70, 30),
    "40, 30, 20, 10": (40, 30, 20, 10),
}
STUDIES = ("mnist", "labels", "long", "sleep")
LONG_LANES: dict[str, dict[str, Any]] = {
    "S2S, 20 at random": {"primitive": "s2s", "selection": "uniform", "sampled": 20},
    "S2A, 20 at random": {"primitive": "s2a", "selection": "uniform", "sampled": 20},
    "S2S, 10 of each island": {"primitive": "s2s", "selection": "per_component", "sampled": 20},
    "S2A, 10 of each island": {"primitive": "s2a", "selection": "per_component", "sampled": 20},
    "S2A, 1 of each island": {"primitive": "s2a", "selection": "one_each", "sampled": 2},
    "no server": NO_SERVER,
}


RANDOM_LEAD = ("S2S, 20 at random", "S2A, 20 at random")
EACH_LEAD = ("S2S, 10 of each island", "S2A, 10 of each island")
RULE_GAIN = ("S2A, 10 of each island", "S2A, 20 at random")
SERVER_GAIN = ("S2A, 20 at random", "no server")
HORIZON = (RANDOM_LEAD, EACH_LEAD, RULE_GAIN, SERVER_GAIN, ("S2S, 20 at random", "no server"))


SCORED = {AVERAGE: "the average model", DEVICES: "devices on all data"}


class Server(NamedTuple):
    """Whom the server samples in the tables on S2A."""

    words: str
    selection: str
    sampled: int


TWO, ONE_OF_EACH = Server("2 at random", "uniform", 2), Server("1 of each", "one_each", 2)
TWENTY = Server("20 at random", "uniform", 20)
TEN_OF_EACH = Server("10 of each", "per_component", 20)
SERVERS = (TWO, ONE_OF_EACH, TWENTY, TEN_OF_EACH)


class Results:
    """The kept results of all parts of the study, with the comparisons that the page makes."""

    def __init__(self, folder: Path = kept.DATA) -> None:
        self.mnist, self.labels, self.long = (Study(name, folder) for name in STUDIES[:3])
        self.sleep: dict[str, Any] = json.loads((folder / "sleep.json").read_text("utf-8"))

    def abouts(self) -> dict[str, dict[str, Any]]:
        """How each part was made."""
        found = (self.mnist.about, self.labels.about, self.long.about, self.sleep["about"])
        return dict(zip(STUDIES, found, strict=True))

    def s2a(self, regime: str, period: int, server: Server, measure: str = AVERAGE) -> Values:
        return self.mnist.values(
            measure,
            regime=regime,
            primitive="s2a",
            period=period,
            selection=server.selection,
            sampled=server.sampled,
        )

    def no_server(self, regime: str, fleet: str = "2 islands", measure: str = AVERAGE) -> Values:
        return self.mnist.values(measure, fleet=fleet, regime=regime, **NO_SERVER)

    @cached_property
    def few_for_many(self) -> dict[tuple[str, int, str, str], Comparison]:
        """By regime, period, measure and question: 1 of each island under S2A beside its controls;
        "each" is 10 of each island beside 20 at random. A question is one family of tests, over
        both measures."""
        pairs = {}
        for regime, H, measure in product(REGIMES, PERIODS, (AVERAGE, DEVICES)):
            two, few, many, each = (self.s2a(regime, H, one, measure) for one in SERVERS)
            place = (regime, H, measure)
            pairs[*place, "many"] = few, many
            pairs[*place, "few"] = few, two
            pairs[*place, "none"] = few, self.no_server(regime, measure=measure)
            pairs[*place, "each"] = each, many
        return kept.by_column(pairs)

    def believed(self, regime: str, H: int, K: int, wrong: float, primitive: str) -> Values:
        """Accuracy with labels of which a share is wrong; 0: `one_each` by the true islands."""
        rule: dict[str, Any] = {"selection": "one_each"}
        if wrong:
            rule = {"selection": "believed_islands", "wrong": wrong}
        return self.labels.values(regime=regime, period=H, sampled=K, primitive=primitive, **rule)

    def uniform(self, regime: str, H: int, K: int, primitive: str) -> Values:
        return self.labels.values(
            regime=regime, period=H, sampled=K, selection="uniform", primitive=primitive
        )

    def label_gains(self, primitive: str) -> dict[tuple[str, int, int, float], Comparison]:
        """By regime, H, K and share of wrong labels: what labels give over uniform sampling."""
        pairs = {
            (regime, H, K, wrong): (
                self.believed(regime, H, K, wrong, primitive),
                self.uniform(regime, H, K, primitive),
            )
            for regime in REGIMES[:2]
            for K in (2, 20)
            for H in PERIODS
            for wrong in (0.0, *WRONG)
        }
        return kept.by_column(pairs)

    def pooled_label_gains(self, primitive: str) -> dict[tuple[int, float], Comparison]:
        """By K and share of wrong labels: the gain of `label_gains`, in each seed the mean over
        both regimes and both periods. All eight are one family of tests."""
        places = list(product(REGIMES[:2], PERIODS))
        pairs = {
            (K, wrong): (
                np.mean([self.believed(r, H, K, wrong, primitive) for r, H in places], axis=0),
                np.mean([self.uniform(r, H, K, primitive) for r, H in places], axis=0),
            )
            for K in (2, 20)
            for wrong in (0.0, *WRONG)
        }
        return dict(zip(pairs, kept.differences(list(pairs.values())), strict=True))

    @cached_property
    def horizon(self) -> dict[tuple[str, str], list[Comparison]]:
        """Differences on CIFAR-10 by stretch of 100 rounds; each list is one family of tests."""
        found = {}
        for new, old in HORIZON:
            pairs = zip(*(kept.stretches(self.long_row(x)).T for x in (new, old)), strict=True)
            found[new, old] = kept.differences(list(pairs))
        return found

    def long_row(self, lane: str) -> kept.Row:
        period = {} if lane == "no server" else {"period": 20}
        return self.long.row(regime="islands differ", **LONG_LANES[lane], **period)

    def long_score(self, lane: str, measure: str = AVERAGE) -> Values:
        return np.array(self.long_row(lane)["score"][measure], dtype=float)

    @cached_property
    def long_differences(self) -> dict[tuple[str, str], Comparison]:
        """Differences over the last 100 of 1,000 rounds."""
        names = (*HORIZON, ("S2A, 1 of each island", "S2A, 20 at random"))
        pairs = [(self.long_score(new), self.long_score(old)) for new, old in names]
        return dict(zip(names, kept.differences(pairs), strict=True))

    @cached_property
    def leads(self) -> dict[tuple[str, int, str], Comparison]:
        """S2S minus S2A by fleet and period where islands differ, 20 at random: the average model,
        own labels, and own labels at stepsizes that are tuned for the average model."""
        scorings = {"average": (AVERAGE, AVERAGE), "own": (OWN, OWN), "detuned": (OWN, AVERAGE)}
        pairs = {}
        for fleet in SIZES:
            for H in PERIODS:
                for name, (measure, tuned_by) in scorings.items():
                    s2s, s2a = (
                        self.mnist.values(
                            measure, tuned_by, fleet=fleet, regime="islands differ", period=H,
                            selection="uniform", sampled=20, primitive=primitive,
                        )
                        for primitive in ("s2s", "s2a")
                    )  # fmt: skip
                    pairs[fleet, H, name] = s2s, s2a
        return kept.by_column(pairs)


# Words


def interval(found: Comparison) -> str:
    """`between -0.12 and +0.34 points`: the 95 % interval of a difference."""
    return f"between {found.difference.low:+.2f} and {found.difference.high:+.2f} points"


def verdict(found: Comparison) -> str:
    """`+1.23 ± 0.45 points, clear`."""
    return f"{told(found)} points, {'clear' if sign(found) else 'not clear'}"


def counted(found: Sequence[Comparison]) -> str:
    """`clearly ahead in 3 and clearly behind in 1 of 8 cells`."""
    ahead, behind = (sum(sign(one) == way for one in found) for way in (1, -1))
    return f"clearly ahead in {ahead} and clearly behind in {behind} of {len(found)} cells"


def remaining(wrong: float) -> float:
    """The part of uniform sampling's inter-island bias that two islands keep under wrong labels."""
    return 4 * wrong * (1 - wrong)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# The law


def kappas(rule: str, fleet: str, K: int) -> tuple[float, float]:
    """The fractions of disagreement inside and between islands that S2A turns into bias."""
    weights = "stratified" if rule == "one_each" else "equal"
    found = exchange_under(rule, weights, SIZES[fleet], K)
    return found.kappa_intra, found.kappa_inter


def law_table(results: Results) -> list[str]:
    """Exact fractions for two islands of 50 devices, beside what was measured."""
    rows = []
    for regime in REGIMES[:2]:
        for rule, K in (
            ("uniform", 2), ("one_each", 2), ("uniform", 20), ("per_component", 20),
        ):  # fmt: skip
            intra, inter = kappas(rule, "2 islands", K)
            share, ratio = (measured_bias(results, regime, rule, K, n) for n in BIAS_MEASURES)
            expected = intra * (1 - share) + inter * share
            rows.append((
                regime, str(K), rule, f"{intra:.4f}", f"{inter:.4f}", percent(share.mean()),
                f"{expected.mean():.4f}", level(ratio, 4),
            ))  # fmt: skip
    header = (
        "data", "K", "rule", "of what is inside islands", "of what is between islands",
        "share between islands", "expected bias ratio", "measured bias ratio",
    )  # fmt: skip
    return table(header, rows, left=3)


BIAS_MEASURES = ("inter_share", "bias_ratio")


def measured_bias(results: Results, regime: str, rule: str, K: int, measure: str) -> Values:
    """A measure of S2A's server rounds with H = 5, at the stepsizes tuned for the average model."""
    return results.mnist.values(
        measure, AVERAGE, regime=regime, primitive="s2a", selection=rule, sampled=K, period=5
    )


# Two for twenty


def few_table(results: Results, measure: str) -> list[str]:
    rows = []
    for regime, H in product(REGIMES, PERIODS):
        found = [
            cell(results.few_for_many[regime, H, measure, name])
            for name in ("many", "few", "none", "each")
        ]
        levels = [level(results.s2a(regime, H, one, measure)) for one in SERVERS]
        alone = level(results.no_server(regime, measure=measure))
        rows.append((regime, str(H), alone, *levels, *found))
    against = [f"1 of each − {words}" for words in (TWENTY.words, TWO.words, "no server")]
    against.append(f"10 of each − {TWENTY.words}")
    return table(("data", "H", "no server", *(one.words for one in SERVERS), *against), rows, 2)


def detuned_sentence(results: Results) -> str:
    """Where both differ, H = 20: the average model, stepsizes tuned for devices; the edges."""
    fields = [
        {"regime": "both differ", "primitive": "s2a", "period": 20,
         "selection": one.selection, "sampled": one.sampled}
        for one in (ONE_OF_EACH, TWENTY)
    ]  # fmt: skip
    few, many = (results.mnist.values(AVERAGE, DEVICES, **one) for one in fields)
    (found,) = kept.differences([(few, many)])
    edge, rows = results.mnist.edges(DEVICES)
    return (
        "The choice of the stepsize matters here: where both differ and H = 20, the average model "
        f"with 1 of each minus 20 at random is {told(found)} points at stepsizes tuned for devices "
        f"on all data. Tuned so, some seed chooses the first or last stepsize in {edge} of {rows} "
        "lanes, also in this cell: differences on devices depend on the limits of the stepsizes."
    )


# Labels


def labels_table(results: Results, primitive: str) -> list[str]:
    gains, pooled = results.label_gains(primitive), results.pooled_label_gains(primitive)
    rows = []
    for K in (2, 20):
        for regime, H in product(REGIMES[:2], PERIODS):
            alone = level(results.labels.values(regime=regime, **NO_SERVER))
            random = level(results.uniform(regime, H, K, primitive))
            found = [cell(gains[regime, H, K, wrong]) for wrong in (0.0, *WRONG)]
            rows.append((str(K), regime, str(H), alone, random, *found))
        means = [cell(pooled[K, wrong]) for wrong in (0.0, *WRONG)]
        rows.append((str(K), "mean of the four", "", "", "", *means))
    header = ("K", "data", "H", "no server", "at random", "labels right")
    wrong = (f"{percent(share)} wrong" for share in WRONG)
    return table((*header, *wrong), rows, 3)


def labels_law(results: Results) -> list[str]:
    """The part of the inter-island bias that wrong labels leave, beside the measured ratio."""
    rows = []
    for wrong in (0.0, *WRONG):
        cells = []
        for K in (2, 20):
            fields = {"selection": "believed_islands", "wrong": wrong}
            fields = fields if wrong else {"selection": "one_each"}
            share, ratio = (
                results.labels.values(
                    name, AVERAGE, regime="islands differ", primitive="s2a", period=5, sampled=K,
                    **fields,
                )
                for name in BIAS_MEASURES
            )  # fmt: skip
            intra, _ = kappas("one_each", "2 islands", K)
            _, inter = kappas("uniform", "2 islands", K)
            expected = intra * (1 - share) + remaining(wrong) * inter * share
            cells += [f"{expected.mean():.4f}", level(ratio, 4)]
        rows.append((percent(wrong), percent(remaining(wrong)), *cells))
    header = ["labels wrong", "inter-island part left"]
    header += [
        f"K = {K}: {words} bias ratio" for K in (2, 20) for words in ("expected", "measured")
    ]
    return table(header, rows, 0)


# Long runs


def long_table(results: Results) -> list[str]:
    rows = [
        (
            lane,
            f"{results.long_row(lane)['uplink_messages']:,}",
            *(level(results.long_score(lane, measure)) for measure in (AVERAGE, OWN, DEVICES)),
        )
        for lane in LONG_LANES
    ]
    header = (
        "lane",
        "uplink messages",
        "average model",
        "devices, own labels",
        "devices, all data",
    )
    return table(header, rows)


def horizon_table(results: Results) -> list[str]:
    rows = []
    alone = kept.stretches(results.long_row("no server")).T
    for place, values in enumerate(alone):
        found = (cell(column[place]) for column in results.horizon.values())
        rows.append((stretch_words(place), level(values), *found))
    return table(("rounds", "no server", *(f"{new} − {old}" for new, old in HORIZON)), rows)


def stretch_words(place: int) -> str:
    return f"{100 * place + 1:,} to {100 * (place + 1):,}"


def long_differences_table(results: Results) -> list[str]:
    rows = [
        (f"{new} − {old}", cell(found)) for (new, old), found in results.long_differences.items()
    ]
    return table(("last 100 rounds", "average model"), rows)


# Fleets


def leads_table(results: Results) -> list[str]:
    rows = [
        (
            fleet, str(H), *(cell(results.leads[fleet, H, name]) for name in
            ("average", "own", "detuned")), level(results.no_server("islands differ", fleet)),
            level(results.no_server("islands differ", fleet, OWN)),
        )
        for fleet in SIZES
        for H in PERIODS
    ]  # fmt: skip
    header = (
        "islands", "H", "average model", "own labels", "own labels, tuned for the average model",
        "no server: average model", "no server: own labels",
    )  # fmt: skip
    return table(header, rows, 2)


def fleet_table(results: Results, fleet: str, H: int, topology: str = "ring") -> list[str]:
    """Accuracy of the average model by rule and primitive; the last row is without a server."""
    here = [
        r for r in results.mnist.rows
        if (r["fleet"], r["regime"], r["period"], r["topology"])
        == (fleet, "islands differ", H, topology)
    ]  # fmt: skip
    servers = dict.fromkeys((r["sampled"], r["selection"], r["uplink_messages"]) for r in here)
    common = {"fleet": fleet, "regime": "islands differ", "topology": topology}
    rows = [
        (str(K), rule, f"{sent:,}", *(
            level(results.mnist.values(
                primitive=p, sampled=K, selection=rule, period=H, **common))
            for p in PRIMITIVES
        ))
        for K, rule, sent in servers
    ]  # fmt: skip
    alone = level(results.mnist.values(**NO_SERVER, **common))
    rows.append(("0", "no server", "0", *([alone] * len(PRIMITIVES))))
    return table(("K", "rule", "uplink messages", *PRIMITIVES), rows, 2)


def proportion_sentence(results: Results) -> str:
    """What per_component gives S2S over uniform sampling, on equal and on unequal islands."""
    found = {}
    for fleet in ("2 islands", "70 and 30", "40, 30, 20, 10"):
        new, old = (
            results.mnist.values(
                fleet=fleet, regime="islands differ", primitive="s2s", period=5, sampled=10,
                selection=rule,
            )
            for rule in ("per_component", "uniform")
        )  # fmt: skip
        found[fleet] = new, old
    one, *unequal = kept.differences(list(found.values()))
    names = list(found)[1:]
    return (
        "S2S never moves the average, but a sample in proportion to the islands helps it too: with "
        f"K = 10 and H = 5, `per_component` minus `uniform` is {told(one)} points on two equal "
        "islands, "
        + " and ".join(f"{told(d)} on {n}" for n, d in zip(names, unequal, strict=True))
        + "."
    )


# Sleeping devices


def sleep_table(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    primitives = [row["primitive"] for row in next(iter(found.values()))]
    names = {"none": "no server"}
    rows = []
    for name, lanes in found.items():
        finals = [lane["final"] for lane in lanes]
        cells = [
            f"{estimate(one[AVERAGE]).mean:.2f}, {estimate(one[DEVICES]).mean:.2f}"
            for one in finals
        ]
        rows.append((name, *cells))
    return table(("who sleeps", *(f"{names.get(p, p)}" for p in primitives)), rows)


def sleep_sentence(found: dict[str, list[dict[str, Any]]]) -> str:
    """What sleep costs the average model, in points, over all primitives with a server."""
    awake, *others = found.values()
    costs = {
        name: [
            np.mean(np.subtract(a["final"][AVERAGE], b["final"][AVERAGE]))
            for a, b in zip(awake, lanes, strict=True)
            if a["primitive"] != "none"
        ]
        for name, lanes in zip(list(found)[1:], others, strict=True)
    }
    parts = (f"{name}: {min(some):+.2f} to {max(some):+.2f}" for name, some in costs.items())
    return "Cost in points of the average model, over the primitives: " + "; ".join(parts) + "."


# The page


def summary(results: Results) -> Iterator[str]:
    """The findings in two minutes, each with its control."""
    yield (
        "- **An exact law.** S2A replaces every model by the average of the sample. If the sample "
        "has every island in proportion to its size (`per_component`), or weighs islands by their "
        "size (`one_each`), the part of the bias that comes from differences between islands "
        "is zero in every server round. Uniform sampling of 2 of 100 devices turns "
        f"{percent(kappas('uniform', '2 islands', 2)[1])} of these differences into bias, of 20 "
        f"devices {percent(kappas('uniform', '2 islands', 20)[1])}."
    )
    yield from (f"- {few_sentence(results, regime)}" for regime in REGIMES[:2])
    pooled = results.pooled_label_gains("s2a")
    yield (
        "- **If the server has islands wrong** for 0, 10, 30 and 50 % of the devices, S2A by its "
        "labels gains, over uniform sampling with the same K = 2 and on average over both regimes "
        f"and H: {', '.join(verdict(pooled[2, w]) for w in (0.0, *WRONG))}. With K = 20 it is "
        f"{', '.join(told(pooled[20, w]) for w in (0.0, *WRONG))}. Wrong labels never bias the "
        "average: a share w of wrong labels leaves 4w(1 − w) of the inter-island part, "
        f"{', '.join(percent(remaining(w)) for w in (0.0, *WRONG))}."
    )
    yield f"- {long_sentence(results)}"
    own = [results.leads["70 and 30", H, "own"] for H in PERIODS]
    detuned = [results.leads["70 and 30", H, "detuned"] for H in PERIODS]
    yield (
        "- **Own labels need their own stepsizes.** On islands of 70 and 30 devices, S2S minus S2A "
        "on the labels that devices have is "
        + " and ".join(f"{verdict(d)} (H = {H})" for d, H in zip(own, PERIODS, strict=True))
        + " at stepsizes tuned for own labels, and "
        + " and ".join(f"{told(d)}" for d in detuned)
        + " at stepsizes tuned for the average model."
    )


def few_sentence(results: Results, regime: str) -> str:
    """One of each of two islands beside 20 at random and beside no server, by two measures."""
    behind = " and ".join(
        f"clearly for {words} in {count} of {len(PERIODS)} cells"
        for measure, words in SCORED.items()
        for count in [
            sum(sign(results.few_for_many[regime, H, measure, "many"]) < 0 for H in PERIODS)
        ]
    )
    openings = {
        "islands differ": "**Two do what twenty do where devices of an island are alike.**",
        "both differ": f"**Where devices of an island differ too, two fall behind** ({behind}).",
    }
    opening = openings[regime] if holds(results, regime) else f"**Where {regime}.**"
    parts = []
    for measure, words in SCORED.items():
        many, none = (
            ", ".join(
                f"{found(results.few_for_many[regime, H, measure, name])} for H = {H}"
                for H in PERIODS
            )
            for name, found in (("many", verdict), ("none", told))
        )
        parts.append(f"{words} {many} (minus no server: {none})")
    return (
        f"{opening} S2A on MNIST with 1 of each of two islands minus S2A with 20 at random: "
        f"{'; '.join(parts)}."
    )


def holds(results: Results, regime: str) -> bool:
    """Whether the heading of the summary says what the numbers say: where devices of an island are
    alike, two are clearly behind twenty for no H and measure; where both differ, for some."""
    behind = any(
        sign(results.few_for_many[regime, H, measure, "many"]) < 0
        for H, measure in product(PERIODS, (AVERAGE, DEVICES))
    )
    return behind == (regime == "both differ")


def long_sentence(results: Results) -> str:
    """The horizon on CIFAR-10: S2S against S2A, the rule, and the server itself."""
    last, horizon = results.long_differences, results.horizon
    alone = results.long_row("no server")
    behind = [n for n, one in enumerate(horizon[SERVER_GAIN]) if sign(one) < 0]
    return (
        f"**CIFAR-10, {alone['round'][-1]:,} rounds, {len(alone['seeds'])} seeds, one stepsize.** "
        "The lead of S2S over S2A with 20 devices at random goes from "
        f"{told(horizon[RANDOM_LEAD][0])} points in rounds 1 to 100 to {verdict(last[RANDOM_LEAD])}"
        f" in the last 100 (with 10 of each island: from {told(horizon[EACH_LEAD][0])} to "
        f"{verdict(last[EACH_LEAD])}). Sampling every island changes S2A by "
        f"{told(horizon[RULE_GAIN][0])} in the first 100 rounds and by {verdict(last[RULE_GAIN])} "
        "in the last 100. Beside no server, S2A with 20 at random is clearly behind in "
        f"{len(behind)} of {len(horizon[SERVER_GAIN])} stretches of 100 rounds and ends at "
        f"{verdict(last[SERVER_GAIN])}."
    )


def page(results: Results) -> str:
    mnist = results.mnist.about
    edge, rows = results.mnist.edges()
    few = results.few_for_many
    many, each = (
        {m: [few[r, H, m, name] for r in REGIMES for H in PERIODS] for m in (AVERAGE, DEVICES)}
        for name in ("many", "each")
    )
    seeds = len(results.long_row("no server")["seeds"])
    own = [results.leads[fleet, H, "own"] for fleet in SIZES for H in PERIODS]
    average = [results.leads[fleet, H, "average"] for fleet in SIZES for H in PERIODS]
    gains = {name: results.label_gains(name) for name in ("s2a", "s2s")}
    behind = sum(sign(one) < 0 for some in gains.values() for one in some.values())
    tested = sum(map(len, gains.values()))
    parts = [
        "# Whom to sample",
        "",
        "<!-- Written by `python studies/selection/page.py` from studies/selection/data. -->",
        "",
        "Should the server sample devices at random, or from every island? What does the answer "
        "cost a server that does not know the islands well?",
        "",
        "## In two minutes",
        "",
        *summary(results),
        "",
        f"All intervals are 95 % t intervals over seeds ({mnist['seeds']} on MNIST, {seeds} on "
        "CIFAR-10), paired by seed for differences. **Bold** differences are clear: a paired t "
        "test at the level 0.05, with Holm's correction over the column (over the same column of "
        "both tables in the section on two for twenty). On MNIST, the stepsize of "
        "a seed is the one that is best on the other seeds, by the measure that is scored; in "
        f"{edge} of {rows} lanes some seed chooses the first or last stepsize of those that were "
        "run. On CIFAR-10 all lanes have the stepsize 0.1. There are 100 devices. A run on MNIST "
        f"has 100 rounds and is scored by its mean over the last {mnist['window']}.",
        "",
        "**Chosen after the first results were seen**, so to be read as exploration: the table on "
        "devices on all data, the means over four cells of labels, and the last three columns by "
        "stretches. The first look was at the average model, in which two are not clearly behind "
        "twenty where both differ.",
        "",
        "## The law",
        "",
        "Let μ_c be the mean model of island c minus the mean of all devices, D_c the disagreement "
        "inside island c (a sum over its n_c devices), and K_c the number of its sampled devices. "
        "Given the K_c, S2A moves the average by",
        "",
        "```text",
        "E n |x̄ after − x̄ before|²  =  n |Σ_c (K_c/K) μ_c|²  +  (n/K²) Σ_c θ_c D_c,",
        "                               between islands           inside islands",
        "θ_c = K_c (n_c − K_c) / (n_c (n_c − 1)).",
        "```",
        "",
        "In words: the first term is there because a sample has more devices of one island than of "
        "another. If every island is sampled in proportion to its size, K_c/K = n_c/n, and "
        "Σ n_c μ_c = 0: the term is zero for every sample and for all models. With `one_each`, the "
        "weights n_c/n of the islands do the same. The second term is the ordinary error of few "
        "devices within an island. No choice of islands removes it; more devices do. "
        "[Theory](../theory.md) has the other rules. The table has the exact fractions for two "
        "islands of 50, and what was measured on MNIST (H = 5): the share of the disagreement that "
        "lies between islands, and the bias of a server round divided by the disagreement before "
        "it. The expected ratio follows from the exact fractions and the measured share.",
        "",
        *law_table(results),
        "",
        "A measured ratio of uniform sampling with K = 2 varies much, because a sample of two from "
        "one island moves the average by the whole difference, and one of each does not at all.",
        "",
        "## Two for twenty, and where not",
        "",
        "S2A on MNIST, two islands of 50 devices on rings. The average model:",
        "",
        *few_table(results, AVERAGE),
        "",
        "Devices on all data, at stepsizes tuned for that:",
        "",
        *few_table(results, DEVICES),
        "",
        f"One of each island beside 20 at random is {counted(many[AVERAGE])} by the average model "
        f"and {counted(many[DEVICES])} by devices on all data. The law says why it depends on the "
        "data: one device of each island removes the bias between islands, but its bias inside "
        f"islands is that of K = 2 ({kappas('one_each', '2 islands', 2)[0]:.2f} of the "
        f"disagreement inside islands against {kappas('uniform', '2 islands', 20)[0]:.2f} with 20 "
        "at random). Where devices of an island hold different data this part is large. Sampling "
        "10 of each island instead of 20 at random costs nothing more to send; it is "
        f"{counted(each[AVERAGE])} by the average model and {counted(each[DEVICES])} by devices on "
        "all data.",
        "",
        detuned_sentence(results),
        "",
        "![Accuracy of the average model against messages to the server](accuracy-and-uplink.png)",
        "",
        "## If the server does not know the islands",
        "",
        "The paper objects that a server may not know which device is on which island. Suppose "
        "that it has labels, of which a share is wrong: it samples as many devices of every "
        "believed island, and weighs it by the number of devices that it believes to be there "
        "([believed_islands.py](../../studies/selection/believed_islands.py)). This is stratified "
        "sampling for any labels, so the average stays unbiased. With two islands and a share w of "
        "wrong labels, the inter-island part of the bias is 4w(1 − w) of that of uniform sampling. "
        "The measured ratios are those of MNIST where islands differ, H = 5:",
        "",
        *labels_law(results),
        "",
        "Accuracy of the average model under S2A: uniform sampling, and the gain of labels over it "
        "at the same K. The mean of the four is taken in each seed, and tested apart.",
        "",
        *labels_table(results, "s2a"),
        "",
        "![Accuracy against the share of wrong labels](labels.png)",
        "",
        "The same for S2S:",
        "",
        *labels_table(results, "s2s"),
        "",
        f"Labels are clearly behind uniform sampling in {behind} of {tested} cells of both tables"
        + (": going by them costs nothing clear, however bad they are." if not behind else "."),
        "",
        "## CIFAR-10 at 1,000 rounds: the horizon",
        "",
        f"The paper's network, two islands on rings whose data differ, H = 20, {seeds} seeds, "
        "stepsize 0.1 for all. The average model is scored every 9 rounds, devices every 45; the "
        "table has means over the last 100 rounds.",
        "",
        *long_table(results),
        "",
        *long_differences_table(results),
        "",
        "The average model by stretches of 100 rounds:",
        "",
        *horizon_table(results),
        "",
        "![Accuracy over 1,000 rounds, and the lead of S2S over S2A](long.png)",
        "",
        horizon_sentence(results),
        "",
        "Why the rule helps S2A early and costs it late is open. The law is about the bias of one "
        "server round, not about accuracy, and no stepsize but 0.1 was tried in these runs: a "
        "lane may be at a better stepsize than another.",
        "",
        "## Which primitive, scored how",
        "",
        "S2S minus S2A on MNIST where islands differ, 20 devices at random. The average model is "
        "scored at stepsizes tuned for it. Own labels (each device on the labels that it has) are "
        "scored at stepsizes tuned for own labels; the next column shows what happens if stepsizes "
        "are tuned for the average model instead.",
        "",
        *leads_table(results),
        "",
        f"S2S is {counted(own)} on own labels, and {counted(average)} by the average model.",
        "",
        "## All fleets",
        "",
        "MNIST, islands that differ, accuracy of the average model.",
    ]
    for fleet in SIZES:
        for H in PERIODS:
            parts += ["", f"### {fleet}, rings, H = {H}", "", *fleet_table(results, fleet, H)]
    parts += ["", "### 2 islands, complete, H = 5", ""]
    parts += fleet_table(results, "2 islands", 5, "complete")
    sleep = results.sleep["studies"]
    parts += [
        "",
        proportion_sentence(results),
        "",
        "## With devices asleep",
        "",
        "MNIST, two rings whose data differ, K = 20 sampled uniformly, H = 5, stepsize 0.1; on "
        "average one device in five is asleep. Accuracy of the average model, and of the devices "
        f"on all data, after round {next(iter(sleep.values()))[0]['round'][-1]}; means over "
        f"{len(next(iter(sleep.values()))[0]['final'][AVERAGE])} seeds.",
        "",
        *sleep_table(sleep),
        "",
        sleep_sentence(sleep),
        "",
        "![Accuracy, disagreement and bias over the rounds](asleep.png)",
        "",
        "## The commands",
        "",
        "```text",
        *commands(results),
        "```",
        "",
        cost(results),
    ]
    return "\n".join(parts) + "\n"


def horizon_sentence(results: Results) -> str:
    """In which stretches each difference is clear."""
    parts = []
    for (new, old), found in results.horizon.items():
        places = {way: [n for n, d in enumerate(found) if sign(d) == way] for way in (1, -1)}
        words = [
            f"clearly {side} in {len(places[way])} of {len(found)} stretches "
            f"(rounds {'; '.join(map(stretch_words, places[way]))})"
            for way, side in ((1, "ahead"), (-1, "behind"))
            if places[way]
        ]
        parts.append(f"- {new}, beside {old}: {', '.join(words) or 'clear in no stretch'}.")
    return "\n".join(parts)


def device_of(about: Mapping[str, Any]) -> str:
    return "cpu" if "--device cpu" in about["command"] else "cuda"


def commands(results: Results) -> Iterator[str]:
    """The commands that made the data, with the settings that they had."""
    for name, about in results.abouts().items():
        words = about["command"].split()
        settings = [f" --set {b}" for a, b in pairwise(words) if a == "--set"]
        yield (
            f"python studies/selection/run.py {name} --device {device_of(about)} --out runs"
            + "".join(settings)
        )
    yield "python studies/selection/page.py"


def cost(results: Results) -> str:
    """The time that each study took, and where."""
    abouts = results.abouts()
    parts = [f"{name} {a['seconds']:.0f} s ({a['runs']:,} runs)" for name, a in abouts.items()]
    where = {
        device: sum(a["seconds"] for a in abouts.values() if device_of(a) == device) / 60
        for device in ("cuda", "cpu")
    }
    told_where = [
        f"{minutes:.1f} minutes on one {machine}"
        for minutes, machine in zip(where.values(), ("H200 GPU", "CPU core"), strict=True)
        if minutes
    ]
    return (
        f"They took {', '.join(parts)}: {' and '.join(told_where)}. With the same folder `--out`, "
        "`labels` takes the runs that it shares with `mnist` from there."
    )


def main() -> None:
    from pictures import draw

    results = Results()
    (FOLDER / "README.md").write_text(page(results), encoding="utf-8")
    draw(results, FOLDER)


if __name__ == "__main__":
    main()
