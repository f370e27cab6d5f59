"""The fleet: devices on islands, and the mixing matrix W(t) of every round, in blocks."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network import contraction
from skerry.network.contraction import Contraction, MixingParameters
from skerry.network.graphs import GraphSequence, read_graphs
from skerry.network.islands import (
    awake_links,
    draw_island,
    is_drawn_every_round,
    islands_of_graph,
    islands_of_sequence,
    number_by_island,
    surviving,
    weigh,
)
from skerry.network.links import Edges, Graph, Links
from skerry.network.mixing import Matrix
from skerry.plugins.context import Context
from skerry.plugins.options import takes_context
from skerry.seeds import stream

T = TypeVar("T")
MOST_LINKS = 10**7
"""Most links that are drawn; they take several GB."""


@dataclass(frozen=True, eq=False)
class MixingBlock:
    """The mixing matrix of one island in one round, for the devices start..start+size-1.

    X W mixes models that are columns of X; models that are rows of a tensor mix as W.T @ X.
    """

    start: int
    size: int
    W: Matrix
    """Dense float64, or sparse where it is large and mostly zero."""


@dataclass(frozen=True, eq=False)
class LinkSequence:
    """The links of every island in each graph of a sequence."""

    sequence: GraphSequence
    links: tuple[tuple[Links, ...], ...]
    """By graph and island."""

    def at(self, t: int) -> tuple[Links, ...]:
        """The links of every island in round t."""
        index = self.sequence.index(t)
        if index >= 0:
            return self.links[index]
        return tuple(Links.between(island.size, []) for island in self.links[0])

    def fingerprint(self) -> str:
        """SHA-256 of the rounds and links; labels play no part."""
        return _hash_links(f"{self.sequence.rounds}:", chain.from_iterable(self.links))


@dataclass(eq=False, repr=False)
class Fleet:
    """Devices 0..devices-1, numbered island by island, and their links and W(t) in every round.

    Every round is a function of (seed, t) alone, so rounds can be asked for in any order.
    """

    network: Network
    seed: int
    sizes: tuple[int, ...]
    given: tuple[Links, ...] | None
    """The fixed links of each island; None: they come from `sequence`, or are drawn every round."""
    labels: tuple[str, ...] = ()
    awake: Callable[[int], npt.NDArray[np.bool_]] | None = None
    """The mask of the devices that are awake in a round: the links of all others are down. None: no
    device ever sleeps."""
    sequence: LinkSequence | None = None
    rounds: int | None = None
    """The number of rounds, for plug-ins that ask for it."""

    def __post_init__(self) -> None:
        self.devices = sum(self.sizes)
        self.starts = tuple(int(start) for start in np.cumsum((0, *self.sizes[:-1])))
        self.island_of: npt.NDArray[np.int64] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.labels = self.labels or tuple(map(str, range(self.devices)))
        varies = self.given is None or self.network.link_failure or self.awake is not None
        self.fixed = self._weighs_once = not varies
        self._latest: dict[str, tuple[Any, Any]] = {}

    def context(self, c: int, t: int | None = None) -> Context:
        """The context of the topology or of the weights of island c, in round t; without a round
        for links that are drawn once."""
        facts: dict[str, Any] = {} if self.rounds is None else {"rounds": self.rounds}
        return Context(
            "links are drawn for all rounds" if t is None else "the links of a round are drawn",
            _IslandFacts(self),
            seed=self.seed,
            island=c,
            sizes=self.sizes,
            devices=self.labels,
            **(facts if t is None else facts | {"round": t}),
        )

    def weights_context(self, c: int, t: int) -> Context:
        """The context of the weights of island c: without a round where W is computed once, so that
        no function takes round 0 for all rounds."""
        if self._weighs_once:
            return self.context(c).with_facts(_during="W is computed for all rounds", _is_kept=True)
        return self.context(c, t)

    def edges(self, t: int) -> Edges:
        """The links that are up in round t: sorted rows of two devices."""
        up = zip(self.starts, self.islands(t), strict=True)
        return np.concatenate([start + links.edges for start, links in up])

    def links(self, t: int) -> int:
        """The number of links that are up in round t."""
        return sum(len(links.edges) for links in self.islands(t))

    def islands(self, t: int) -> tuple[Links, ...]:
        """The links that are up in round t, by island; devices of each are numbered from 0."""
        if self.given and self.fixed:
            return self.given
        return self._kept("links", t, lambda: self._draw(t))

    def blocks(self, t: int, some: slice = slice(None)) -> tuple[MixingBlock, ...]:
        """W(t) as one block per island, of all islands or of some; islands with the same links
        share one array."""
        key = (0 if self.fixed else t), some
        return self._kept("blocks", key, lambda: self._weigh(*key))

    def matrix(self, t: int) -> sparse.csr_array:
        """W(t) as one n x n matrix."""
        blocks = [sparse.csr_array(block.W) for block in self.blocks(t)]
        return sparse.csr_array(sparse.block_diag(blocks, format="csr"))

    def graph(self, t: int) -> Graph:
        """The graph of round t for drawing; its nodes have the attributes `island` and `label`."""
        graph = Links(self.devices, self.edges(t)).to_graph()
        nx.set_node_attributes(graph, dict(enumerate(self.island_of.tolist())), "island")
        nx.set_node_attributes(graph, dict(enumerate(self.labels)), "label")
        return graph

    def frozen_graph(self, t: int) -> Graph:
        """The graph of round t, which cannot be changed."""
        t = 0 if self.fixed else t
        return self._kept("graph", t, lambda: nx.freeze(self.graph(t)))

    def frozen_matrix(self, t: int) -> sparse.csr_array:
        """W(t) as one n x n matrix, which cannot be changed."""
        t = 0 if self.fixed else t
        W = self._kept("W", t, lambda: self.matrix(t))
        for part in (W.data, W.indices, W.indptr):
            part.setflags(write=False)
        return W

    def _kept(self, name: str, key: Any, make: Callable[[], T]) -> T:
        """A value that is made once for a round; only the latest is kept."""
        if name not in self._latest or self._latest[name][0] != key:
            self._latest[name] = key, make()
        found: T = self._latest[name][1]
        return found

    def mixing_parameters(self, draws: int = 400) -> MixingParameters:
        """p of the islands and of the fleet; where no formula holds, it is estimated from `draws`
        rounds that are drawn independently of the run."""
        if self.sequence is not None:
            over_time = zip(*self.sequence.links, strict=True)
            found = [
                contraction.sequence_contraction(graphs, self.network, self.seed, draws, context)
                for graphs, context in zip(over_time, self._contexts(), strict=True)
            ]
            return contraction.fleet_parameters(found, self.sizes)
        known: dict[object, Contraction] = {}
        edges = [links.edges.tobytes() for links in self.given or ()] or [b""] * len(self.sizes)
        numbers = (c * self._islands_differ for c in range(len(self.sizes)))
        keys = [*zip(self.sizes, edges, numbers, strict=True)]
        for c, key in enumerate(keys):
            if key not in known:
                known[key] = self._contraction(c, draws)
        return contraction.fleet_parameters([known[key] for key in keys], self.sizes)

    def _contraction(self, c: int, draws: int) -> Contraction:
        """p of island c."""
        if self.fixed:
            W = self.blocks(0)[c].W
            return Contraction(contraction.mixing_parameter(W), contraction.p_frobenius(W))
        size, links = self.sizes[c], self.given[c] if self.given else None
        context = self._contexts()[c]

        def links_of(k: int, rng: np.random.Generator) -> Links:
            return links or draw_island(size, self.network, rng, context(k))

        return contraction.random_contraction(
            size, links_of, self.network, self.seed, draws, context
        )

    def _contexts(self) -> list[Callable[[int], Context]]:
        """For each island, its context as a function of the round."""
        return [partial(self.context, c) for c in range(len(self.sizes))]

    @cached_property
    def _islands_differ(self) -> bool:
        """Whether a user's own function may treat islands with the same links differently."""
        network = self.network
        topology = "" if network.is_file else network.topology
        functions = {"topology": topology, "mixing": network.mixing}
        return any(":" in name and takes_context(kind, name) for kind, name in functions.items())

    def fingerprint(self) -> str:
        """SHA-256 of the graph, or of the sequence of graphs; labels play no part."""
        if self.sequence is None:
            return graph_fingerprint(self.graph(0))
        return self.sequence.fingerprint()

    def part(self, rows: slice) -> "Fleet":
        """The fleet of consecutive devices, with the links between them."""
        up = zip(self.starts, self.given or self.islands(0), strict=True)
        edges = np.concatenate([start + links.edges for start, links in up]) - rows.start
        inside, links, first = np.bincount(self.island_of[rows]), [], 0
        for size in inside[inside > 0].tolist():
            own = edges[((edges >= first) & (edges < first + size)).all(axis=1)]
            links.append(Links(size, own - first))
            first += size
        sizes = tuple(island.size for island in links)
        labels = self.labels[rows]
        part = Fleet(self.network, self.seed, sizes, tuple(links), labels, rounds=self.rounds)
        part._weighs_once = self._weighs_once
        return part

    def _draw(self, t: int) -> tuple[Links, ...]:
        failure = self.network.link_failure
        islands = self.given or (self.sequence.at(t) if self.sequence else None)
        if islands is None:
            islands = tuple(
                draw_island(
                    size, self.network, stream(self.seed, "graph", c, t), self.context(c, t)
                )
                for c, size in enumerate(self.sizes)
            )
        if failure:
            rng = stream(self.seed, "links", t)
            islands = tuple(surviving(links, failure, rng) for links in islands)
        if self.awake is not None:
            parts = np.split(self.awake(t), self.starts[1:])
            islands = tuple(map(awake_links, islands, parts))
        return islands

    def _weigh(self, t: int, some: slice) -> tuple[MixingBlock, ...]:
        shared: dict[tuple[int, bytes, int], Matrix] = {}
        blocks, numbers, differ = [], range(len(self.sizes))[some], self._islands_differ
        for c, links in zip(numbers, self.islands(t)[some], strict=True):
            start, key = self.starts[c], (links.size, links.edges.tobytes(), c * differ)
            if key not in shared:
                W = weigh(links, self.network, self.weights_context(c, t))
                shared[key] = W if is_sparse(links.size, W.nnz) else W.toarray()
            blocks.append(MixingBlock(start, links.size, shared[key]))
        return tuple(blocks)


