"""Claims on choosing: rules of thumb, bounds and pilots, on the same fleets."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from evidence import LEVEL, STUDIES, load, script, table

from skerry.theory.bounds import bound
from skerry.theory.certified import certified_rounds
from skerry.theory.parameters import Parameters
from skerry_paper.protocol import shown_protocol
from skerry_paper.study import StudyData
from skerry_paper.views.guidelines import GUIDELINE, RULES, contested_cells, guideline, judge

procedures = script("advice", "procedures")
Row = Mapping[str, Any]
GOALS = {"global": "average model", "own": "devices, own labels"}
ROUNDS = 100

# The choice between S2S and S2A, for given K and H and tuned stepsizes


def by_bounds(row: Row, mode: str) -> str:
    """The primitive with fewer rounds by the bounds with measured constants."""
    c = row["constants"]
    setting = Parameters(
        devices=100, components=2, sampled=row["sampled"], period=row["period"],
        p=c["p"], zeta_intra=math.sqrt(c["zeta_intra2"]), zeta_inter=math.sqrt(c["zeta_inter2"]),
        sigma2=c["sigma2"], smoothness=c["smoothness"], initial_error=c["initial_error"],
        epsilon=c["smoothness"] * c["initial_error"] / ROUNDS,
    )  # fmt: skip
    if mode == "certified":
        s2s, s2a = (certified_rounds(setting, one, convex=False).rounds for one in ("s2s", "s2a"))
    else:
        s2s, s2a = (bound(setting, one, "order", convex=False).rounds for one in ("s2s", "s2a"))
    return "s2s" if s2s < s2a else "s2a"


Choice = Callable[[str, Row], str]
CHOICES: dict[str, Choice] = {
    "a pilot": lambda goal, row: str(row["goals"][goal]["advice"]),
    "rule of thumb": lambda goal, row: procedures.rule_of_thumb(
        goal, (row["inter"], row["intra"]) != ("iid",) * 2
    ),
    "the paper's guideline": lambda goal, row: guideline(row),
    "the bounds, measured constants": lambda goal, row: by_bounds(row, "order"),
    "certified bounds, measured constants": lambda goal, row: by_bounds(row, "certified"),
    "always S2A": lambda goal, row: "s2a",
    "always S2S": lambda goal, row: "s2s",
}


@dataclass(frozen=True)
class Count:
    """How a rule does: clear winners that it names, and the mean accuracy lost by following it."""

    right: int
    clear: int
    lost: float

    def told(self) -> str:
        return f"{self.right} of {self.clear} ({self.lost:.3f})"


def clear_winners(kept: Row, goal: str) -> list[bool]:
    """The cells whose gap is clear: t test over the truth's seeds, false discovery rate 0.05."""
    from scipy.special import stdtr
    from scipy.stats import false_discovery_control

    found = [row["goals"][goal] for row in kept["rows"]]
    ts = [
        abs(one["gap"]) / one["standard_error"] if one["standard_error"] else 0.0 for one in found
    ]
    ps = [2 * float(stdtr(kept["truth_seeds"] - 1, -t)) for t in ts]
    return [bool(p <= LEVEL) for p in false_discovery_control(ps)]


def count(kept: Row, goal: str, choose: Choice) -> Count:
    """How often a rule names the clear winner of a cell."""
    right, lost = [], []
    for row, is_clear in zip(kept["rows"], clear_winners(kept, goal), strict=True):
        found = row["goals"][goal]
        good = choose(goal, row) == found["winner"]
        lost.append(0.0 if good else abs(found["gap"]))
        if is_clear:
            right.append(good)
    return Count(sum(right), len(right), fmean(lost))


def choices(kept: Row) -> dict[str, dict[str, Count]]:
    """Each rule by goal; the bounds only where constants were measured."""
    measured = "constants" in kept["rows"][0]
    return {
        name: {goal: count(kept, goal, choose) for goal in GOALS}
        for name, choose in CHOICES.items()
        if measured or "constants" not in name
    }


def choice_table() -> Iterator[str]:
    kept = load("advice", "primitives")
    found = {name: choices(kept[name]) for name in ("mnist", "digits")}
    rows = [
        (
            rule,
            *(found[name][rule][goal].told() if rule in found[name] else ""
              for name in found for goal in GOALS),
        )
        for rule in CHOICES
    ]  # fmt: skip
    names = {"mnist": "MNIST", "digits": "digits"}
    header = [f"{names[name]}, {words}" for name in found for words in GOALS.values()]
    yield from table(("rule", *header), rows)


