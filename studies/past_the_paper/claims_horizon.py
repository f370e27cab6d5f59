"""Claims on the horizon: S2S minus S2A on CIFAR-10 over 1,000 rounds, by stretches of 100."""

from collections.abc import Iterator

import numpy as np
from claims_selection import SHOWN, Selection, lead_by_stretch
from evidence import STUDIES, Array, Difference, differences, plus_minus, table

from skerry_paper.study import StudyData

STRETCH = 100
GOALS = {"average_accuracy": "average model", "own_accuracy": "devices, own labels"}


def long_study() -> StudyData:
    return StudyData.load(STUDIES / "reproduction" / "data" / "cifar10-long.json")


def stretches(
    study: StudyData,
    goal: str,
    optimizer: str = "fedavg",
    intra: str = "iid",
    inter: str = "non-iid",
) -> dict[int, Difference]:
    """S2S minus S2A on the ring with H = 20, K = n/5, in each stretch, by its last round."""
    runs = study.of(
        topology="ring", optimizer=optimizer, intra=intra, inter=inter, period=20, dynamic=False
    )
    means: dict[int, dict[str, Array]] = {}
    for primitive in ("s2s", "s2a"):
        ours = runs.runs[runs.runs["primitive"] == primitive].sort_values("seed")
        curves = [
            runs.curves[runs.curves["run"] == run].dropna(subset=[goal]) for run in ours.index
        ]
        for last in range(STRETCH, 1001, STRETCH):
            means.setdefault(last, {})[primitive] = np.array(
                [
                    one[goal][(one["round"] > last - STRETCH) & (one["round"] <= last)].mean()
                    for one in curves
                ]
            )
    found = differences([(one["s2s"], one["s2a"]) for one in means.values()])
    return dict(zip(means, found, strict=True))


def leads(study: StudyData, long: Selection) -> dict[str, dict[int, Difference]]:
    """S2S minus S2A by stretches: both goals in the runs of Figure 9, and the average model in the
    runs of section 1, which have more seeds and another sampling beside them."""
    three = {f"{name}, 3 seeds": stretches(study, goal) for goal, name in GOALS.items()}
    seeds = long.about["seeds"]
    return {
        f"average model, {seeds} seeds": lead_by_stretch(long, "uniform"),
        f"average model, {seeds} seeds, 10 of each island": lead_by_stretch(long, "per_component"),
        **three,
    }


def horizon_table(study: StudyData, long: Selection) -> Iterator[str]:
    """S2S minus S2A in every second stretch; every row is one family of tests."""
    header = ("scored", *(f"{last - STRETCH + 1} to {last}" for last in SHOWN))
    rows = [(name, *(here[t].told() for t in SHOWN)) for name, here in leads(study, long).items()]
    yield from table(header, rows)


def horizon_sentence(study: StudyData, long: Selection) -> str:
    """The largest lead of a stretch, and what is left in the last one."""
    parts = []
    for name, found in leads(study, long).items():
        peak = max(found, key=lambda last: found[last].mean)
        end = found[1000]
        left = {1: "a clear lead", 0: "no clear lead", -1: "a clear lead of S2A"}[end.sign]
        parts.append(
            f"{plus_minus(found[peak].by_seed)} in rounds {peak - STRETCH + 1} to {peak} and "
            f"{plus_minus(end.by_seed)}, {left}, in the last stretch ({name})"
        )
    return f"At its largest and at the end, the lead of S2S is {'; '.join(parts)}."
