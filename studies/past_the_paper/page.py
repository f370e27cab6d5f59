"""Write docs/past-the-paper.md and docs/tell-the-authors.md from the kept studies: `make docs`."""

from collections.abc import Iterator
from pathlib import Path

import authors
import claims_blend as blend
import claims_horizon as horizon
import claims_memory as memory
import claims_pilot as pilot
import claims_selection as selection
from evidence import DOCS, commands, load

PICTURE = "pictures/past-the-paper.png"
SELECTION = ("mnist", "labels", "long")
"""The parts of the study of selection rules."""


def sampling() -> Iterator[str]:
    mnist, labels, long = (selection.Selection(part) for part in SELECTION)
    yield "## 1. Whom the server samples"
    yield (
        "**The law, exact.** S2A replaces all models by the average of the sample. The table shows "
        "which share of the disagreement becomes bias in expectation, for two islands of 50 "
        "devices ([Theory](theory.md#whom-the-server-samples)). If every island is sampled in "
        "proportion to its size, the disagreement between islands causes no bias."
        f"{selection.law_against_runs(mnist)}"
    )
    yield "\n".join(selection.law())
    yield (
        f"**{selection.few_title(mnist)}.** {selection.few_sentences(mnist)} "
        "Accuracy of the average model on MNIST, two rings of 50:"
    )
    yield "\n".join(selection.few_table(mnist))
    yield (
        f"**Wrong labels.** {selection.label_sentence(labels)} The table shows the accuracy of "
        "the average model without a server and with uniform sampling, and the gain over the "
        "latter if the server samples as many of every island by its labels:"
    )
    yield "\n".join(selection.label_table(labels))
    yield (
        "**CIFAR-10, 1,000 rounds.** Islands differ, rings, K = 20, H = 20, stepsize 0.1, "
        f"{long.about['seeds']} seeds. {selection.stretch_sentence(long)} The law is about the "
        "bias of one server round, and says nothing about the accuracy after many of them. Average "
        "model, by stretches of rounds:"
    )
    yield "\n".join(selection.stretch_table(long))
    yield "![Accuracy and messages to the server](selection/accuracy-and-uplink.png)"
    run = "python studies/selection/run.py {} --device cuda --out runs"
    yield commands(*(run.format(name) for name in SELECTION))
    yield "[Whom to sample](selection/README.md) has all numbers."


def scoring() -> Iterator[str]:
    mnist = selection.Selection("mnist")
    rules = pilot.judged_rules()
    yield "## 2. The winner depends on what is scored"
    yield (
        "MNIST, rings, islands whose data differ, uniform sampling, K = 10 and 20, H = 5 and 20. "
        f"The paper's guideline recommends S2S in all of these settings. "
        f"{selection.winners_sentence(mnist)} The table counts the settings in which S2S is ahead "
        "(in brackets: the mean of S2S minus S2A in points):"
    )
    yield "\n".join(selection.winners_table(mnist))
    yield (
        "A rule of thumb that knows the goal takes S2A for the average model, and for own labels "
        "S2S where any data differ. The next table counts, over all cells with K < n of the "
        "paper's grids and of eight other fleets (more islands, unequal islands, stars, random "
        "graphs, an MLP), the clear winners that a rule names, at a false discovery rate of 0.05 "
        "over the cells of an entry (in brackets: the accuracy lost by "
        "following it, in points, as a mean over all cells). Mean of the last 20 rounds:"
    )
    yield "\n".join(pilot.rules_table(rules))
    yield pilot.rules_sentence(rules)
    yield commands("skerry reproduce guidelines --profile full")
    yield "The page [guidelines](reproduction/guidelines.md) has the details."


def remembering() -> Iterator[str]:
    yield "## 3. Methods with memory"
    yield (
        "MTGC differs from S2A in three ways: all devices take part, islands are complete, and "
        "devices remember gradients. HierFAVG has the first two and no memory, so it is the "
        f"control. On MNIST, {memory.headline(memory.study('mnist'))} The tables go from S2A with "
        "20 random devices on rings to MTGC, one change at a time, in points of the accuracy of "
        "devices on all data; the lists put the memory of other methods beside controls with the "
        "same links and samples."
    )
    for name in ("mnist", "cifar10"):
        yield from memory.section(name, memory.study(name))
    yield "![Split of the gains, and bytes sent](methods/mnist.png)"
    yield commands(*(memory.study(name).about["command"] for name in ("mnist", "cifar10")))
    yield "[Methods side by side](methods/README.md) has all numbers."


def choosing() -> Iterator[str]:
    data = load("advice", "controls")
    yield "## 4. What a pilot is worth"
    yield (
        "**For the choice between S2S and S2A on MNIST and digits: hardly anything that a rule of "
        f"thumb does not give.** {pilot.choice_sentence(pilot.judged_rules())} 48 cells (four "
        "regimes, three topologies, K/n = 0.2 and 0.6, H = 5 and 20), clear winners named, "
        "and in brackets the accuracy lost by following the rule:"
    )
    yield "\n".join(pilot.choice_table())
    yield (
        "**For everything else: much.** A fleet's owner must also choose K, H, whom to sample, the "
        f"stepsize, and whether a server pays at all. {pilot.follow_sentence()} Right means within "
        "0.2 points of accuracy, or 1 % of the loss, of the best setting of an exhaustive grid of "
        "1,005 to 1,805 settings; cheap means at most 1.25 times the cost of the cheapest setting "
        "that is that good. All rows but the first have K = n/5 and H = 5 (or the smallest H that "
        f"the budget pays for) and the best of seven stepsizes on {len(data['tuning_seeds'])} "
        f"seeds; all are scored on {len(data['scored_seeds'])} fresh seeds."
    )
    yield "\n".join(pilot.procedures.markdown())
    yield f"![In how many fleets each procedure is good]({PICTURE})"
    yield commands("python studies/advice/controls.py", "python studies/advice/constants.py")
    yield "[How often it is right](advise.md#how-often-it-is-right) has the protocol."


