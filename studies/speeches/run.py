"""Speeches of 43 presidents: perplexity under S2S, S2A, and S2A with one device of each party.

    python studies/speeches/run.py --model gru --device cuda --out speeches-runs

A small transformer or a recurrent network learns to predict the next character. Runs are recorded
in --out like those of any sweep. The curves are added to --write (studies/speeches/data), with the
command and the versions. `python benchmarks/render.py` puts them into docs/fleets.md.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np

import skerry
from skerry.analysis.statistics import estimate
from skerry.files import replace_file
from skerry.records.store import versions

DATA = Path(__file__).parent / "data"
LANES = [["s2s", "uniform"], ["s2a", "uniform"], ["s2a", "one_each"]]
MODELS = ("transformer", "gru")
STEPSIZES = [0.3, 1.0]
MEASURES = ("average_loss", "average_perplexity", "average_token_accuracy", "own_loss")


def sweep(model: str, rounds: int, seeds: int, stepsizes: list[float]) -> skerry.Sweep:
    return skerry.Sweep(
        experiment={
            "name": "speeches",
            "rounds": rounds,
            "network": {"topology": "complete"},
            "data": {"dataset": "speeches", "split": "given"},
            "model": {"name": model, "width": 64},
            "training": {"batch": 16},
            "server": {"sampled": 8, "period": 5},  # eight parties
            "evaluate": {
                "every": max(1, rounds // 20),
                "device_samples": 200,
                "measures": ["average", "devices", "communication"],
            },
        },
        axes={
            "server.primitive, server.selection": LANES,
            "training.stepsize": stepsizes,
        },
        seeds=seeds,
    )


def rows(results: skerry.Results, stepsizes: list[float]) -> list[dict]:
    """A row per lane and stepsize: means over seeds and the half-width of their 95 % interval."""
    found = []
    for primitive, selection in LANES:
        for stepsize in stepsizes:
            lanes = [
                lane
                for lane in results
                if lane.experiment.server.primitive == primitive
                and lane.experiment.server.selection == selection
                and lane.experiment.training.stepsize == stepsize
            ]
            row = {"primitive": primitive, "selection": selection, "stepsize": stepsize}
            row["round"] = [int(t) for t in lanes[0].history["round"]]
            for measure in MEASURES:
                if measure not in lanes[0].history:
                    continue
                table = np.array([lane.history[measure] for lane in lanes])
                row[measure] = [
                    [_short(e.mean), _short(e.half_width)] for e in map(estimate, table.T)
                ]
            found.append(row)
    return found


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stepsizes", type=float, nargs="+", default=STEPSIZES)
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--write", type=Path, default=DATA / "speeches.json")
    asked = parser.parse_args()
    began = time.monotonic()
    study = sweep(asked.model, asked.rounds, asked.seeds, asked.stepsizes)
    results = skerry.run(study, out=asked.out, device=asked.device)
    about = {
        "command": shlex.join(["python", "studies/speeches/run.py", *sys.argv[1:]]),
        "seconds": round(time.monotonic() - began, 1),
        "seeds": asked.seeds,
        "versions": versions(),
    }
    found = {"about": about, "rows": rows(results, asked.stepsizes)}
    kept = json.loads(asked.write.read_text()) if asked.write.exists() else {}
    text = json.dumps({**kept, asked.model: found}, allow_nan=False)
    replace_file(asked.write, f"{text}\n".encode())
    for row in found["rows"]:
        print(row["primitive"], row["selection"], row["stepsize"], row["average_perplexity"][-1])


if __name__ == "__main__":
    main()
