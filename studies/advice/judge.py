"""How good the advice on the generated fleets is, beside fixed rules and the older procedure.

    python studies/advice/judge.py --refined refined --answers answers --older older

A recommendation is right if its score is within the tolerance (0.2 points of accuracy or 1 % of the
loss) of the best affordable setting of the exhaustive grid, and cheap if it costs at most 1.25
times the cheapest setting that is within half of the tolerance. The truth of a setting is its mean
over the seeds of `refine.py`. Writes studies/advice/data/fleets.json; `page.py` writes the table.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from fleets import HELD_OUT, STUDIED, Fleet

from skerry.files import replace_file
from skerry.theory.communication import server_round_cost, server_rounds

ROOT = Path(__file__).parents[2]
POINTS, PERCENT = 0.2, 1.0
SPLITS = 100
MEASURES = ("average_accuracy", "own_accuracy", "average_loss", "own_loss")
ADVICE = ("skerry advise", "the older procedure")
RULES = ("the paper's guideline", "always S2A", "always S2S", "goal-aware rule")

Setting = dict[str, Any]


def cost(fleet: Fleet, setting: Setting) -> float:
    """The cost of a whole run at the fleet's prices."""
    if setting["primitive"] == "none":
        return 0.0
    each = server_round_cost(setting["primitive"], fleet.n, setting["sampled"], fleet.prices)
    return float(each * server_rounds(fleet.drawn["rounds"], setting["period"]))


def affordable(fleet: Fleet, setting: Setting) -> bool:
    return fleet.budget is None or cost(fleet, setting) <= fleet.budget * (1 + 1e-9)


