"""A graph as an array of links, from which W is computed."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from skerry.errors import NetworkError

if TYPE_CHECKING:
    Graph: TypeAlias = nx.Graph[Any]
else:
    Graph = nx.Graph  # generic in its type stubs only

Edges: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Links:
    """Devices 0..size-1 and their links: rows (i, j) with i < j, sorted, each once."""

    size: int
    edges: Edges

    def __post_init__(self) -> None:
        if not self.size:
            raise NetworkError("a graph must have at least one device (got an empty one).")

    @classmethod
    def between(cls, size: int, edges: npt.ArrayLike) -> "Links":
        """Links from pairs of devices in any order, possibly repeated."""
        pairs = np.sort(np.asarray(edges, dtype=np.int64).reshape(-1, 2), axis=1)
        codes = np.unique(pairs[:, 0] * size + pairs[:, 1])
        return cls(size, np.stack(np.divmod(codes, size), axis=1))

    @classmethod
    def of(cls, graph: "GraphLike") -> "Links":
        """The links of a networkx graph or of a symmetric sparse adjacency matrix.

        Nodes 0..m-1 keep their numbers; nodes with other labels are numbered in node order.
        """
        if isinstance(graph, Links):
            return graph
        if isinstance(graph, sparse.sparray | sparse.spmatrix):
            return cls._of_adjacency(graph)
        if not isinstance(graph, nx.Graph):
            raise NetworkError(
                "a graph must be a networkx.Graph or a scipy sparse adjacency matrix "
                f"(got {type(graph).__name__})."
            )
        if graph.is_directed():
            raise NetworkError(
                "a graph must be undirected, because a link carries models both ways (got a "
                f"{type(graph).__name__}). Use graph.to_undirected()."
            )
        number = numbering(graph)
        ends = (number[node] for node in chain.from_iterable(graph.edges()))
        edges = np.fromiter(ends, np.int64).reshape(-1, 2)
        _refuse_loops(edges)
        return cls.between(len(number), edges)

    @classmethod
    def _of_adjacency(cls, adjacency: Any) -> "Links":
        if adjacency.shape[0] != adjacency.shape[1]:
            raise NetworkError(f"an adjacency matrix must be square (got {adjacency.shape}).")
        pattern: Any = sparse.csr_array(adjacency, dtype=bool)
        if (pattern != pattern.T).nnz:
            raise NetworkError(
                "an adjacency matrix must be symmetric, because a link carries models both ways. "
                "Use adjacency + adjacency.T."
            )
        edges = np.stack(pattern.nonzero(), axis=1)
        _refuse_loops(edges)
        return cls.between(adjacency.shape[0], edges)

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """The number of links of each device."""
        return np.bincount(self.edges.ravel(), minlength=self.size)

    @property
    def pieces(self) -> npt.NDArray[np.int32]:
        """For every device, the number of its connected component."""
        up = np.ones(len(self.edges), dtype=bool)
        adjacency = sparse.coo_array((up, tuple(self.edges.T)), shape=(self.size, self.size))
        labels: npt.NDArray[np.int32] = connected_components(adjacency, directed=False)[1]
        return labels

    @cached_property
    def connected(self) -> bool:
        """Whether the links join all devices."""
        return not self.pieces.any()

    def only(self, up: npt.NDArray[np.bool_]) -> "Links":
        """The links for which `up` holds."""
        return Links(self.size, self.edges[up])

    def shuffled(self, rng: np.random.Generator) -> "Links":
        """A copy of the graph with its devices permuted at random."""
        return Links.between(self.size, rng.permutation(self.size)[self.edges])

    def to_graph(self) -> Graph:
        """Convert the links to a networkx graph."""
        graph: Graph = nx.empty_graph(self.size)
        graph.add_edges_from(self.edges.tolist())
        return graph


GraphLike: TypeAlias = Graph | Links | sparse.sparray | sparse.spmatrix


def numbering(graph: Graph) -> dict[Hashable, int]:
    """A number for every node: the node itself if the nodes are 0..m-1, else its position."""
    m = len(graph)
    if all(isinstance(node, int | np.integer) and 0 <= node < m for node in graph):
        return {node: int(node) for node in graph}
    return {node: place for place, node in enumerate(graph)}


def _refuse_loops(edges: npt.NDArray[np.integer]) -> None:
    loops = edges[edges[:, 0] == edges[:, 1], 0]
    if loops.size:
        raise NetworkError(
            f"a device has no link to itself: it always keeps a share of its own model (got a "
            f"self-loop at node {loops[0]}). "
            "Use graph.remove_edges_from(list(networkx.selfloop_edges(graph)))."
        )
