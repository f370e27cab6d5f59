"""Graphs from files: edge lists, as people and spreadsheets write them, and GraphML."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

from skerry.errors import NetworkError, one_line
from skerry.files import is_file, user_path
from skerry.network.links import Graph
from skerry.network.sequence import GraphSequence

_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v")}
_HOW_TO_WRITE = "Write one link per line: 'a b'; 'a a' is a device without links."
_QUOTED = r'"(?:[^"]|"")*"'
_BEFORE_COMMENT = re.compile(rf'(?:{_QUOTED}|[^"#])*')
_WORD = re.compile(rf"{_QUOTED}|\S+")
_ARROW = re.compile("->|<-|=>|<=|[→←↔⇒⇐⇔]")
_DASH = re.compile("[-–—=~]+")
_ATTRIBUTES = re.compile(r"\{.*\}$")


def read_graph(path: str | Path) -> Graph:
    """As `read_graphs`; of several rounds, all links that are ever up."""
    found = read_graphs(path)
    return found.union if isinstance(found, GraphSequence) else found


def read_graphs(path: str | Path) -> Graph | GraphSequence:
    """The graph in an edge list (two columns, spaces or commas, # comments, further columns
    ignored) or in a .graphml file, with its node labels as strings. An edge list with a header
    that names a third column `round` holds a graph for each of its rounds.

    Self-loops are dropped: `a a` is how an edge list names a device without links. A directed
    graph is refused, because a link carries models both ways.
    """
    path = user_path(path)
    if not is_file(path):
        raise NetworkError(f"no graph file {path!s:.200}. Check network.topology.")
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
    return nx.Graph(graph)  # parallel links are one link


def _read_edge_list(path: Path) -> dict[int | None, Graph]:
    """The graph of every round; of None, where the file has no rounds."""
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
                f"line {number} of {path} {error} (got '{line.strip()[:60]}'). {_HOW_TO_WRITE}"
            ) from None
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
    """The cells of a line: between commas, where there are some outside of quotes, else between
    spaces."""
    found = _BEFORE_COMMENT.match(line)
    text = found[0] if found else ""
    if line[len(text) :].startswith('"'):
        raise ValueError("has a quote that does not end")
    text = _ATTRIBUTES.sub("", text.strip()) if '"' not in text else text.strip()
    if "," in re.sub(_QUOTED, "", text):
        cells = next(csv.reader([text], skipinitialspace=True))
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