def blending() -> Iterator[str]:
    yield "## 5. Blends lie above the line"
    yield (
        "With a blend, every device that was not sampled moves by a fraction β towards the "
        "average, from S2S (β = 0) to S2A (β = 1). Score both goals at once: the average model, "
        "and devices on their own labels. If β only traded one goal for the other, blends would "
        "lie on the straight line between S2S and S2A in the plane of both. On MNIST with islands "
        f"that differ and H = 5, blends lie {blend.summary(5)}, in points of own labels at the "
        "same accuracy of the average model. The control: another stepsize also trades one goal "
        "for the other. Above the upper hull of S2S and S2A at all stepsizes, which is lucky by "
        f"its choice on the scored seeds, they still lie {blend.control(5)}. With H = 20 they lie "
        f"{blend.summary(20)}. Islands that differ, H = 5:"
    )
    yield "\n".join(blend.blend_table(5))
    yield "The same with H = 20:"
    yield "\n".join(blend.blend_table(20))
    yield "![Blends on the ring](reproduction/pictures/blend-ring.png)"
    yield commands("skerry reproduce blend --profile full")


def lasting() -> Iterator[str]:
    study, long = horizon.long_study(), selection.Selection("long")
    yield "## 6. How long the lead of S2S lasts"
    yield (
        "CIFAR-10, islands that differ, ring, K/n = 0.2, H = 20, stepsize 0.1, S2S minus S2A in "
        f"points. {horizon.horizon_sentence(study, long)} A claim about which primitive is better "
        "on CIFAR-10 needs its number of rounds."
    )
    yield "\n".join(horizon.horizon_table(study, long))
    yield commands(
        "skerry reproduce fig9 --profile full",
        "python studies/selection/run.py long --device cuda --out runs",
    )


def text() -> str:
    """The Markdown of docs/past-the-paper.md."""
    parts = [
        "# Past the paper",
        "<!-- Written by `python studies/past_the_paper/page.py` from kept studies. -->",
        "The paper asks who should receive the server's average: the sampled devices (S2S) or all "
        "devices (S2A). It assumes that the server samples uniformly at random and that devices "
        "run plain SGD, and it concludes that S2S is better where the data of islands differ. This "
        "page says what holds when more can be chosen, **each claim beside its control**. Unless "
        "stated otherwise, runs are scored by the mean over the last 20 of 100 rounds, and "
        "stepsizes are tuned on other seeds than the scored one. ± is half of the 95 % t interval "
        "over seeds. *Clear*, and **bold** in tables of differences, is a paired t test at the "
        "level 0.05 with Holm's correction over the table; where cells are counted, it is a t test "
        "at a false discovery rate of 0.05. For the short version see [What we "
        "would tell the authors](tell-the-authors.md).",
        *sampling(),
        *scoring(),
        *remembering(),
        *choosing(),
        *blending(),
        *lasting(),
        "## What remains of the paper",
        "The paper's two errors remain: bias under S2A and disagreement under S2S. Runs agree with "
        "their exact mean sizes ([Figure 14](reproduction/figures.md#fig14)). Sampling in "
        "proportion removes the bias between islands, and a blend weighs one error against the "
        "other. Which of the two errors hurts depends on whether the average model or the devices "
        "are scored, and for how many rounds.",
    ]
    return "\n\n".join(parts) + "\n"


def draw(file: Path) -> None:
    """Draw in how many fleets each procedure is as good as the best, and also cheap."""
    import matplotlib.pyplot as plt

    from skerry.report.style import OTHERS, PRIMITIVES, WIDTHS, paper

    found = pilot.procedures.followed()
    with paper():
        figure, axis = plt.subplots(figsize=(WIDTHS["full"], 2.6))
        for place, one in enumerate(found.values()):
            for shift, count, words, colour in (
                (-0.19, one.right, "right", PRIMITIVES["s2a"]),
                (0.19, one.both, "right and cheap", OTHERS[0]),
            ):
                axis.barh(place + shift, count, height=0.36, color=colour)
                axis.text(count + 0.2, place + shift, f"{count} {words}", va="center", fontsize=6)
        names = [name.replace(", the best on", ",\nthe best on") for name in found]
        axis.set_yticks(range(len(found)), names)
        axis.set_xlim(0, 30)
        axis.set_xticks(range(0, 25, 4))
        axis.set_xlabel(f"fleets (of {next(iter(found.values())).fleets})")
        axis.invert_yaxis()
        figure.tight_layout()
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=120)
        plt.close(figure)


if __name__ == "__main__":
    draw(DOCS / PICTURE)
    (DOCS / "past-the-paper.md").write_text(text(), encoding="utf-8")
    (DOCS / "tell-the-authors.md").write_text(authors.text(), encoding="utf-8")
