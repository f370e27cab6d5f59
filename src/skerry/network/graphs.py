"""Graphs that a user gives: networkx graphs, sequences of them over rounds, and graph files."""

import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from skerry.errors import NetworkError, one_line, printable, warn_once
from skerry.files import is_file, looked_at, user_path
from skerry.network.links import Graph

_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v")}
_HOW_TO_WRITE = "Write one link per line: 'a b'; 'a a' is a device without links."
# Possessive quantifiers (*+) never go back, so a line of any length is read in linear time.
_QUOTED = r'"(?:[^"]|"")*+"'
_BEFORE_COMMENT = re.compile(rf'(?:{_QUOTED}|[^"#]++)*+')
_WORD = re.compile(rf"{_QUOTED}|\S+")
_ARROW = re.compile("->|<-|=>|<=|[→←↔⇒⇐⇔]")
_DASH = re.compile("[-–—=~]+")


@dataclass(frozen=True, eq=False)
class GraphSequence:
    """Graphs of the same devices over the rounds of a run.

    Without `rounds` there is one graph per round, and the sequence repeats after its last. With
    `rounds`, each graph holds from its round on, and before the first there are no links. A device
    that a graph leaves out has no links in it.
    """

    graphs: tuple[Graph, ...]
    rounds: tuple[int, ...] | None = None

    def index(self, t: int) -> int:
        """The index of the graph that holds in round t, or -1 before the first one."""
        if self.rounds is None:
            return t % len(self.graphs)
        return bisect_right(self.rounds, t) - 1

    @property
    def union(self) -> Graph:
        """All devices with all links that are ever up; its connected components are the islands."""
        every: Graph = nx.Graph()
        for graph in self.graphs:
            every.add_nodes_from(graph)
            every.add_edges_from(graph.edges())
        return every


def as_graph(value: Any) -> "Graph | GraphSequence | None":
    """A user's `graph` argument as one graph or a sequence: a graph, a list with one graph per
    round, or a dict of graphs by the round from which each holds."""
    if value is None or isinstance(value, GraphSequence | nx.Graph):
        _warn_if_weighted([value] if isinstance(value, nx.Graph) else [])
        return value
    if isinstance(value, Mapping):
        for t in value:
            if isinstance(t, bool) or not isinstance(t, int | np.integer) or t < 0:
                raise NetworkError(
                    f"the keys of graphs by round must be whole numbers of at least 0 (got {t!r})."
                )
        rounds = sorted(value)
        graphs = _check_graphs([value[t] for t in rounds])
        return GraphSequence(graphs, tuple(int(t) for t in rounds))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return GraphSequence(_check_graphs(value))
    raise NetworkError(
        "graph takes a networkx.Graph, a list of them with one for each round, or a dict of them "
        f"by the round from which each holds (got {type(value).__name__})."
    )


def _check_graphs(graphs: Sequence[Any]) -> tuple[Graph, ...]:
    if not graphs:
        raise NetworkError("a sequence of graphs must have at least one (got an empty one).")
    for index, graph in enumerate(graphs):
        if not isinstance(graph, nx.Graph) or graph.is_directed():
            raise NetworkError(
                "a sequence of graphs must hold undirected networkx graphs (got a "
                f"{type(graph).__name__} at index {index})."
            )
    _warn_if_weighted(graphs)
    return tuple(graphs)


def _warn_of_weights(what: str) -> None:
    warn_once(f"{what}: all links count alike, and network.mixing gives them their weights in W.")


def _warn_if_weighted(graphs: Iterable[Graph]) -> None:
    if any("weight" in data for graph in graphs for _, _, data in graph.edges(data=True)):
        _warn_of_weights("the links of the graph have weights, which are ignored")


# Graph files


