"""One component: its links, drawn by a topology or taken from a graph, and the weights on them."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network import mixing
from skerry.network.links import Graph, Links
from skerry.network.sequence import GraphSequence
from skerry.network.topologies import NEVER_DRAWN
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import CONTEXT, takes_context

SMALL = 256
"""Devices of an island whose shape is kept for the next one."""


def asks_round(network: Network) -> bool:
    """Whether its topology is a user's own that is asked anew in every round, and told which."""
    name = network.topology
    if ":" not in name or network.is_file:
        return False
    return bool(getattr(registry.resolve("topology", name), "asks_round", False))


def draw_component(
    size: int,
    network: Network,
    rng: np.random.Generator,
    t: int = 0,
    context: Context | None = None,
) -> Links:
    """One component's links, drawn by its topology and checked; of round t, where the topology asks
    for the round.

    A dynamic network deals the places of the drawn graph to the devices at random, so that a
    fresh ring is a different ring and a fresh hub a different device.
    """
    name = network.topology
    if faults := list(network.degree_faults([size])):
        raise NetworkError(*faults)
    if name in NEVER_DRAWN and size <= SMALL:
        links, changing = _known_shape(name, size), False
    else:
        with registry.users_own("topology", name, NetworkError):
            topology = registry.resolve("topology", name)
            told = _told("topology", network, t, context)
            changing = asks_round(network)
            graph = topology(size, network, rng, *([t] if changing else []), **told)
        links = _links_of_topology(name, graph, size)
    if network.dynamic:
        return links.shuffled(rng)
    if not links.connected and not changing:
        raise NetworkError(
            f"topology '{name}' must give a connected graph, because a component is connected by "
            "definition (got several pieces). Add links, or set network.dynamic = true."
        )
    return links


@lru_cache(maxsize=16)
def _known_shape(name: str, size: int) -> Links:
    """A large fleet has thousands of islands of the same shape: it is made once."""
    return Links.of(registry.resolve("topology", name)(size, None, None))


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
    """The links that are up when each is down with probability `failure`."""
    return links.only(rng.random(len(links.edges)) >= failure)


def between_the_awake(links: Links, awake: NDArray[np.bool_]) -> Links:
    """The links whose two ends are both awake."""
    return links.only(np.asarray(awake[links.edges].all(axis=1)))


def _told(kind: str, network: Network, t: int, context: Context | None) -> dict[str, Any]:
    """The options of a topology or mixing, and where the run stands, if it asks."""
    options = network.options_for(kind)
    if not takes_context(kind, network.functions[kind]):
        return options
    known = context or Context(seed=0, sizes=network.sizes)
    return {**options, CONTEXT: replace(known, round=t, options=options)}


def weigh(
    links: Links, network: Network, t: int = 0, context: Context | None = None
) -> sparse.csr_array:
    """W of one component in one round. Built-in weights obey the rules by construction; a user's
    are verified every time."""
    name = network.mixing
    if registry.is_builtin("mixing", name):
        W: sparse.csr_array = registry.resolve("mixing", name)(links)
        return W
    with registry.users_own("mixing", name, NetworkError):
        weights, told = registry.resolve("mixing", name), _told("mixing", network, t, context)
        W_user = weights(links.to_graph(), **told)
    try:
        return mixing.verified(W_user, links)
    except NetworkError as error:
        raise NetworkError(f"mixing '{name}': {error}") from None


def islands(graph: Graph) -> tuple[tuple[Links, ...], tuple[str, ...]]:
    """The connected components of a graph, and the labels of the devices in their new order.

    Components come in the order of their first nodes, and nodes inside them in node order.
    """
    links, labels = numbered_by_component(graph)
    return split_links(links, np.bincount(links.pieces)), labels


def split_links(links: Links, sizes: NDArray[np.integer]) -> tuple[Links, ...]:
    """The links of each component, where none goes from one to another."""
    starts = np.cumsum(sizes) - sizes
    edges = np.split(links.edges, np.searchsorted(links.edges[:, 0], starts[1:]))
    return tuple(
        Links(int(size), edges - start)
        for size, start, edges in zip(sizes, starts, edges, strict=True)
    )


def islands_over_time(
    sequence: GraphSequence,
) -> tuple[tuple[tuple[Links, ...], ...], tuple[str, ...]]:
    """For each graph of a sequence the links on every island, and the labels of the devices. The
    islands are the components of all graphs together."""
    union = sequence.union
    links, labels = numbered_by_component(union)
    number = dict(zip(union, np.argsort(_by_component(union)[1]).tolist(), strict=True))
    sizes = np.bincount(links.pieces)
    found = []
    for graph in sequence.graphs:
        ends = [number[node] for edge in graph.edges() for node in edge]
        drawn = Links.between(len(number), ends)
        found.append(split_links(drawn, sizes))
    return tuple(found), labels


def numbered_by_component(graph: Graph) -> tuple[Links, tuple[str, ...]]:
    """The whole graph with the devices of each component next to each other, and its labels."""
    if not isinstance(graph, nx.Graph):
        raise NetworkError(f"a graph must be a networkx.Graph (got {type(graph).__name__}).")
    in_node_order, order = _by_component(graph)
    place = np.argsort(order)
    nodes = list(graph)
    return (
        Links.between(in_node_order.size, place[in_node_order.edges]),
        tuple(str(nodes[device]) for device in order),
    )


def _by_component(graph: Graph) -> tuple[Links, NDArray[np.int64]]:
    """The links in node order, and the nodes in the order of the components."""
    links = Links.of(nx.convert_node_labels_to_integers(graph))
    return links, np.argsort(links.pieces, kind="stable")
