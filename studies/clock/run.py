"""Runs for the study of clocks: S2S, S2A, blend and one of each island, on MNIST.

    python studies/clock/run.py --out runs

Time does not change what is learned, so every run is made once and priced under several clocks
afterwards (page.py). The store in --out keeps every round of every run; an interrupted study
resumes there.
"""

import argparse
import math
from itertools import product
from pathlib import Path

import skerry
from skerry.config.experiment import Experiment

REGIMES = {
    "alike": ("iid", "iid"),
    "devices differ": ("iid", "dirichlet"),
    "islands differ": ("non_iid", "iid"),
    "both differ": ("non_iid", "dirichlet"),
}
"""For each regime, the data split across islands and the split within them."""
SERVERS = {
    "S2S": {"primitive": "s2s"},
    "S2A": {"primitive": "s2a"},
    "blend 0.5": {"primitive": "blend", "beta": 0.5},
    "S2A, as many of each island": {"primitive": "s2a", "selection": "one_each"},
}
TOPOLOGIES = ("ring", "complete")
PERIODS = (5, 20)
STEPSIZES = (0.0316, 0.1, 0.316)
SEEDS = 5


def experiments(rounds: int, seeds: int) -> list[Experiment]:
    """All runs of the study; runs of one regime and seed share their world."""
    found = []
    for (inter, intra), seed in product(REGIMES.values(), range(seeds)):
        for topology, H, server, eta in product(TOPOLOGIES, PERIODS, SERVERS.values(), STEPSIZES):
            found.append(
                Experiment.parse(
                    {
                        "name": "clocks",
                        "seed": seed,
                        "rounds": rounds,
                        "network": {"devices": 100, "components": 2, "topology": topology},
                        "data": {"dataset": "mnist", "inter": inter, "intra": intra},
                        "training": {"stepsize": eta},
                        "server": {"sampled": 20, "period": H, **server},
                        "evaluate": {"measures": ["average", "communication"]},
                    }
                )
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args()
    skerry.run(
        experiments(asked.rounds, asked.seeds),
        out=asked.out,
        device=asked.device,
        keep_going=True,
        checkpoint_seconds=math.inf,
    )


if __name__ == "__main__":
    main()
