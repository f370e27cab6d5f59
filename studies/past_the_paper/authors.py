"""The text of docs/tell-the-authors.md: ten lines, each with a number."""

import math
from collections.abc import Iterator

import claims_blend as blend
import claims_memory as memory
import claims_paper as paper
import claims_pilot as pilot
import claims_selection as selection
from evidence import plus_minus, spread

from skerry.theory.counts import law_of_counts
from skerry.theory.participation import exchange_from_law
from skerry_paper.agreement import Agreement


def appendix() -> str:
    found = paper.inequality()
    return (
        "**One inequality of the appendix fails.** The bound of the non-convex proofs, for "
        f"every stepsize up to p/(8L), gives {found.promised:.4f} on a smooth function of two "
        f"variables at H = {found.period}, where the average of ‖∇f‖² is {found.measured:.2f}: "
        f"{found.measured / found.promised:.0f} times as much. Your theorems ask for one stepsize "
        "only, so this example does not refute them; a second one does, for the number of rounds "
        "that the appendix computes. A limit of 0.4/(HL) on the stepsize excludes such steps. "
        "[Point 1](theory.md#where-the-printed-statements-need-care)."
    )


def mixing() -> str:
    promised, kept = paper.mixing_on_pair_and_path()
    s2s, s2a = paper.constants_at_full_sampling()
    return (
        "**Two small repairs.** Lemma 2 needs the smallest p of the islands, not their mean: for a "
        f"pair and a path of three the mean promises that at most {promised:.1%} of the "
        f"disagreement is left, and {kept:.1%} can be. And at K = n, where S2S and S2A are one "
        f"algorithm, the printed coefficients of η² are {s2s:.2f} and {s2a:.2f}. [Points 3 and "
        "6](theory.md#where-the-printed-statements-need-care)."
    )


def printed_gaps(dataset: str) -> str:
    found = paper.distances(dataset)
    stated, always = found.stated, found.always_s2s
    predicted = is_closer(stated, min(found.zero, always.rms))
    text = (
        f"**Your {paper.DATASETS[dataset]} gaps {'are' if predicted else 'are not'} predicted by "
        "the stated protocol.** Devices on their own labels, final round, tuned stepsizes: our "
        f"gaps are {stated.rms:.2f} ± {stated.rms_half:.2f} points from yours (root mean square); "
        f"predicting no gap is {found.zero:.2f} away, and the best single gap for all cells, "
        f"always S2S, {always.rms:.2f}. Signs agree in {stated.signs.agree} of "
        f"{stated.signs.of}; always predicting S2S, in {always.signs.agree}."
    )
    if found.tuned and found.closest:
        met = found.closest
        verdict = "closer" if is_closer(met, min(found.zero, always.rms)) else "not clearly closer"
        text += (
            " With the conventions of the first author's other code (a fifth of the samples, each "
            "device scored on its own test samples) the distance is "
            f"{found.tuned.rms:.2f} ± {found.tuned.rms_half:.2f} with tuned stepsizes, and "
            f"{met.rms:.2f} ± {met.rms_half:.2f} at stepsize {found.stepsize}, {verdict} than both "
            f"constants, with {met.signs.agree} of {met.signs.of} signs; but that stepsize is the "
            "closest of those that were run, chosen by your gaps themselves."
        )
    return f"{text} [Protocol](reproduction/protocol.md)."


def is_closer(met: Agreement, distance: float) -> bool:
    """Whether a distance from the printed gaps is below another by its whole 95 % interval."""
    return met.rms + (met.rms_half if math.isfinite(met.rms_half) else 0.0) < distance


def scoring() -> str:
    found = pilot.judged_rules()
    own, average = found["mnist", "own"], found["mnist", "global"]
    cifar = found["cifar10", "global"]
    name = pilot.GUIDELINE
    return (
        "**Please say what is scored: it decides the winner.** On your MNIST grid your guideline "
        f"names {own[name].right} of {own[name].decided} clear winners if devices are scored on "
        f"their own labels, and {average[name].right} of {average[name].decided} by the average "
        f"model; S2A wins {average['always S2A'].right} of the latter. A rule that knows the goal "
        f"(S2A for the average model; for own labels S2S where any data differ) names "
        f"{own['rule of thumb'].right} and {average['rule of thumb'].right}. On CIFAR-10 after 100 "
        f"rounds, by the average model, yours names {cifar[name].right} of {cifar[name].decided} "
        f"and loses {cifar[name].cost:.2f} points by being wrong, and that rule "
        f"{cifar['rule of thumb'].right} and {cifar['rule of thumb'].cost:.2f}. "
        "[Section 2](past-the-paper.md#2-the-winner-depends-on-what-is-scored)."
    )


