"""Measure the theory's constants of the MNIST problems in studies/advice/data/primitives.json.

    python studies/advice/constants.py

For each split and topology: smoothness, initial error, heterogeneity and noise, the largest value
after 0, 10 and 50 rounds, and the mixing parameter. They are written into the rows of the file.
"""

import json
from pathlib import Path
from typing import Any

import skerry
from skerry.files import replace_file

FILE = Path(__file__).parent / "data" / "primitives.json"


def measure(row: dict[str, Any]) -> dict[str, float]:
    """The constants of a row's problem, to six digits."""
    settings = {
        "network.devices": 100,
        "network.topology": row["topology"],
        "data.dataset": "mnist",
        "data.inter": row["inter"],
        "data.intra": row["intra"],
        "training.stepsize": 0.1,
    }
    experiment = skerry.Experiment.parse({}, [f"{name}={one}" for name, one in settings.items()])
    found = skerry.measure_constants(experiment, rounds=(0, 10, 50), draws=10)
    constants = {
        "smoothness": found.smoothness.value,
        "initial_error": found.f0.value,
        # Complete islands agree after one mixing; what is measured there is rounding.
        "zeta_intra2": 0.0 if row["topology"] == "complete" else found.zeta_intra2.value,
        "zeta_inter2": found.zeta_inter2.value,
        "sigma2": found.sigma2.value,
        "p": found.mixing.minimum,
    }
    return {name: float(f"{value:.6g}") for name, value in constants.items()}


def main() -> None:
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    known: dict[tuple[str, ...], dict[str, float]] = {}
    for row in kept["mnist"]["rows"]:
        problem = (row["inter"], row["intra"], row["topology"])
        if problem not in known:
            known[problem] = measure(row)
        row["constants"] = known[problem]
    text = json.dumps(kept, separators=(",", ":")).replace('{"inter"', '\n{"inter"')
    replace_file(FILE, f"{text}\n".encode())


if __name__ == "__main__":
    main()
