"""Write an advice.json that agrees with the real runs of a folder, as `skerry advise` would."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from skerry.analysis.run_table import RunTable, final_value
from skerry.analysis.statistics import estimate
from skerry.config.experiment import Experiment

LINKS = {"uplink": "uplink_messages", "downlink": "downlink_messages"}


def setting(one: Experiment) -> dict[str, Any]:
    """The fields of a recommendation."""
    server = one.server
    return {
        "primitive": server.primitive,
        "beta": server.beta if server.primitive == "blend" else None,
        "sampled": server.sampled if server.is_there else None,
        "period": server.period if server.is_there else None,
        "selection": server.selection if server.is_there else None,
        "stepsize": one.training.stepsize,
    }


def label(one: Experiment) -> str:
    server, stepsize = one.server, f"stepsize {one.training.stepsize:g}"
    if not server.is_there:
        return f"no server, {stepsize}"
    return (
        f"{server.label}, {server.selection}, K = {server.sampled}, H = {server.period}, {stepsize}"
    )


def named_points(advice: dict[str, Any]) -> dict[str, Any]:
    """The best, the cheapest and the point without a server by what they are called, the
    recommended one first. A setting that is several of them has one name."""
    order = sorted(("best", "cheapest", "none"), key=lambda one: one != advice["recommended"])
    roles: dict[str, list[str]] = {}
    for role in order:
        if point := advice["points"].get(role):
            roles.setdefault(point["label"], []).append(role)
    best = "best within the budget" if advice["question"].get("budget") is not None else "best"
    alone = {"best": best, "cheapest": "cheapest that is level", "none": "no server"}
    found = {}
    for ours in roles.values():
        name = alone[ours[0]] if len(ours) == 1 else "best and cheapest that is level"
        if "none" in ours and len(ours) > 1:
            name = f"no server, which is {'best' if 'best' in ours else 'level'}"
        found[name] = advice["points"][ours[0]]
    return found


def write_advice(
    folder: Path,
    fresh: list[int],
    *,
    measures: tuple[str, ...] = ("average_accuracy", "own_accuracy"),
    goal_text: str = "mean of global and own accuracy",
    tolerance: float = 0.2,
    budget: float | None = None,
    recommended: str = "cheapest",
    downlink: float = 0,
    **changes: Any,
) -> dict[str, Any]:
    """Score the runs of a folder: settings that were run on all fresh seeds are confirmed, all
    others were only searched. The advice is written beside the runs and returned."""
    losses = measures[0].endswith("loss")
    table, prices = RunTable.read(folder), {"uplink": 1, "downlink": downlink}
    by_setting: dict[str, dict[int, Any]] = {}
    for run in table.runs:
        by_setting.setdefault(label(run.experiment), {})[run.experiment.seed] = run
    confirmed, searched, scores = [], [], {}
    for name, runs in by_setting.items():
        one = next(iter(runs.values())).experiment

        def final(run: Any, measure: str) -> float:
            return final_value(table.histories[run.key], measure, run.experiment.rounds)

        first = next(iter(runs.values()))
        cost = sum(price * final(first, LINKS[link]) for link, price in prices.items())
        found = {
            seed: float(np.mean([final(run, measure) for measure in measures]))
            for seed, run in runs.items()
        }
        if not set(fresh) <= runs.keys():
            score, error = np.mean(list(found.values())), np.std(list(found.values()))
            searched.append({"label": name, "cost": cost, "score": score, "error": error})
            continue
        scores[name] = np.array([found[seed] for seed in fresh])
        score = estimate(scores[name])
        confirmed.append({
            "label": name, "fields": setting(one), "cost": cost, "rounds": one.rounds,
            "score": {"mean": score.mean, "half_width": score.half_width, "count": score.count},
            "roles": [],
        })  # fmt: skip
    sign = -1 if losses else 1
    allowed = [one for one in confirmed if budget is None or one["cost"] <= budget]
    best = max(allowed, key=lambda one: sign * one["score"]["mean"])
    for one in confirmed:
        ours, theirs = scores[best["label"]], scores[one["label"]]
        behind = estimate(100 * np.log(theirs / ours) if losses else ours - theirs)
        ends = {"low": behind.low, "high": behind.high}
        one["behind"] = None if one is best else {"mean": behind.mean, **ends}
    level = [
        one for one in allowed
        if sign * (best["score"]["mean"] - one["score"]["mean"]) <= tolerance
    ]  # fmt: skip
    points = {
        "best": best,
        "cheapest": min(level, key=lambda one: one["cost"]),
        "none": next((one for one in confirmed if one["fields"]["primitive"] == "none"), None),
    }
    chosen = points[recommended]
    for role, point in points.items():
        if point is not None:
            point["roles"] += [role, *(["recommended"] if role == recommended else [])]
    curve, top = [], -np.inf
    for one in sorted(confirmed, key=lambda one: one["cost"]):
        if sign * one["score"]["mean"] > top or one["roles"]:
            curve.append(one)
            top = max(top, sign * one["score"]["mean"])
    words = f"{chosen['label']} reaches {chosen['score']['mean']:.4g}"
    headline = f"Use {words} for {chosen['cost']:g} uploads."
    unit = "%" if losses else "points"
    ends, not_tried = "H = 10 is the largest value that was tried", "rules such as by_island"
    found = {
        "version": 2,
        "question": {
            "goal": "both", "goal_text": goal_text, "measures": list(measures),
            "lower_is_better": losses, "unit": unit, "tolerance": tolerance,
            "tolerance_text": f"{tolerance:g} {unit}", "budget": budget,
            "cost_unit": "messages" if downlink else "uploads", "message_bytes": 2600,
            "prices": {**prices, "broadcast": None, "d2d": 0},
            "rounds": chosen["rounds"], "minutes": 2.0, "seconds": 71.3,
            "varied": {"primitive": ["none", "s2s", "s2a"], "sampled": [2, 4], "period": [2, 10]},
            "fixed": {"model": "linear", "batch": 8},
            "ends": [ends],
            "not_tried": [not_tried],
        },
        "headline": headline,
        "summary": [
            headline, f"The best within the budget is {best['label']}.", f"End of a range: {ends}.",
            f"Not tried: {not_tried}.",
        ],
        "verdict": "clear",
        "recommended": recommended,
        "recommendation": chosen["fields"],
        "points": points,
        "curve": curve,
        "confirmed": sorted(confirmed, key=lambda one: one["cost"]),
        "searched": searched,
        "statements": [
            {"text": f"the cheapest is within {tolerance:g} of the best", "probability": 0.93},
        ],
        "sensitivity": [
            {"condition": "if the budget were halved", "answer": "the same", "changes": False,
             "basis": "pilot"}
        ],
        "constants": None,
        "bounds": None,
        "pilot": {
            "seeds": sorted({run.experiment.seed for run in table.runs} - set(fresh)) or fresh,
            "fresh_seeds": fresh, "rounds": chosen["rounds"], "runs": len(table.runs),
            "diverged": 0, "seconds": 71.3,
        },
        "commands": {"use": "skerry run a.toml", "compare": "skerry run a.toml --compare s2s,s2a"},
        "notes": ["the data have no common test samples"],
        **changes,
    }  # fmt: skip
    text = json.dumps(found, indent=1).replace(": NaN", ": null")  # as skerry advise writes it
    (folder / "advice.json").write_text(text)
    return dict(json.loads(text))
