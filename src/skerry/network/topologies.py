"""Graphs of one component: thin functions over networkx, all of them on the nodes 0..size-1.

A topology is `(size, network, rng, *, options) -> networkx.Graph`; its options are fields of the
network. A component is connected by definition, so a fixed random graph is drawn again until it is;
a fresh graph of one round need not be.
"""

from collections.abc import Callable, Iterator
from math import isqrt
from pathlib import Path

import networkx as nx
import numpy as np

from skerry.errors import NetworkError, one_line
from skerry.experiment import Network
from skerry.network.links import Graph

REDRAWS = 200


def ring(size: int, network: Network, rng: np.random.Generator) -> Graph:
    # networkx closes a cycle of one with a self-loop.
    graph: Graph = nx.cycle_graph(size) if size > 1 else nx.empty_graph(size)
    return graph


def path(size: int, network: Network, rng: np.random.Generator) -> Graph:
    graph: Graph = nx.path_graph(size)
    return graph


def star(size: int, network: Network, rng: np.random.Generator) -> Graph:
    graph: Graph = nx.star_graph(size - 1)
    return graph


def complete(size: int, network: Network, rng: np.random.Generator) -> Graph:
    graph: Graph = nx.complete_graph(size)
    return graph


def grid(size: int, network: Network, rng: np.random.Generator) -> Graph:
    """The most square open r x c grid with r * c = size; a path when size is prime."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*most_square(size)))


def torus(size: int, network: Network, rng: np.random.Generator) -> Graph:
    """The grid with its ends joined; sides of 1 or 2 stay open, so a prime size is a ring."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(*most_square(size), periodic=True))


def most_square(size: int) -> tuple[int, int]:
    """The sides r <= c of the most square rectangle of this area."""
    r = next(side for side in range(isqrt(size), 0, -1) if size % side == 0)
    return r, size // r


def regular(size: int, network: Network, rng: np.random.Generator, *, degree: int) -> Graph:
    """A random graph in which every device has `degree` links."""
    return _drawn(network, "degree", lambda: _regular(degree, size, rng))


def _regular(degree: int, size: int, rng: np.random.Generator) -> Graph:
    drawn = nx.random_regular_graph(degree, size, seed=_seed(rng))
    # Its nodes come in the order of the drawn edges.
    return nx.convert_node_labels_to_integers(drawn, ordering="sorted")


def erdos_renyi(
    size: int, network: Network, rng: np.random.Generator, *, edge_prob: float
) -> Graph:
    """Each pair of devices is linked with probability `edge_prob`."""
    return _drawn(
        network, "edge_prob", lambda: nx.fast_gnp_random_graph(size, edge_prob, seed=_seed(rng))
    )


def watts_strogatz(
    size: int, network: Network, rng: np.random.Generator, *, degree: int, rewire_prob: float
) -> Graph:
    """A small world: a ring with `degree` neighbours, each link moved with probability
    `rewire_prob`; an odd degree counts as the even one below."""
    return _drawn(
        network,
        "degree",
        lambda: nx.watts_strogatz_graph(size, degree, rewire_prob, seed=_seed(rng)),
    )


def barabasi_albert(size: int, network: Network, rng: np.random.Generator, *, degree: int) -> Graph:
    """A few hubs: every device joins with degree // 2 links (at least one) to the popular ones."""
    return nx.barabasi_albert_graph(size, max(1, degree // 2), seed=_seed(rng))


def _seed(rng: np.random.Generator) -> int:
    """A seed for networkx, which draws ten times faster from its own generator than from ours."""
    return int(rng.integers(2**63))


def _drawn(network: Network, field: str, draw: Callable[[], Graph]) -> Graph:
    """One draw; for a fixed graph, the first that is connected."""
    if network.dynamic:
        return draw()
    for _ in range(REDRAWS):
        graph = draw()
        if nx.is_connected(graph):
            return graph
    raise NetworkError(
        f"a component must be connected, but {REDRAWS} draws of {network.topology} with "
        f"network.{field} = {getattr(network, field)} on {len(graph)} devices were not. "
        f"Raise network.{field}."
    )


# Graphs from files

_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v")}


def read_graph(path: str | Path) -> Graph:
    """The graph in an edge list (two columns, spaces or commas, # comments, further columns
    ignored) or in a .graphml file, with its node labels as strings.

    Self-loops are dropped: `a a` is how an edge list names a device without links. A directed
    graph is refused, because a link carries models both ways.
    """
    path = Path(path)
    if not path.is_file():
        raise NetworkError(f"no graph file {path}. Check network.topology.")
    is_graphml = path.suffix.lower() == ".graphml"
    graph = _read_graphml(path) if is_graphml else _read_edge_list(path)
    if not graph:
        raise NetworkError(f"{path} holds no devices. Write one link per line: 'a b'.")
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def _read_graphml(path: Path) -> Graph:
    try:
        graph = nx.read_graphml(path)
    except Exception as error:  # networkx passes on whatever its XML parser raises
        raise NetworkError(
            f"{path} is not GraphML ({one_line(error)}). Use networkx.write_graphml."
        ) from error
    if graph.is_directed():
        raise NetworkError(
            f'{path} is directed (edgedefault="directed"), but a link carries models both ways. '
            "Save graph.to_undirected()."
        )
    return nx.Graph(graph)  # parallel links are one link


def _read_edge_list(path: Path) -> Graph:
    graph: Graph = nx.Graph()
    try:
        graph.add_edges_from(_edges(path))
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(
            f"cannot read {path} as text ({error}). Save it as UTF-8, one link per line: 'a b'."
        ) from None
    return graph


def _edges(path: Path) -> Iterator[tuple[str, str]]:
    first = True
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        columns = text.split(",") if "," in text else text.split()
        ends = tuple(column.strip().strip('"') for column in columns[:2])
        if len(ends) < 2 or not all(ends):
            raise NetworkError(
                f"line {number} of {path} must name two devices (got '{text[:60]}'). "
                "Write one link per line: 'a b'; 'a a' is a device without links."
            )
        is_header = first and tuple(end.lower() for end in ends) in _HEADERS
        first = False
        if not is_header:
            yield ends[0], ends[1]
