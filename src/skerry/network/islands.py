"""Islands: their links, drawn by a topology or taken from a graph, and the weights on them."""

from collections import Counter
from functools import lru_cache
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skerry.config.experiment import Network
from skerry.errors import NetworkError, printable
from skerry.network import mixing
from skerry.network.graphs import GraphSequence
from skerry.network.links import Graph, Links
from skerry.network.topologies import DETERMINISTIC, DRAWN_UNTIL_CONNECTED
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import bind

SMALL = 256
"""Largest number of devices of an island whose deterministic graph is cached."""
REDRAWS = 200
"""Draws of a random graph until it is connected."""


def is_drawn_every_round(network: Network) -> bool:
    """Whether the topology is a user's own function that is called in every round."""
    name = network.topology
    if ":" not in name or network.is_file:
        return False
    return bool(getattr(registry.resolve("topology", name), "every_round", False))


def draw_island(size: int, network: Network, rng: np.random.Generator, context: Context) -> Links:
    """Draw the links of one island from its topology and check them.

    A dynamic network permutes the devices of the drawn graph at random, so that a fresh ring is a
    different ring and a fresh hub a different device.
    """
    name = network.topology
    if faults := list(network.degree_faults([size])):
        raise NetworkError(*faults)
    if name in DETERMINISTIC and size <= SMALL:
        links = _deterministic_links(name, size)
    else:
        links = _draw_links(size, network, context.with_facts(_generator=rng))
    if network.dynamic:
        return links.shuffled(rng)
    if not links.connected and not is_drawn_every_round(network):
        if field := DRAWN_UNTIL_CONNECTED.get(name):
            raise NetworkError(
                f"an island must be connected, but {REDRAWS} draws of {name} with network.{field} "
                f"= {getattr(network, field)} on {size} devices were not. Raise network.{field}."
            )
        raise NetworkError(
            f"topology '{name}' must give a connected graph, because an island is connected by "
            "definition (got several pieces). Add links, or set network.dynamic = true."
        )
    return links


def _draw_links(size: int, network: Network, context: Context) -> Links:
    """The links that a topology gives. A built-in random graph is drawn again until it is
    connected, unless the network is dynamic."""
    name, options = network.topology, network.options_for("topology")
    call = bind("topology", registry.resolve("topology", name), options)
    redraws = REDRAWS if name in DRAWN_UNTIL_CONNECTED and not network.dynamic else 1
    for _ in range(redraws):
        with registry.users_own("topology", name, NetworkError):
            graph = call(size, context=context)
        links = _links_of_topology(name, graph, size)
        if redraws == 1 or links.connected:
            break
    return links


@lru_cache(maxsize=16)
def _deterministic_links(name: str, size: int) -> Links:
    """Cached, because a large fleet has thousands of islands of the same shape."""
    return Links.of(registry.resolve("topology", name)(size))


def _links_of_topology(name: str, graph: Any, size: int) -> Links:
    try:
        links = Links.of(graph)
    except NetworkError as error:
        raise NetworkError(f"topology '{name}': {error}") from None
    if links.size != size:
        raise NetworkError(
            f"topology '{name}' must give a graph of the {size} devices asked for "
            f"(got {links.size} nodes). Use its first argument as the number of nodes."
        )
    return links


def surviving(links: Links, failure: float, rng: np.random.Generator) -> Links:
    """The links that are up when each fails with probability `failure`."""
    return links.only(rng.random(len(links.edges)) >= failure)


def awake_links(links: Links, awake: NDArray[np.bool_]) -> Links:
    """The links whose two ends are both awake."""
    return links.only(np.asarray(awake[links.edges].all(axis=1)))


def weigh(links: Links, network: Network, context: Context) -> sparse.csr_array:
    """W of one island in one round. Built-in weights obey the rules by construction; those of a
    user's function are checked every time."""
    name = network.mixing
    if registry.is_builtin("mixing", name):
        W: sparse.csr_array = registry.resolve("mixing", name)(links)
        return W
    with registry.users_own("mixing", name, NetworkError):
        weights, options = registry.resolve("mixing", name), network.options_for("mixing")
        graph = nx.freeze(links.to_graph())
        W_user = bind("mixing", weights, options)(graph, context=context)
    try:
        return mixing.check_mixing_matrix(W_user, links)
    except NetworkError as error:
        raise NetworkError(f"mixing '{name}': {error}") from None


def islands_of_graph(graph: Graph) -> tuple[tuple[Links, ...], tuple[str, ...]]:
    """The connected components of a graph, and the labels of the devices in their new order.

    Islands come in the order of their first nodes, and nodes inside them in node order.
    """
    links, labels = number_by_island(graph)
    return _split_by_island(links, np.bincount(links.pieces)), labels


def islands_of_sequence(
    sequence: GraphSequence,
) -> tuple[tuple[tuple[Links, ...], ...], tuple[str, ...]]:
    """For each graph of a sequence the links of every island, and the labels of the devices. The
    islands are the connected components of the union of all graphs."""
    union = sequence.union
    links, labels = number_by_island(union)
    number = dict(zip(union, np.argsort(_island_order(union)[1]).tolist(), strict=True))
    sizes = np.bincount(links.pieces)
    by_graph = []
    for graph in sequence.graphs:
        ends = [number[node] for edge in graph.edges() for node in edge]
        by_graph.append(_split_by_island(Links.between(len(number), ends), sizes))
    return tuple(by_graph), labels


def number_by_island(graph: Graph) -> tuple[Links, tuple[str, ...]]:
    """The links of a graph whose devices are renumbered island by island, and their labels."""
    if not isinstance(graph, nx.Graph):
        raise NetworkError(f"a graph must be a networkx.Graph (got {type(graph).__name__}).")
    in_node_order, order = _island_order(graph)
    place = np.argsort(order)
    nodes = list(graph)
    labels = tuple(str(nodes[device]) for device in order)
    _check_labels(labels)
    return Links.between(in_node_order.size, place[in_node_order.edges]), labels


def _check_labels(labels: tuple[str, ...]) -> None:
    """Raise NetworkError unless every device of a graph has a printable name of its own."""
    if len(set(labels)) < len(labels):
        twice = next(label for label, times in Counter(labels).items() if times > 1)
        raise NetworkError(
            f"two nodes of the graph are both called '{printable(twice)[:60]}', such as 1 and '1'. "
            "Give every device its own name: networkx.relabel_nodes(graph, {...})"
        )
    if strange := next((label for label in labels if not label.isprintable()), None):
        raise NetworkError(
            f"a device must have a name that can be printed (got {strange!r:.60}). Rename it."
        )


def _split_by_island(links: Links, sizes: NDArray[np.integer]) -> tuple[Links, ...]:
    """The links of each island, where no link joins two islands."""
    starts = np.cumsum(sizes) - sizes
    edges = np.split(links.edges, np.searchsorted(links.edges[:, 0], starts[1:]))
    return tuple(
        Links(int(size), edges - start)
        for size, start, edges in zip(sizes, starts, edges, strict=True)
    )


def _island_order(graph: Graph) -> tuple[Links, NDArray[np.int64]]:
    """The links in node order, and the nodes in the order of the islands."""
    links = Links.of(nx.convert_node_labels_to_integers(graph))
    return links, np.argsort(links.pieces, kind="stable")
