"""The built-in topologies: thin functions over networkx that give the graph of one island.

A topology is `(size, *, options) -> networkx.Graph` on the nodes 0..size-1; its options are fields
of the network. An island is connected by definition, so a fixed random graph is drawn again until
it is (`network/islands.py`); a fresh graph of one round need not be connected.
"""

from math import isqrt

import networkx as nx
import numpy as np

from skerry.network.links import Graph
from skerry.plugins.context import Context

DETERMINISTIC = frozenset({"complete", "grid", "path", "ring", "star", "torus"})
"""Topologies whose graph depends on the size alone."""
DRAWN_UNTIL_CONNECTED = {
    "erdos_renyi": "edge_prob",
    "regular": "degree",
    "watts_strogatz": "degree",
}
"""Topologies that may give several pieces, and the field that makes that less likely."""


def ring(size: int) -> Graph:
    """A ring; two devices share one link."""
    # networkx closes a cycle of one with a self-loop.
    graph: Graph = nx.cycle_graph(size) if size > 1 else nx.empty_graph(size)
    return graph


def path(size: int) -> Graph:
    """A path from the first device to the last."""
    graph: Graph = nx.path_graph(size)
    return graph


def star(size: int) -> Graph:
    """The first device linked to all others."""
    graph: Graph = nx.star_graph(size - 1)
    return graph


def complete(size: int) -> Graph:
    """Every pair of devices linked."""
    graph: Graph = nx.complete_graph(size)
    return graph


def grid(size: int) -> Graph:
    """The most square open r x c grid with r * c = size; a path when size is prime."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*most_square(size)))


def torus(size: int) -> Graph:
    """The grid with its ends joined; sides of 1 or 2 stay open, so a prime size is a ring."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*most_square(size), periodic=True))


def most_square(size: int) -> tuple[int, int]:
    """The sides r <= c of the most square rectangle of this area."""
    r = next(side for side in range(isqrt(size), 0, -1) if size % side == 0)
    return r, size // r


def regular(size: int, context: Context, *, degree: int) -> Graph:
    """A random graph in which every device has `degree` links."""
    return _regular(degree, size, context.random())


def _regular(degree: int, size: int, rng: np.random.Generator) -> Graph:
    if size > 30 and degree > 0.8 * size:
        # networkx would try for minutes. The complement of a regular graph is regular, too.
        complement = nx.random_regular_graph(size - 1 - degree, size, seed=_seed(rng))
        graph = nx.complement(complement)
    else:
        graph = nx.random_regular_graph(degree, size, seed=_seed(rng))
    # Its nodes come in the order of the drawn edges.
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


def erdos_renyi(size: int, context: Context, *, edge_prob: float) -> Graph:
    """Each pair of devices is linked with probability `edge_prob`."""
    seed = _seed(context.random())
    graph: Graph = nx.fast_gnp_random_graph(size, edge_prob, seed=seed)
    return graph


def watts_strogatz(size: int, context: Context, *, degree: int, rewire_prob: float) -> Graph:
    """A small world: a ring with `degree` neighbours, each link moved with probability
    `rewire_prob`; an odd degree counts as the even one below."""
    seed = _seed(context.random())
    graph: Graph = nx.watts_strogatz_graph(size, degree, rewire_prob, seed=seed)
    return graph


def barabasi_albert(size: int, context: Context, *, degree: int) -> Graph:
    """A few hubs: every device joins with degree // 2 links (at least one) to the popular ones."""
    return nx.barabasi_albert_graph(size, max(1, degree // 2), seed=_seed(context.random()))


def _seed(rng: np.random.Generator) -> int:
    """A seed for networkx, which draws ten times faster from its own generator than from ours."""
    return int(rng.integers(2**63))
