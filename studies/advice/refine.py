"""The settings that matter, on many further seeds.

These are the settings near the top of the grid of `truth.py`, the cheapest of them, what fixed
rules say, and what was recommended.

    python studies/advice/refine.py --truth truth --answers answers,older --seeds 60 --out refined
"""

import argparse
import json
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fleets import Fleet, read_numbers
from judge import settings_to_refine
from truth import MEASURES, scores

FIRST_SEED = 5000


def _task(work: tuple[int, int, str, str]) -> tuple[int, int, dict[str, "np.ndarray[Any, Any]"]]:
    number, seed, device, settings = work
    torch.set_num_threads(1)
    return number, seed, scores(Fleet(number), json.loads(settings), seed, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--answers", default="", help="folders with answers, joined by commas")
    parser.add_argument("--only-answers", action="store_true", help="leave the grid out")
    parser.add_argument("--fleets", default="0-11,24-35")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=Path("refined"))
    options = parser.parse_args()
    numbers = read_numbers(options.fleets)
    began, work, tables = time.monotonic(), [], {}
    for number in numbers:
        table = np.load(options.truth / f"{number:02}.npz")
        answers = []
        for folder in filter(None, options.answers.split(",")):
            file = Path(folder) / f"{number:02}.json"
            answer = json.loads(file.read_text()) if file.exists() and file.stat().st_size else {}
            points = [point["fields"] for point in (answer.get("points") or {}).values() if point]
            answers += [one for one in (answer.get("recommendation"), *points) if one]
        most = 0 if options.only_answers else 60
        tables[number] = json.dumps(settings_to_refine(Fleet(number), table, answers, most))
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        work += [(number, seed, options.device, tables[number]) for number in tables]
    found: dict[int, dict[int, dict[str, Any]]] = {number: {} for number in tables}
    with get_context("spawn").Pool(options.processes) as pool:
        for number, seed, one in pool.imap_unordered(_task, work):
            found[number][seed] = one
            if time.monotonic() - began > options.seconds:
                pool.terminate()
                break
    options.out.mkdir(parents=True, exist_ok=True)
    for number, by_seed in found.items():
        arrays = {
            name: np.stack([by_seed[s][name] for s in sorted(by_seed)], axis=1).astype(np.float32)
            for name in MEASURES
        }
        file = options.out / f"{number:02}.npz"
        np.savez_compressed(file, settings=tables[number], seeds=sorted(by_seed), **arrays)
    print(f"{time.monotonic() - began:.0f} s, seeds: {[len(found[n]) for n in found]}")


if __name__ == "__main__":
    main()
