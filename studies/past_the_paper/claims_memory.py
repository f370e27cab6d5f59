"""Claims on methods with memory, each beside a control with the same links and samples."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from evidence import STUDIES, script, spread

methods = script("methods", "page")


def study(name: str) -> Any:
    """The kept study of methods on a data set (`Study` of studies/methods/page.py)."""
    return methods.Study(STUDIES / "methods" / "data" / f"{name}.json")


def memory_steps(found: Any) -> list[Any]:
    """MTGC minus HierFAVG in every regime and period; empty if the control was not run."""
    steps: dict[str, list[Any]] = methods.split_steps(found)
    return steps["memory"]


def split(found: Any) -> dict[str, float]:
    """Mean gains of participation, links and memory where data differ, in points."""
    steps = methods.split_steps(found)
    places = [
        place
        for place in found.settings()
        if place[0] != "alike"
        and all(any((d.regime, d.period) == place for d in step) for step in steps.values())
    ]
    if not places:
        return {}
    return {
        name: fmean(d.mean for d in step if (d.regime, d.period) in places)
        for name, step in steps.items()
    }


def by_regime(found: Any) -> dict[str, dict[str, float]]:
    """Mean gain of links and of memory over the periods, by regime."""
    steps = methods.split_steps(found)
    return {
        regime: {
            name: fmean(d.mean for d in steps[name] if d.regime == regime)
            for name in ("links", "memory")
        }
        for regime in ("devices differ", "islands differ", "both differ")
    }


def headline(found: Any) -> str:
    """One sentence: what memory alone gives, and what the rest of the gain is."""
    memory, parts = memory_steps(found), split(found)
    if not memory or not parts:
        return (
            "the kept runs have no HierFAVG, the control with the links and the participation of "
            "MTGC, so they do not say what memory gives."
        )
    share = parts["memory"] / parts["together"]
    where = "most" if share > 0.5 else "the smaller part" if share > 0.1 else "almost nothing"
    return (
        f"of MTGC's mean gain of {parts['together']:+.2f} points over S2A where data differ, "
        f"participation gives {parts['participation']:+.2f}, links {parts['links']:+.2f} and "
        f"memory {parts['memory']:+.2f}: memory gives {where} of it. Beside HierFAVG, MTGC is "
        f"{methods.verdicts(memory)} ({spread([one.mean for one in memory])} points)."
    )


def section(name: str, found: Any) -> Iterator[str]:
    """The split as a table, and what the memory of other methods gives beside their controls."""
    seeds = len(found.about["scored_seeds"])
    yield f"**{methods.TITLES[name]}**, {found.about['rounds']} rounds, {seeds} scored seeds:"
    yield "\n".join(methods.split_table(found))
    if told := [*methods.memory_sentences(found)]:
        yield "\n".join(told)
