"""Graphs from files: edge lists, as people and spreadsheets write them, and GraphML."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

from skerry.errors import NetworkError, one_line
from skerry.files import is_file, user_path
from skerry.network.links import Graph

_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v")}
_HOW_TO_WRITE = "Write one link per line: 'a b'; 'a a' is a device without links."
_QUOTED = r'"(?:[^"]|"")*"'
_BEFORE_COMMENT = re.compile(rf'(?:{_QUOTED}|[^"#])*')
_WORD = re.compile(rf"{_QUOTED}|\S+")
_ARROW = re.compile("->|<-|=>|<=|[→←↔⇒⇐⇔]")
_DASH = re.compile("[-–—=~]+")
_ATTRIBUTES = re.compile(r"\{.*\}$")


def read_graph(path: str | Path) -> Graph:
    """The graph in an edge list (two columns, spaces or commas, # comments, further columns
    ignored) or in a .graphml file, with its node labels as strings.

    Self-loops are dropped: `a a` is how an edge list names a device without links. A directed
    graph is refused, because a link carries models both ways.
    """
    path = user_path(path)
    if not is_file(path):
        raise NetworkError(f"no graph file {path!s:.200}. Check network.topology.")
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
        try:
            columns = _columns(line)
            if not columns:
                continue
            link = _link(columns)
        except ValueError as error:
            raise NetworkError(
                f"line {number} of {path} {error} (got '{line.strip()[:60]}'). {_HOW_TO_WRITE}"
            ) from None
        is_header = first and tuple(end.lower() for end in link) in _HEADERS
        first = False
        if not is_header:
            yield link


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
