"""Runs for the study of clocks: S2S, S2A, blend and one of each island, on MNIST.

    python studies/clock/run.py --out runs
    python studies/clock/run.py --out t --rounds 2 --seeds 2 --few --write t/data.json   # a test

Time does not change what is learned, so every run is made once and priced under several clocks
afterwards (page.py). The store in --out keeps every round of every run; an interrupted study
resumes there. What the page needs is written to --write (studies/clock/data/runs.json): the
accuracies of every run, and the sizes and numbers of its messages.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skerry
from skerry.analysis.run_table import RunTable
from skerry.files import replace_file

sys.path.insert(0, str(Path(__file__).parent))  # for readers that load this file by its path
from clock_runs import DATA, LINKS, SEEDS, Setting, experiment, settings

FEW = ("data.dataset=digits", "training.batch=8")
"""Settings of a test."""


def kept_rows(folder: Path, runs: dict[str, Setting]) -> Iterator[dict[str, Any]]:
    """What the page needs of every recorded run, by key."""
    table = RunTable.read(folder)
    entries = {run.key: run for run in table.runs}
    for key, setting in runs.items():
        if key not in entries:
            raise SystemExit(f"{folder} has no run {key} ({setting}). Run the study to its end.")
        history = table.histories[key]
        counts = [int(history[f"{link}_messages"][-1]) for link in LINKS]
        sizes = [history[f"{link}_bytes"][-1] for link in LINKS]
        yield {
            **setting,
            "status": entries[key].status,
            "accuracy": [round(float(one), 2) for one in history["average_accuracy"]],
            "messages": counts,
            "bytes": [round(size / count, 3) for size, count in zip(sizes, counts, strict=True)],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--write", type=Path, default=DATA, help="where the kept numbers go")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--few", action="store_true", help="small data: a test")
    asked = parser.parse_args()
    more = FEW if asked.few else ()
    planned = [
        (setting, experiment(setting, asked.rounds).with_settings(*more))
        for setting in settings(asked.seeds)
    ]
    skerry.run(
        [one for _, one in planned],
        out=asked.out,
        device=asked.device,
        keep_going=True,
        checkpoint_seconds=math.inf,
    )
    rows = [*kept_rows(asked.out, {one.key(): setting for setting, one in planned})]
    entries = RunTable.read(asked.out).runs
    about = {
        "device": ", ".join(sorted({run.device for run in entries})),
        "rounds": asked.rounds,
        "seeds": asked.seeds,
        "settings": [*more],
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    text = f'{{"about": {json.dumps(about)},\n"runs": [\n{lines}\n]}}\n'
    asked.write.parent.mkdir(parents=True, exist_ok=True)
    replace_file(asked.write, text.encode())


if __name__ == "__main__":
    main()
