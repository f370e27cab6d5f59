"""Ask `skerry advise` about the generated fleets, several at a time, two cores each.

    python studies/advice/ask.py --minutes 2 --pairs 8 --out answers

Every question runs in a process of its own on two cores (`taskset`). Writes answers/NN.json: the
recommendation and what the advice says, or the error. The script also works with an older version
of Skerry on PYTHONPATH, which is how that version was asked.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fleets import Fleet, read_numbers


def ask(number: int, minutes: float) -> dict[str, Any]:
    """The advice on a fleet as JSON, with the seconds that it took."""
    import skerry

    fleet = Fleet(number)
    asked: dict[str, Any] = {"goal": fleet.drawn["goal"], **fleet.materials}
    if fleet.budget is not None:
        asked |= {"budget": fleet.budget, "prices": fleet.prices}
    elif skerry.advise.__kwdefaults__ and "sampled" in skerry.advise.__kwdefaults__:
        asked["prices"] = fleet.prices  # older versions take prices for a budget
    began = time.monotonic()
    try:
        advice = skerry.advise(fleet.experiment, minutes=minutes, device="cpu", **asked).to_json()
    except skerry.SkerryError as error:
        return {"fleet": number, "error": str(error), "seconds": time.monotonic() - began}
    kept = {
        name: advice.get(name)
        for name in (
            "recommendation",
            "recommended",
            "verdict",
            "confidence",
            "points",
            "statements",
        )
    }
    kept |= {"pilot": {k: v for k, v in advice["pilot"].items() if k != "standings"}}
    return {
        "fleet": number,
        "seconds": time.monotonic() - began,
        "headline": advice["summary"][0],
        **kept,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", default="0-11,24-35")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=1, help="how many pairs of cores to use")
    parser.add_argument("--out", type=Path, default=Path("answers"))
    parser.add_argument("--one", type=int, help="ask about this fleet only, in this process")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(ask(options.one, options.minutes)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    numbers = read_numbers(options.fleets)
    waiting, running = numbers, {}
    while waiting or running:
        for pair in range(options.pairs):
            if pair not in running and waiting:
                number = waiting.pop(0)
                file = options.out / f"{number:02}.json"
                command = ["taskset", "-c", f"{2 * pair},{2 * pair + 1}", sys.executable, __file__]
                command += ["--one", str(number), "--minutes", str(options.minutes)]
                environment = os.environ | {"OMP_NUM_THREADS": "2"}
                with file.open("w") as out:
                    process = subprocess.Popen(command, stdout=out, env=environment)
                running[pair] = (process, number)
        for pair, (process, number) in list(running.items()):
            if process.poll() is not None:
                print(f"fleet {number}: exit {process.returncode}", flush=True)
                del running[pair]
        time.sleep(0.2)


if __name__ == "__main__":
    main()