class _IslandFacts:
    """The facts of an island, for the context of its topology and weights."""

    def __init__(self, fleet: Fleet):
        self._fleet = fleet

    def rows(self, context: Context) -> npt.NDArray[np.int64]:
        c = context.island
        return self._fleet.starts[c] + np.arange(self._fleet.sizes[c])

    def awake(self, context: Context) -> npt.NDArray[np.bool_]:
        awake = self._fleet.awake
        return np.ones(self._fleet.devices, dtype=bool) if awake is None else awake(context.round)


def is_sparse(size: int, entries: int) -> bool:
    """Whether a W of this size and number of entries is stored sparse."""
    return size > 256 and entries < 0.1 * size**2


def build_fleet(
    network: Network,
    seed: int,
    graph: Graph | GraphSequence | None = None,
    names: tuple[str, ...] | None = None,
    rounds: int | None = None,
) -> Fleet:
    """Build the fleet of an experiment. The connected components of a given graph or graph file are
    its islands; without a graph, devices are called by `names`, or by their numbers."""
    if graph is None and network.is_file:
        graph = read_graphs(network.topology)
    if graph is not None:
        return _fleet_of_graph(network, seed, graph, rounds)
    _check_links(network)
    unlinked = Fleet(network, seed, network.sizes, None, names or (), rounds=rounds)
    if network.dynamic or is_drawn_every_round(network):
        return unlinked
    islands = tuple(
        draw_island(size, network, stream(seed, "graph", c), unlinked.context(c))
        for c, size in enumerate(network.sizes)
    )
    return replace(unlinked, given=islands)