def choice_sentence(rules: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """The pilot beside the rule of thumb and the bounds on MNIST; `rules` as by `judged_rules`."""
    found = choices(load("advice", "primitives")["mnist"])
    pilot, thumb = found["a pilot"], found["rule of thumb"]
    bounds = found["certified bounds, measured constants"]["global"]
    cifar = rules["cifar10", "global"]
    fails = cifar["rule of thumb"].cost > cifar[GUIDELINE].cost
    elsewhere = (
        " No pilot was run on CIFAR-10, where the rule of thumb does not hold (section 2)."
        if fails
        else ""
    )
    worth = max(thumb[goal].lost - pilot[goal].lost for goal in GOALS)
    return (
        f"On MNIST the rule of thumb names {thumb['global'].right} of {thumb['global'].clear} "
        f"clear winners by the average model and {thumb['own'].right} of {thumb['own'].clear} by "
        f"own labels; a pilot {pilot['global'].right} and {pilot['own'].right}. The certified "
        f"bounds with measured constants name {bounds.right} of {bounds.clear} by the average "
        f"model. So for this choice a pilot is worth at most {worth:.3f} points of accuracy on "
        f"average.{elsewhere}"
    )


# The paper's grids and eight other fleets: rules alone

GRIDS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "fleets": "eight other fleets"}
SCORINGS = {"average_accuracy": "global", "own_accuracy": "own"}


@cache
def judged_rules() -> dict[tuple[str, str], dict[str, Any]]:
    """Judgements of the guideline, the rule of thumb and fixed choices, by grid and goal."""
    found = {}
    for grid in GRIDS:
        study = StudyData.load(STUDIES / "reproduction" / "data" / f"{grid}.json")
        for scoring, goal in SCORINGS.items():
            cells = contested_cells([study], shown_protocol(scoring, "last 20"))

            def thumb(cell: Row, goal: str = goal) -> Any:
                return procedures.rule_of_thumb(goal, "non-iid" in (cell["intra"], cell["inter"]))

            rules = {"rule of thumb": thumb, GUIDELINE: guideline}
            rules |= {name: RULES[name] for name in ("always S2A", "always S2S")}
            found[grid, goal] = {name: judge(cells, rule) for name, rule in rules.items()}
    return found


def rules_table(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    rules = next(iter(found.values()))
    rows = [
        (rule, *(f"{one[rule].right} of {one[rule].decided} ({one[rule].cost:.2f})"
                 for one in found.values()))
        for rule in rules
    ]  # fmt: skip
    header = [f"{GRIDS[grid]}, {GOALS[goal]}" for grid, goal in found]
    yield from table(("rule", *header), rows)


def rules_sentence(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Where the rule of thumb holds, and where it does not."""
    here, cifar = found["mnist", "global"], found["cifar10", "global"]
    thumb, paper = cifar["rule of thumb"], cifar[GUIDELINE]
    text = (
        f"So on MNIST the rule of thumb loses {here['rule of thumb'].cost:.2f} points by the "
        f"average model and the paper's guideline {here[GUIDELINE].cost:.2f}"
    )
    if thumb.cost > paper.cost:
        return (
            f"{text}. On CIFAR-10 after 100 rounds it is the other way round ({thumb.cost:.2f} "
            f"against {paper.cost:.2f}): there S2S leads by the average model too, and the rule of "
            "thumb does not hold. Sections 1 and 6 say where this lead comes from, and how long it "
            "lasts."
        )
    return f"{text}; on CIFAR-10 {thumb.cost:.2f} and {paper.cost:.2f}."


# Everything at once, on generated fleets: primitive, K, H, whom to sample, stepsize, or no server


def untuned() -> int:
    """Fleets in which the rule by goal is right at the experiment's own stepsize."""
    rows = load("advice", "fleets")["rows"]
    return sum(row["rules"]["goal-aware rule"]["within_corrected"] for row in rows)


def follow_sentence() -> str:
    found = procedures.followed()
    advise, thumb = found["skerry advise"], found["rule of thumb"]
    small = found["S2S, S2A, blend or no server, the best on the tuning seeds"]
    bare = found["no server"]
    return (
        f"`skerry advise` is right in {advise.right} of {advise.fleets} fleets and both right and "
        f"cheap in {advise.both}. The rule of thumb at an untuned stepsize is right in "
        f"{untuned()}, which is no fair comparison. With a tuned stepsize it is right in "
        f"{thumb.right}, a small pilot of four choices in {small.right}, and no server at all in "
        f"{bare.right} (both right and cheap: {thumb.both}, {small.both} and {bare.both})."
    )
