"""Graphs given over time: who can talk to whom in which round."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from skerry.errors import NetworkError
from skerry.network.links import Graph


@dataclass(frozen=True, eq=False)
class GraphSequence:
    """Several graphs of the same devices; one that a graph leaves out has no links there. A list
    has a graph for each round, and begins again after its last. With `rounds`, each graph holds
    from its round on, the last one to the end; before the first there are no links."""

    graphs: tuple[Graph, ...]
    rounds: tuple[int, ...] | None = None

    def place(self, t: int) -> int:
        """Which graph holds in round t; -1: none."""
        if self.rounds is None:
            return t % len(self.graphs)
        return bisect_right(self.rounds, t) - 1

    @property
    def union(self) -> Graph:
        """All devices, with all links that are ever up: its components are the islands."""
        every: Graph = nx.Graph()
        for graph in self.graphs:
            every.add_nodes_from(graph)
            every.add_edges_from(graph.edges())
        return every


def as_graph(given: Any) -> "Graph | GraphSequence | None":
    """What a user gives as a graph: one, a list of them, or a table of them by round."""
    if given is None or isinstance(given, GraphSequence | nx.Graph):
        return given
    if isinstance(given, Mapping):
        return _by_round(given)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return GraphSequence(_checked(given))
    raise NetworkError(
        "graph takes a networkx.Graph, a list of them with one for each round, or a dict of them "
        f"by the round from which each holds (got {type(given).__name__})."
    )


def _by_round(given: Mapping[Any, Any]) -> GraphSequence:
    wrong = [
        t for t in given if isinstance(t, bool) or not isinstance(t, int | np.integer) or t < 0
    ]
    if wrong:
        raise NetworkError(
            "graphs by round have the round from which each holds, a whole number of at least 0 "
            f"(got {wrong[0]!r})."
        )
    rounds = sorted(int(t) for t in given)
    return GraphSequence(_checked([given[t] for t in rounds]), tuple(rounds))


def _checked(graphs: Sequence[Any]) -> tuple[Graph, ...]:
    if not graphs:
        raise NetworkError("a sequence of graphs must have at least one (got an empty one).")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, nx.Graph) or graph.is_directed():
            raise NetworkError(
                "a sequence of graphs must hold undirected networkx graphs (got a "
                f"{type(graph).__name__} at place {place})."
            )
    return tuple(graphs)
