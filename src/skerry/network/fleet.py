"""The fleet: devices on their islands, and the mixing matrix W(t) of every round, in blocks."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network import contraction
from skerry.network.components import (
    asks_round,
    between_the_awake,
    draw_component,
    islands,
    islands_over_time,
    numbered_by_component,
    surviving,
    weigh,
)
from skerry.network.contraction import Contraction, MixingParameters
from skerry.network.graph_files import read_graphs
from skerry.network.links import Edges, Graph, Links
from skerry.network.mixing import Matrix
from skerry.network.sequence import GraphSequence
from skerry.plugins.context import Context
from skerry.seeds import stream

MOST_LINKS = 10**7
"""That are drawn: several GB."""


@dataclass(frozen=True, eq=False)
class Block:
    """The mixing matrix of one component in one round, for the devices start..start+size-1.

    X W mixes models that are columns of X; models that are rows of a tensor mix as W.T @ X.
    """

    start: int
    size: int
    W: Matrix
    """Dense float64, or sparse where it is large and mostly zero."""


@dataclass(frozen=True, eq=False)
class OverTime:
    """The links of every component in each graph of a sequence."""

    sequence: GraphSequence
    links: tuple[tuple[Links, ...], ...]

    def at(self, t: int) -> tuple[Links, ...]:
        place = self.sequence.place(t)
        if place >= 0:
            return self.links[place]
        return tuple(Links.between(one.size, []) for one in self.links[0])

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.sequence.rounds}:".encode())
        for components in self.links:
            for one in components:
                digest.update(f"{one.size}:".encode() + one.edges.astype("<i8").tobytes())
        return digest.hexdigest()


class Fleet:
    """Devices 0..devices-1, numbered component by component, and who can talk to whom when.

    Every round is a function of (seed, t) alone, so rounds can be asked for in any order.
    """

    def __init__(
        self,
        network: Network,
        seed: int,
        sizes: tuple[int, ...],
        components: tuple[Links, ...] | None,
        labels: tuple[str, ...] | None = None,
        awake: Callable[[int], npt.NDArray[np.bool_]] | None = None,
        over_time: OverTime | None = None,
    ):
        """`components` are the links of each component; None draws fresh ones every round, or takes
        them from `over_time`. `awake` tells who is awake in a round: the links of all others are
        down. None: everybody."""
        self.network = network
        self.seed = seed
        self.sizes = sizes
        self.devices = sum(sizes)
        self.starts = tuple(int(start) for start in np.cumsum((0, *sizes[:-1])))
        self.component_of: npt.NDArray[np.int64] = np.repeat(np.arange(len(sizes)), sizes)
        self.labels = labels or tuple(str(device) for device in range(self.devices))
        self.awake = awake
        self.fixed = components is not None and not network.link_failure and awake is None
        self._components = components
        self._over_time = over_time
        self._latest_links: tuple[int, tuple[Links, ...]] | None = None
        self._latest_blocks: tuple[tuple[int, slice], tuple[Block, ...]] | None = None

    @property
    def context(self) -> Context:
        """What plug-ins may know of it."""
        return Context(self.seed, sizes=self.sizes, names=self.labels)

    def edges(self, t: int) -> Edges:
        """The links that are up in round t: rows of two devices, sorted."""
        up = zip(self.starts, self._up(t), strict=True)
        return np.concatenate([start + links.edges for start, links in up])

    def links(self, t: int) -> int:
        """How many links are up in round t."""
        return sum(len(links.edges) for links in self._up(t))

    def components(self, t: int) -> tuple[Links, ...]:
        """The links that are up in round t, component by component, each numbered from 0."""
        return self._up(t)

    def blocks(self, t: int, some: slice = slice(None)) -> tuple[Block, ...]:
        """W(t), component by component, of all or of some; components with the same links share
        one array."""
        asked = (0 if self.fixed else t), some
        if self._latest_blocks is None or self._latest_blocks[0] != asked:
            self._latest_blocks = asked, self._weighed(*asked)
        return self._latest_blocks[1]

    def matrix(self, t: int) -> sparse.csr_array:
        """W(t) as one n x n matrix."""
        blocks = [sparse.csr_array(block.W) for block in self.blocks(t)]
        return sparse.csr_array(sparse.block_diag(blocks, format="csr"))

    def graph(self, t: int) -> Graph:
        """Round t for drawing; nodes carry `component` and `label`."""
        graph = Links(self.devices, self.edges(t)).to_graph()
        nx.set_node_attributes(graph, dict(enumerate(self.component_of.tolist())), "component")
        nx.set_node_attributes(graph, dict(enumerate(self.labels)), "label")
        return graph

    def mixing_parameters(self, draws: int = 400) -> MixingParameters:
        """p of the components and of the fleet; where no formula holds, from `draws` rounds
        drawn beside the run."""
        known: dict[object, Contraction] = {}
        found = []
        if self._over_time is not None:
            changing = zip(*self._over_time.links, strict=True)
            given = [contraction.of_sequence(c, self.network, self.seed, draws) for c in changing]
            return contraction.of_fleet(given, self.sizes)
        for c, size in enumerate(self.sizes):
            links = self._components[c] if self._components else None
            law = (size, links.edges.tobytes() if links else None)
            if law not in known:
                known[law] = (
                    contraction.of_fixed(self.blocks(0)[c].W)
                    if self.fixed
                    else contraction.of_random(size, links, self.network, self.seed, draws)
                )
            found.append(known[law])
        return contraction.of_fleet(found, self.sizes)

    def _up(self, t: int) -> tuple[Links, ...]:
        if self._components and self.fixed:
            return self._components
        if self._latest_links is None or self._latest_links[0] != t:
            self._latest_links = (t, self._drawn(t))
        return self._latest_links[1]

    def _drawn(self, t: int) -> tuple[Links, ...]:
        network = self.network
        components = self._components or self._given(t)
        if components is None:
            components = tuple(
                draw_component(size, network, stream(self.seed, "graph", c, t), t, self.context)
                for c, size in enumerate(self.sizes)
            )
        if network.link_failure:
            rng = stream(self.seed, "links", t)
            components = tuple(surviving(one, network.link_failure, rng) for one in components)
        if self.awake is not None:
            parts = np.split(self.awake(t), self.starts[1:])
            components = tuple(map(between_the_awake, components, parts))
        return components

    def _given(self, t: int) -> tuple[Links, ...] | None:
        return None if self._over_time is None else self._over_time.at(t)

    def fingerprint(self) -> str:
        """Of the graph, or of all that are given over time."""
        if self._over_time is None:
            return fingerprint(self.graph(0))
        return self._over_time.fingerprint()

    def sleeping(self, awake: Callable[[int], npt.NDArray[np.bool_]]) -> "Fleet":
        """The same devices and links, where not everybody is always awake."""
        components, over_time = self._components, self._over_time
        return Fleet(self.network, self.seed, self.sizes, components, self.labels, awake, over_time)

    def _weighed(self, t: int, some: slice) -> tuple[Block, ...]:
        shared: dict[tuple[int, bytes], Matrix] = {}
        blocks = []
        for start, links in zip(self.starts[some], self._up(t)[some], strict=True):
            key = links.size, links.edges.tobytes()
            if key not in shared:
                shared[key] = _stored(weigh(links, self.network, t, self.context))
            blocks.append(Block(start, links.size, shared[key]))
        return tuple(blocks)


def _stored(W: sparse.csr_array) -> Matrix:
    return W if is_sparse(W.shape[0], W.nnz) else W.toarray()


def is_sparse(size: int, entries: int) -> bool:
    """Whether W is kept as a sparse matrix: where it is large and mostly zero."""
    return size > 256 and entries < 0.1 * size**2


def build_fleet(
    network: Network,
    seed: int,
    graph: Graph | GraphSequence | None = None,
    names: tuple[str, ...] | None = None,
) -> Fleet:
    """The fleet of an experiment; the components of a given graph or graph file are its islands.
    `names` are those of the devices where there is no graph: without them, their numbers."""
    if graph is None and network.is_file:
        graph = read_graphs(network.topology)
    if graph is not None:
        return _fleet_of_graph(network, seed, graph)
    _check_links(network)
    if network.dynamic or asks_round(network):
        return Fleet(network, seed, network.sizes, None, names)
    empty = Fleet(network, seed, network.sizes, None, names)
    components = tuple(
        draw_component(size, network, stream(seed, "graph", c), context=empty.context)
        for c, size in enumerate(network.sizes)
    )
    return Fleet(network, seed, network.sizes, components, names)


def _check_links(network: Network) -> None:
    """Raise NetworkError where drawing the links would fill the memory."""
    pairs = sum(size * (size - 1) for size in network.sizes) / 2
    share = {"complete": 1.0, "erdos_renyi": network.edge_prob}.get(network.topology, 0.0)
    if pairs * share > MOST_LINKS:
        raise NetworkError(
            f"network.topology = '{network.topology}' must have at most {MOST_LINKS:,} links (got "
            f"about {pairs * share:,.0f}). Lower network.devices, have more components, or take a "
            "topology with fewer links."
        )


def _fleet_of_graph(network: Network, seed: int, graph: Graph | GraphSequence) -> Fleet:
    if network.dynamic:
        raise NetworkError(
            "network.dynamic = true needs a topology to draw from (got a graph). Set "
            "network.dynamic = false; network.link_failure makes a given graph vary."
        )
    over_time, components = None, None
    if isinstance(graph, GraphSequence):
        links, labels = islands_over_time(graph)
        over_time = OverTime(graph, links)
        sizes = tuple(one.size for one in links[0])
    else:
        components, labels = islands(graph)
        sizes = tuple(one.size for one in components)
    asked, faults = network.model_fields_set, []
    if "devices" in asked and network.devices != sum(sizes):
        faults.append(
            f"network.devices must match the graph (got {network.devices}, the graph has "
            f"{sum(sizes)}). Leave network.devices out."
        )
    if "components" in asked and network.components not in (sizes, len(sizes)):
        faults.append(
            f"network.components must match the graph (got {network.components}, the graph has "
            f"{len(sizes)} of sizes {list(sizes)!s:.60}). Leave network.components out."
        )
    if faults:
        raise NetworkError(*faults)
    return Fleet(network, seed, sizes, components, labels, over_time=over_time)


def fingerprint(graph: Graph | Edges) -> str:
    """SHA-256 of a graph as the fleet numbers it, or of an edge array; labels play no part."""
    if isinstance(graph, np.ndarray):
        links = Links.between(int(graph.max(initial=-1)) + 1, graph)
    else:
        links, _ = numbered_by_component(graph)
    digest = hashlib.sha256(f"{links.size}:".encode())
    digest.update(links.edges.astype("<i8").tobytes())
    return digest.hexdigest()