def _check_links(network: Network) -> None:
    """Raise NetworkError if the links would not fit into memory."""
    pairs = sum(size * (size - 1) for size in network.sizes) / 2
    share = {"complete": 1.0, "erdos_renyi": network.edge_prob}.get(network.topology, 0.0)
    if pairs * share > MOST_LINKS:
        raise NetworkError(
            f"network.topology = '{network.topology}' must have at most {MOST_LINKS:,} links (got "
            f"about {pairs * share:,.0f}). Lower network.devices, use more islands, or take a "
            "topology with fewer links."
        )


def _fleet_of_graph(
    network: Network, seed: int, graph: Graph | GraphSequence, rounds: int | None
) -> Fleet:
    if network.dynamic:
        raise NetworkError(
            "network.dynamic = true needs a topology to draw from (got a graph). Set "
            "network.dynamic = false; network.link_failure makes a given graph vary."
        )
    sequence, islands = None, None
    if isinstance(graph, GraphSequence):
        links, labels = islands_of_sequence(graph)
        sequence = LinkSequence(graph, links)
        sizes = tuple(island.size for island in links[0])
    else:
        islands, labels = islands_of_graph(graph)
        sizes = tuple(island.size for island in islands)
    fields_set, faults = network.model_fields_set, []
    if "devices" in fields_set and network.devices != sum(sizes):
        faults.append(
            f"network.devices must match the graph (got {network.devices}, the graph has "
            f"{sum(sizes)}). Leave network.devices out."
        )
    if "components" in fields_set and network.components not in (sizes, len(sizes)):
        faults.append(
            f"network.components must match the graph (got {network.components}, the graph has "
            f"{len(sizes)} of sizes {list(sizes)!s:.60}). Leave network.components out."
        )
    if faults:
        raise NetworkError(*faults)
    return Fleet(network, seed, sizes, islands, labels, sequence=sequence, rounds=rounds)


def graph_fingerprint(graph: Graph | Edges) -> str:
    """SHA-256 of a graph as a fleet numbers its devices, or of an edge array; labels play no
    part."""
    if isinstance(graph, np.ndarray):
        links = Links.between(int(graph.max(initial=-1)) + 1, graph)
    else:
        links, _ = number_by_island(graph)
    return _hash_links("", [links])


def _hash_links(start: str, parts: Iterable[Links]) -> str:
    digest = hashlib.sha256(start.encode())
    for links in parts:
        digest.update(f"{links.size}:".encode() + links.edges.astype("<i8").tobytes())
    return digest.hexdigest()