def figure_12() -> str:
    printed, ours = paper.momentum()
    average, own = ours.values()
    return (
        "**Figure 12 has another sign here.** Server momentum leaves the gap between S2S and S2A "
        f"as it is in your text ({printed:+.2f} points). In our runs it takes "
        f"{plus_minus(average.by_seed)} by the average model and {plus_minus(own.by_seed)} by own "
        f"labels ({len(average.by_seed)} seeds): S2A gains much more from momentum. Which "
        "model does your momentum refer to? [Figure 12](reproduction/figures.md#fig12)."
    )


def sampling() -> str:
    uniform, each = (
        exchange_from_law((50, 50), law_of_counts(rule, (50, 50), 20))
        for rule in ("uniform", "per_component")
    )
    gaps = selection.few_against_many(selection.Selection("mnist"))
    alike = [d for (regime, _), d in gaps.items() if regime == "islands differ"]
    differ = [d for (regime, _), d in gaps.items() if regime in ("devices differ", "both differ")]
    text = (
        "**The bias of S2A between islands is a matter of the sample.** Sampled at random, K = 20 "
        f"of two islands of 50, S2A turns {uniform.kappa_inter:.4f} of the disagreement between "
        f"islands into bias; sampled in proportion to them, {each.kappa_inter:.4f}, exactly. "
        "On MNIST two devices, one of each island, are then "
        f"{spread([d.mean for d in alike])} points from twenty random ones where islands differ "
        "and their devices are alike"
    )
    if differ:
        text += f", and {spread([d.mean for d in differ])} where the devices of an island differ"
    return f"{text}. [Section 1](past-the-paper.md#1-whom-the-server-samples)."


def between() -> str:
    return (
        "**There is something between S2S and S2A.** Let devices that were not sampled move by a "
        "fraction β towards the average. On MNIST with H = 5 and islands that differ, in the plane "
        f"of both goals, such blends lie {blend.summary(5)} between S2S and S2A, and from the hull "
        f"of both at all stepsizes {blend.control(5)}. [Section "
        "5](past-the-paper.md#5-blends-lie-above-the-line)."
    )


def rounds() -> str:
    long = selection.Selection("long")
    found, each = (selection.lead_by_stretch(long, rule) for rule in selection.RULES)
    peak = max(found, key=lambda last: found[last].mean)
    return (
        "**The lead of S2S on CIFAR-10 needs its number of rounds.** Islands differ, H = 20, ring, "
        f"average model: {plus_minus(found[peak].by_seed)} points in rounds {peak - 99} to {peak}, "
        f"and {plus_minus(found[1000].by_seed)} in rounds 901 to 1,000 ({long.about['seeds']} "
        "seeds; at one stepsize). With 10 of each island sampled it is "
        f"{plus_minus(each[peak].by_seed)} and {plus_minus(each[1000].by_seed)}. "
        "[Section 6](past-the-paper.md#6-how-long-the-lead-of-s2s-lasts)."
    )


def remembering() -> str:
    found = memory.study("mnist")
    gains = memory.by_regime(found)
    devices, islands = gains["devices differ"], gains["islands differ"]
    links_then_memory = (
        devices["links"] > devices["memory"] and islands["memory"] > islands["links"]
    )
    title = (
        "Where devices differ, better links do more than either primitive; where islands differ, "
        "memory does."
        if links_then_memory
        else "Links, participation and memory may do more than either primitive."
    )
    return (
        f"**{title}** On MNIST, {memory.headline(found)} Links give "
        f"{devices['links']:+.2f} and memory {devices['memory']:+.2f} where devices differ, "
        f"{islands['links']:+.2f} and {islands['memory']:+.2f} where islands differ. "
        "[Section 3](past-the-paper.md#3-methods-with-memory)."
    )


def lines() -> Iterator[str]:
    yield appendix()
    yield mixing()
    yield from (printed_gaps(dataset) for dataset in paper.DATASETS)
    yield scoring()
    yield figure_12()
    yield sampling()
    yield between()
    yield rounds()
    yield remembering()


def text() -> str:
    """The Markdown of docs/tell-the-authors.md."""
    numbered = [f"{place}. {line}" for place, line in enumerate(lines(), 1)]
    parts = [
        "# What we would tell the authors",
        "<!-- Written by `python studies/past_the_paper/page.py` from kept studies. -->",
        "Thank you for a paper whose statements can be checked one by one. We ran all of it that "
        "we could, and its exact statements about S2S and S2A hold. Ten things we would tell you "
        "over a coffee, each with a number; ± is half of a 95 % t interval over seeds, and *clear* "
        "is a paired t test at the level 0.05 with Holm's correction, or where cells are counted, "
        "at a false discovery rate of 0.05.",
        "\n".join(numbered),
        "Every number is computed from kept runs by `python studies/past_the_paper/page.py`. We "
        "may have misread you: the [protocol page](reproduction/protocol.md) lists what we "
        "assumed, and [the reproduction](reproduction/README.md) every table and figure.",
    ]
    return "\n\n".join(parts) + "\n"
