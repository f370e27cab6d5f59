"""Generated fleets with a question each, on which `skerry advise` is tested.

Fleets 0 to 23 were used while the procedure was built; 24 to 35 were drawn and asked about once,
afterwards. The study judges 0 to 11 and 24 to 35. A fleet is a function of its number: its islands
and their graphs, its data (the devices' own rows, or the embedded digits dealt to devices), its
model and training, and its question (goal, prices and budget).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

import skerry
from skerry.theory.communication import Prices

HELD_OUT = range(24, 36)
STUDIED = (*range(12), *HELD_OUT)
GRAPHS = {
    "ring": nx.cycle_graph,
    "line": nx.path_graph,
    "star": lambda n: nx.star_graph(n - 1),
    "complete": nx.complete_graph,
    "random": lambda n: nx.connected_watts_strogatz_graph(n, min(4, n - 1), 0.3, seed=n),
}
GOALS = ("global", "own", "both")
SHIFTS = (0.0, 0.4, 1.2)  # how far islands, and devices within an island, differ
BUDGETS = (None, 0.25, 1.0, 3.0)  # relative to K = n/5 and H = 5
CLASSES, FEATURES = 6, 12


def read_numbers(text: str) -> list[int]:
    """Numbers of fleets from a text such as `0-11,24`."""
    ends = [part.partition("-") for part in text.split(",")]
    return [i for first, _, last in ends for i in range(int(first), int(last or first) + 1)]


@dataclass(frozen=True)
class Fleet:
    """A fleet and its question, both drawn from the fleet's number."""

    number: int

    @cached_property
    def drawn(self) -> dict[str, Any]:
        """All properties of the fleet, drawn from its number."""
        rng = np.random.default_rng([29, self.number])
        islands = int(rng.integers(2, 6))
        sizes = (
            rng.multinomial(int(rng.integers(20, 61)) - 4 * islands, [1 / islands] * islands) + 4
        )
        if rng.random() < 0.3:
            sizes[:] = sizes.mean().astype(int)
        return {
            "sizes": sizes.tolist(),
            "graphs": rng.choice(list(GRAPHS), islands).tolist(),
            # Every third fleet is a regression, and every sixth has digits.
            "task": ("classes", "numbers", "classes", "classes", "numbers", "digits")[
                self.number % 6
            ],
            "across": float(rng.choice(SHIFTS)),
            "within": float(rng.choice(SHIFTS)),
            "samples": int(rng.integers(20, 80)),
            "model": str(rng.choice(["linear", "mlp"])),
            "rounds": int(rng.integers(4, 11)) * 10,
            "batch": int(rng.choice([8, 16, 32])),
            "stepsize": float(rng.choice([0.03, 0.1, 0.3])),
            "goal": GOALS[(self.number + self.number // 6) % 3],
            "budget": BUDGETS[(self.number + self.number // 4) % 4],
            "uploads": bool(rng.random() < 0.5),  # whether only uploads cost anything
        }

    @property
    def n(self) -> int:
        return sum(self.drawn["sizes"])

    @cached_property
    def names(self) -> list[list[str]]:
        """The names of the devices of each island."""
        sizes = self.drawn["sizes"]
        return [[f"site{c}-{i:02}" for i in range(size)] for c, size in enumerate(sizes)]

    @cached_property
    def graph(self) -> "nx.Graph[str]":
        islands = [
            nx.relabel_nodes(GRAPHS[kind](len(names)), dict(enumerate(names)))
            for kind, names in zip(self.drawn["graphs"], self.names, strict=True)
        ]
        return nx.compose_all(islands)

    @cached_property
    def dataset(self) -> "skerry.Dataset | None":
        """The devices' own samples; None for digits, which are dealt."""
        drawn = self.drawn
        if drawn["task"] == "digits":
            return None
        rng = np.random.default_rng([2900, self.number])
        outputs = CLASSES if drawn["task"] == "classes" else 1
        shared = rng.normal(size=(FEATURES, outputs))
        train, test, islands = {}, {}, {}
        for c, names in enumerate(self.names):
            island = drawn["across"] * rng.normal(size=(FEATURES, outputs))
            centre = 0.5 * drawn["across"] * rng.normal(size=FEATURES)
            for name in names:
                rule = shared + island + drawn["within"] * rng.normal(size=(FEATURES, outputs))
                count = int(rng.integers(drawn["samples"] // 2, 2 * drawn["samples"])) + 25
                x = centre + rng.normal(size=(count, FEATURES))
                z = x @ rule / np.sqrt(FEATURES) + 0.3 * rng.normal(size=(count, outputs))
                y = z.argmax(axis=1) if outputs > 1 else z[:, 0]
                train[name], test[name] = (x[25:], y[25:]), (x[:25], y[:25])
                islands[name] = f"site{c}"
        return skerry.from_devices(train, own_test=test, islands=islands)

    @cached_property
    def experiment(self) -> skerry.Experiment:
        drawn = self.drawn
        inter = "non_iid" if drawn["across"] > 0.5 else "dirichlet" if drawn["across"] else "iid"
        intra = "dirichlet" if drawn["within"] else "iid"
        model = ["model.name=mlp", "model.hidden=16"] if drawn["model"] == "mlp" else []
        digits = [f"data.inter={inter}", f"data.intra={intra}"]
        return skerry.Experiment.parse(
            {},
            [
                f"name=fleet {self.number}",
                f"rounds={drawn['rounds']}",
                f"network.devices={self.n}",
                f"server.sampled={max(2, self.n // 5)}",
                f"training.batch={drawn['batch']}",
                f"training.stepsize={drawn['stepsize']}",
                *model,
                *(digits if drawn["task"] == "digits" else []),
            ],
        )

    @property
    def materials(self) -> dict[str, Any]:
        given = {} if self.dataset is None else {"dataset": self.dataset}
        return {"graph": self.graph, **given}

    @property
    def prices(self) -> Prices:
        return Prices(downlink=0.0) if self.drawn["uploads"] else Prices()

    @property
    def budget(self) -> float | None:
        """The largest cost of a run."""
        share, rounds = self.drawn["budget"], self.drawn["rounds"]
        if share is None:
            return None
        each = self.n // 5 + (0 if self.drawn["uploads"] else self.n)
        return float(round(share * each * rounds / 5))
