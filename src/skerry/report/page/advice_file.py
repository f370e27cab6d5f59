"""Read the advice that `skerry advise --out` wrote beside its runs (advice.json)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skerry.config.experiment import Experiment
from skerry.config.labels import BLEND
from skerry.config.presets import PRESETS
from skerry.errors import RecordsError, typed

FILE = "advice.json"
VERSION = 2
POINT = {"label": "", "fields": {}, "cost": 0.0, "score": {"mean": 0.0, "count": 0}}
EXAMPLE = {
    "version": VERSION,
    "question": {
        "goal_text": "", "measures": [""], "lower_is_better": False, "unit": "", "tolerance": 0.0,
        "tolerance_text": "", "cost_unit": "", "message_bytes": 0, "prices": {}, "varied": {},
        "fixed": {},
    },
    "headline": "", "summary": [""], "recommended": "", "recommendation": {},
    "points": {"best": POINT, "cheapest": POINT}, "curve": [POINT], "confirmed": [POINT],
    "searched": [{"label": "", "cost": 0.0, "score": 0.0}], "statements": [{"text": ""}],
    "sensitivity": [{"condition": "", "answer": "", "changes": False, "basis": ""}],
    "pilot": {"seeds": [0], "fresh_seeds": [0], "rounds": 0, "runs": 0, "diverged": 0},
    "commands": {}, "notes": [""],
}  # fmt: skip
"""What the page relies on: every advice has these fields, with values of these types. A number with
a point may be null, where it is not finite."""

Advice = dict[str, Any]


def read_advice(stores: Sequence[Path]) -> Advice | None:
    """The advice beside a store, with costs in its unit of cost; None if there is none, or if there
    are several stores."""
    file = stores[0].parent / FILE
    if len(stores) > 1 or not file.is_file():
        return None
    again = f"Make it again with the same command, or delete it: rm {typed(file)}"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.get("summary") and found.get("version") != VERSION:
        raise RecordsError(
            f"{file} was written by another version of Skerry (this report reads version "
            f"{VERSION}). {again}"
        )
    # Without a server nothing may have been confirmed, but the goal has a measure.
    is_advice = _is_like(EXAMPLE, found) and _is_like(POINT, found["points"].get("none") or POINT)
    if not is_advice or not found["question"]["measures"]:
        raise RecordsError(f"{file} cannot be read as advice. {again}")
    return _in_unit(found)


def _in_unit(advice: Advice) -> Advice:
    """The advice with all costs in `question.cost_unit`; in the file, costs in MB are messages."""
    asked, points = advice["question"], filter(None, advice["points"].values())
    if asked["cost_unit"] == "MB":
        priced = [*advice["curve"], *advice["confirmed"], *advice["searched"], *points]
        for one, name in (*((one, "cost") for one in priced), (asked, "budget")):
            if one.get(name) is not None:
                one[name] *= asked["message_bytes"] / 1e6
    return advice


def _is_like(example: Any, value: Any) -> bool:
    """Whether a value has the fields of the example, with values of the same types."""
    if isinstance(example, dict):
        return isinstance(value, dict) and all(
            name in value and _is_like(one, value[name]) for name, one in example.items()
        )
    if isinstance(example, list):
        return isinstance(value, list) and all(_is_like(example[0], one) for one in value)
    if isinstance(example, float) and value is None:
        return True
    return isinstance(value, type(example) if isinstance(example, str | bool) else int | float)


def is_at(experiment: Experiment, point: Advice) -> bool:
    """Whether an experiment has the setting and the rounds of a point."""
    fields = {"rounds": point.get("rounds"), **point["fields"]}
    server, training = experiment.server, experiment.training
    own = Advice(rounds=experiment.rounds, stepsize=training.stepsize)
    names = ("primitive", "sampled", "period", "selection") if server.is_there else ("primitive",)
    own |= {name: getattr(server, name) for name in names}
    own |= {"beta": server.beta} if server.primitive == BLEND else {}
    preset = server.name if server.name in PRESETS else ""
    return fields.get("preset", "") == preset and all(
        fields.get(name) in (None, value) for name, value in own.items()
    )