def read_graphs(path: str | Path) -> Graph | GraphSequence:
    """Read an edge list or a .graphml file, with node labels as strings.

    An edge list has two columns, separated by spaces or commas; # starts a comment, and further
    columns are ignored with a warning. A header that names a third column `round` makes it a
    sequence with a graph for each of its rounds. Self-loops are dropped: `a a` is how an edge list
    names a device without links. A directed graph is refused, because a link carries models both
    ways.
    """
    given, path = str(path), user_path(path)
    if not is_file(path):
        raise NetworkError(f"no graph file {looked_at(given)}. Check network.topology.")
    is_graphml = path.suffix.lower() == ".graphml"
    by_round = {0: _read_graphml(path)} if is_graphml else _read_edge_list(path)
    if not any(by_round.values()):
        raise NetworkError(f"{path} holds no devices. Write one link per line: 'a b'.")
    for graph in by_round.values():
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    rounds = sorted(t for t in by_round if t is not None)
    if rounds and not is_graphml:
        return GraphSequence(tuple(by_round[t] for t in rounds), tuple(rounds))
    return next(iter(by_round.values()))


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
    _warn_if_weighted([graph])
    return nx.Graph(graph)  # parallel links are one link


def _read_edge_list(path: Path) -> dict[int | None, Graph]:
    """The graphs of a file by round; the key is None where the file has no rounds."""
    by_round: dict[int | None, Graph] = {}
    try:
        for t, link in _edges(path):
            by_round.setdefault(t, nx.Graph()).add_edge(*link)
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(
            f"cannot read {path} as text ({error}). Save it as UTF-8, one link per line: 'a b'."
        ) from None
    return by_round


def _edges(path: Path) -> Iterator[tuple[int | None, tuple[str, str]]]:
    """The round and the two ends of every line of an edge list, without its header."""
    first, round_at = True, None
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        try:
            columns = _columns(line)
            if not columns:
                continue
            heading = [cell.lower() for cell in columns[:3]]
            if first and "round" in heading and _is_header(heading):
                first, round_at = False, heading.index("round")
                continue
            t = None if round_at is None else _round(columns, round_at)
            link = _link([cell for at, cell in enumerate(columns) if at != round_at])
        except ValueError as error:
            raise NetworkError(
                f"line {number} of {path} {error} (got '{printable(line.strip()[:60])}'). "
                f"{_HOW_TO_WRITE}"
            ) from None
        if len(columns) > 2 + (round_at is not None):
            _warn_of_weights(f"{path} has more columns than the ends of a link, which are ignored")
        is_header = first and _is_header([end.lower() for end in link])
        first = False
        if not is_header:
            yield t, link


def _is_header(cells: list[str]) -> bool:
    return tuple(cell for cell in cells if cell != "round") in _HEADERS


def _round(columns: list[str], at: int) -> int:
    cell = columns[at] if at < len(columns) else ""
    if not re.fullmatch("[0-9]{1,9}", cell):
        raise ValueError("must have a round, a whole number of at least 0")
    return int(cell)


def _columns(line: str) -> list[str]:
    """The cells of a line: separated by commas if there are any outside of quotes, else by
    spaces."""
    before_comment = _BEFORE_COMMENT.match(line)
    text = before_comment[0] if before_comment else ""
    if line[len(text) :].startswith('"'):
        raise ValueError("has a quote that does not end")
    text = text.strip()
    if '"' not in text and text.endswith("}"):  # attributes, as networkx writes them
        text, _, attributes = text.partition("{")
        if "weight" in attributes:
            _warn_of_weights("a graph file has weights, which are ignored")
    if "," in re.sub(_QUOTED, "", text):
        try:
            cells = next(csv.reader([text], skipinitialspace=True))
        except csv.Error:
            raise ValueError("has a cell that cannot be read") from None
    else:
        words = _WORD.findall(text)
        cells = [w[1:-1].replace('""', '"') if w.startswith('"') else w for w in words]
    return [cell.strip() for cell in cells]


def _link(columns: list[str]) -> tuple[str, str]:
    ends = columns[:2]
    if any(map(_ARROW.search, ends)) or (len(columns) > 2 and _DASH.fullmatch(ends[1])):
        raise ValueError("must not have an arrow or a dash: a link carries models both ways")
    if len(ends) < 2 or not all(ends):
        raise ValueError("must name two devices")
    return ends[0], ends[1]