def rule(fleet: Fleet, name: str) -> Setting:
    """The setting that a fixed rule recommends: K = n/5, and H = 5 or the smallest affordable."""
    drawn = fleet.drawn
    by_guideline = "s2s" if drawn["across"] or drawn["within"] else "s2a"
    primitive, beta = {
        "always S2A": ("s2a", 1.0),
        "always S2S": ("s2s", 0.0),
        "the paper's guideline": (by_guideline, None),
        "goal-aware rule": {"global": ("s2a", 1.0), "own": ("s2s", 0.0), "both": ("blend", 0.5)}[
            drawn["goal"]
        ],
    }[name]
    setting = {"primitive": primitive, "beta": beta, "sampled": max(2, fleet.n // 5)}
    setting |= {"selection": "uniform", "stepsize": drawn["stepsize"]}
    for period in (5, 10, 20, 40, 80):
        found = {**setting, "period": period}
        if affordable(fleet, found) and period < drawn["rounds"]:
            return found
    return {"primitive": "none", "stepsize": drawn["stepsize"]}


def same(one: Setting, other: Setting) -> bool:
    """Whether two settings are the same run, whatever fields they leave out."""
    if one["primitive"] != other["primitive"]:
        return False
    names = ["stepsize"]
    if one["primitive"] != "none":
        names += ["sampled", "period", "selection"]
    if one["primitive"] == "blend":
        names.append("beta")
    return all(
        one[name] == other[name]
        if isinstance(one[name], str)
        else math.isclose(one[name], other[name], rel_tol=1e-6)
        for name in names
    )


def settings_to_refine(
    fleet: Fleet, table: Any, answers: list[Setting], most: int
) -> list[Setting]:
    """Settings near the top of the grid, the cheapest of them, rules, and what was recommended."""
    settings, utility = json.loads(str(table["settings"])), utilities(fleet, table).mean(axis=1)
    tolerance = PERCENT if fleet.drawn["task"] == "numbers" else POINTS
    possible = [i for i, one in enumerate(settings) if affordable(fleet, one)]
    top = max(utility[i] for i in possible)
    near = sorted(
        (i for i in possible if utility[i] >= top - 4 * tolerance), key=lambda i: -utility[i]
    )
    level = [i for i in near if utility[i] >= top - 2 * tolerance]
    cheap = sorted(level, key=lambda i: cost(fleet, settings[i]))
    chosen = [*near[: most // 2], *cheap[: most // 2]]
    bare = [i for i in possible if settings[i]["primitive"] == "none"]
    found = [settings[i] for i in dict.fromkeys([*chosen, *bare])]
    for one in (*(rule(fleet, name) for name in RULES), *answers):
        if not any(same(one, other) for other in found):
            found.append(one)
    return found


def utilities(fleet: Fleet, table: Any) -> "np.ndarray[Any, Any]":
    """Scores of the fleet's goal, more is better: points of accuracy, or percent of the loss."""
    kind = "loss" if fleet.drawn["task"] == "numbers" else "accuracy"
    names = {"global": ["average"], "own": ["own"], "both": ["average", "own"]}[fleet.drawn["goal"]]
    score = np.mean([table[f"{name}_{kind}"].astype(float) for name in names], axis=0)
    if kind == "accuracy":
        return np.where(np.isfinite(score), score, np.nanmin(score))
    worst = 20 * np.nanmedian(score)
    return -100 * np.log(np.where(np.isfinite(score) & (score < worst), score, worst))


def load_refined(folders: str, number: int) -> dict[str, Any]:
    """The scores of a fleet from several folders, over the seeds that all of them have."""
    files = [Path(folder) / f"{number:02}.npz" for folder in folders.split(",")]
    tables = [np.load(file) for file in files if file.exists()]
    seeds = sorted(set.intersection(*(set(table["seeds"].tolist()) for table in tables)))
    settings: list[Setting] = []
    rows: dict[str, list[Any]] = {name: [] for name in MEASURES}
    for table in tables:
        columns = [table["seeds"].tolist().index(seed) for seed in seeds]
        for i, setting in enumerate(json.loads(str(table["settings"]))):
            if not any(same(setting, other) for other in settings):
                settings.append(setting)
                for name, found in rows.items():
                    found.append(table[name][i, columns])
    arrays = {name: np.stack(found) for name, found in rows.items()}
    return {"settings": json.dumps(settings), **arrays}


def corrected_gap(utility: "np.ndarray[Any, Any]", possible: list[int], chosen: int) -> float:
    """The gap to the best setting without the luck of the best: it is found on one half of the
    seeds and compared on the other."""
    rng, seeds, gaps = np.random.default_rng(0), utility.shape[1], []
    for _ in range(SPLITS):
        order = rng.permutation(seeds)
        first, second = order[: seeds // 2], order[seeds // 2 :]
        best = possible[int(utility[possible][:, first].mean(axis=1).argmax())]
        gaps.append(utility[best, second].mean() - utility[chosen, second].mean())
    return float(np.mean(gaps))


def judge(fleet: Fleet, refined: Any, answers: dict[str, Any]) -> dict[str, Any]:
    """What is true about a fleet, and how each recommendation compares."""
    settings, utility = json.loads(str(refined["settings"])), utilities(fleet, refined)
    tolerance = PERCENT if fleet.drawn["task"] == "numbers" else POINTS
    mean = utility.mean(axis=1)
    possible = [i for i, one in enumerate(settings) if affordable(fleet, one)]
    best = max(possible, key=lambda i: float(mean[i]))
    level = [i for i in possible if mean[i] >= mean[best] - tolerance / 2]
    cheapest = min(cost(fleet, settings[i]) for i in level)
    bare = [i for i in possible if settings[i]["primitive"] == "none"]
    none = max(bare, key=lambda i: float(mean[i]))
    row: dict[str, Any] = {
        "fleet": fleet.number,
        "held_out": fleet.number in HELD_OUT,
        "drawn": fleet.drawn,
        "budget": fleet.budget,
        "tolerance": tolerance,
        "best": {**settings[best], "cost": cost(fleet, settings[best])},
        "cheapest_level_cost": cheapest,
        "none_behind": float(mean[best] - mean[none]),
        "none_is_level": bool(mean[best] - mean[none] <= tolerance),
        "seeds": utility.shape[1],
        "rules": {},
    }
    for name, setting in answers.items():
        found = [i for i, one in enumerate(settings) if same(setting, one)]
        if not found:
            continue
        gap, price = float(mean[best] - mean[found[0]]), cost(fleet, setting)
        corrected = corrected_gap(utility, possible, found[0])
        row["rules"][name] = {
            "setting": setting,
            "behind": gap,
            "behind_corrected": corrected,
            "cost": price,
            "within": gap <= tolerance and affordable(fleet, setting),
            "within_corrected": corrected <= tolerance and affordable(fleet, setting),
            "cheap": price <= 1.25 * cheapest,
        }
    return row


def intervals(fleet: Fleet, refined: Any, answer: dict[str, Any]) -> list[bool]:
    """Whether the intervals that the advice states for gaps to its best setting cover the truth,
    which has an error of its own."""
    settings, utility = json.loads(str(refined["settings"])), utilities(fleet, refined)

    def scores(fields: Setting) -> "np.ndarray[Any, Any] | None":
        found = [i for i, one in enumerate(settings) if same(fields, one)]
        return utility[found[0]] if found else None

    best, covered = scores(answer["points"]["best"]["fields"]), []
    for name in ("cheapest", "none"):
        point = answer["points"][name]
        there = scores(point["fields"])
        if point["behind"] and best is not None and there is not None:
            gap, stated = best - there, point["behind"]
            error = 1.96 * gap.std(ddof=1) / math.sqrt(len(gap))
            half = (stated["high"] - stated["low"]) / 2
            covered.append(bool(abs(stated["mean"] - gap.mean()) <= math.hypot(half, error)))
    return covered


def says_none_is_level(answer: dict[str, Any]) -> bool:
    """Whether an advice calls no server more likely than not level with the best."""
    if answer["points"]["none"]["behind"] is None or answer["recommended"] == "none":
        return True
    said = [s["probability"] for s in answer["statements"] if s["text"].startswith("no server")]
    return bool(said) and said[0] >= 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refined", required=True, help="folders of refine.py, joined by commas")
    for name in ("answers", "older"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    rows, covered, said = [], [], []
    for number in STUDIED:
        fleet = Fleet(number)
        refined = load_refined(options.refined, number)
        answers = {name: rule(fleet, name) for name in RULES}
        new = json.loads((options.answers / f"{number:02}.json").read_text())
        older = options.older / f"{number:02}.json"
        old = json.loads(older.read_text()) if older.exists() else {}
        answers["skerry advise"] = new["recommendation"]
        if old.get("recommendation"):
            answers["the older procedure"] = old["recommendation"]
        row = judge(fleet, refined, answers)
        row["says_none_is_level"] = says_none_is_level(new)
        row |= {"seconds": new["seconds"], "verdict": new["verdict"], "runs": new["pilot"]["runs"]}
        row |= {"older_seconds": old.get("seconds"), "older_error": old.get("error")}
        covered += intervals(fleet, refined, new)
        said.append(row["says_none_is_level"] == row["none_is_level"])
        rows.append(row)
    summary = {
        "none_said_rightly": f"{sum(said)} of {len(said)}",
        "intervals_cover": f"{sum(covered)} of {len(covered)}",
    }
    data = {"summary": summary, "rows": rows}
    (ROOT / "studies/advice/data").mkdir(parents=True, exist_ok=True)
    file = ROOT / "studies/advice/data/fleets.json"
    replace_file(file, f"{json.dumps(data, indent=1)}\n".encode())
    print(json.dumps(summary))
    for name in (*ADVICE, *RULES):
        for part in (STUDIED, HELD_OUT):
            print(f"{name}: {counts(rows, name, part)}")


def counts(rows: list[dict[str, Any]], name: str, part: Any) -> dict[str, int]:
    """How many recommendations of a rule are right, right up to luck, cheap, and both."""
    found = [row["rules"][name] for row in rows if row["fleet"] in part and name in row["rules"]]
    return {
        "fleets": len(found),
        "within": sum(one["within"] for one in found),
        "within_corrected": sum(one["within_corrected"] for one in found),
        "cheap": sum(one["cheap"] for one in found),
        "both": sum(one["within_corrected"] and one["cheap"] for one in found),
    }


if __name__ == "__main__":
    main()
