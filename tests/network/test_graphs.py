"""Graph files: what is written comes back, and what is wrong is said with its line."""

from contextlib import suppress
from pathlib import Path

import networkx as nx
import pytest

from skerry.config.experiment import Network
from skerry.errors import NetworkError, SkerryWarning, warn_once
from skerry.network.fleet import build_fleet
from skerry.network.graphs import GraphSequence, as_graph, read_graphs
from skerry.network.islands import islands_of_graph, islands_of_sequence


def as_edge_list(graph: nx.Graph, path: Path) -> None:
    nx.write_edgelist(graph, path)  # a b {attributes}


def as_csv(graph: nx.Graph, path: Path) -> None:
    path.write_text("\n".join(f"{a},{b},1.0" for a, b in graph.edges))


WRITERS = {
    ".edgelist": as_edge_list,
    ".txt": as_edge_list,
    ".csv": as_csv,
    ".graphml": nx.write_graphml,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_round_trip(suffix: str, tmp_path: Path) -> None:
    """A written graph is read back with its labels as strings, and its components are islands."""
    graph = nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(3))
    path = tmp_path / f"islands{suffix}"
    WRITERS[suffix](graph, path)
    expected = nx.relabel_nodes(graph, str)
    assert nx.utils.graphs_equal(nx.Graph(read_graphs(path).edges), nx.Graph(expected.edges))
    fleet = build_fleet(Network(topology=str(path)), seed=0)
    assert fleet.sizes == (5, 4)
    assert fleet.devices == 9


def test_edge_list_dialects(tmp_path: Path) -> None:
    """Comments, blank lines, a byte order mark, a header, quotes, spaces around commas, further
    columns, repeated links and devices without links are all read."""
    path = tmp_path / "islands.csv"
    path.write_text(
        '\ufeff# my islands\nSource,Target,weight\na, b ,3\n\n"b",c  # a comment\nb,a\nd,d\n',
        encoding="utf-8",
    )
    graph = read_graphs(path)
    assert list(graph) == ["a", "b", "c", "d"]
    assert set(graph.edges) == {("a", "b"), ("b", "c")}
    assert build_fleet(Network(topology=str(path)), seed=0).sizes == (3, 1)


@pytest.mark.parametrize(
    ("line", "link"),
    [
        ('"Smith, John","Doe, Jane"', ("Smith, John", "Doe, Jane")),
        ('"Smith, John", b , 3', ("Smith, John", "b")),
        ('"the ""big"" one",b', ('the "big" one', "b")),
        ('"New York" Boston', ("New York", "Boston")),
        ("New York,Boston", ("New York", "Boston")),
        ('"#1","#2" # a comment', ("#1", "#2")),
        ("a\tb\t0.5", ("a", "b")),
        ("0 1 {'weight': 3, 'kind': 'fast'}", ("0", "1")),
        ("a-1 b-2", ("a-1", "b-2")),
        ("a - ", ("a", "-")),
    ],
)
def test_names_in_quotes_are_one_name(line: str, link: tuple[str, str], tmp_path: Path) -> None:
    """As spreadsheets write them; and attributes as networkx does."""
    path = tmp_path / "people.csv"
    path.write_text(line)
    assert list(read_graphs(path).edges) == [link]


def test_parallel_graphml_links_are_one(tmp_path: Path) -> None:
    """A multigraph has one link where it has parallel ones."""
    path = tmp_path / "parallel.graphml"
    nx.write_graphml(nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")]), path)
    assert build_fleet(Network(topology=str(path)), seed=0).links(0) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, r"^no graph file .*gone\.txt\. Check network\.topology"),
        ("empty.txt", "# nothing\n\n", r"empty\.txt holds no devices"),
        ("one.txt", "# x\na b\n\nc\n", r"^line 4 of .*one\.txt must name two devices \(got 'c'\)"),
        ("half.csv", "a,b\nb,\n", r"^line 2 of .*half\.csv must name two devices \(got 'b,'\)"),
        ("to.txt", "a -> b\n", r"^line 1 of .*to\.txt must not have an arrow or a dash.*'a -> b'"),
        ("to.csv", "a->b,5\n", r"^line 1 of .*to\.csv must not have an arrow or a dash"),
        ("dash.txt", "a -- b\n", r"^line 1 of .*dash\.txt must not have an arrow or a dash"),
        ("quote.csv", 'a,b\n"c,d\n', r"^line 2 of .*quote\.csv has a quote that does not end"),
        (f"{'n' * 300}.txt", None, r"^no graph file .*nnn"),
        ("image.txt", b"\x89PNG\xff\xfe", r"^cannot read .*image\.txt as text"),
        ("broken.graphml", "<graphml", r"broken\.graphml is not GraphML"),
        ("html.graphml", "<html/>", r"html\.graphml is not GraphML"),
    ],
)
def test_bad_files(name: str, content: str | bytes | None, message: str, tmp_path: Path) -> None:
    """Each fault of a file has one line that names the file and the place."""
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(NetworkError, match=message) as caught:
        build_fleet(Network(topology=str(path)), seed=0)
    assert "\n" not in str(caught.value)


def test_directed_graphml_is_refused(tmp_path: Path) -> None:
    """A link carries models both ways, so a directed file is refused with its remedy."""
    path = tmp_path / "directed.graphml"
    nx.write_graphml(nx.DiGraph([("a", "b")]), path)
    with pytest.raises(NetworkError, match=r"is directed .*Save graph\.to_undirected\(\)"):
        read_graphs(path)


def test_file_and_dynamic_exclude_each_other(tmp_path: Path) -> None:
    """A graph file cannot be drawn afresh; link_failure is offered instead."""
    path = tmp_path / "pair.txt"
    path.write_text("a b\n")
    with pytest.raises(NetworkError, match=r"network\.link_failure makes a given graph vary"):
        build_fleet(Network(topology=str(path), dynamic=True), seed=0)
    assert not build_fleet(Network(topology=str(path), link_failure=0.5), seed=0).fixed


@pytest.mark.parametrize("line", ["{" * 10**6, '"' * 10**6 + "{ b", 'a"' * 10**6, "a," * 10**6])
def test_a_long_line_is_read_in_linear_time(line: str, tmp_path: Path) -> None:
    """A line of a megabyte is read or refused at once; a quadratic search would take an hour."""
    (file := tmp_path / "g.txt").write_text(line + "\n")
    with suppress(NetworkError):
        read_graphs(file)


def test_a_cell_of_any_length_is_read_or_refused(tmp_path: Path) -> None:
    """A cell that is too long for the csv module is told in one line, shortened."""
    (file := tmp_path / "g.csv").write_text("a" * 10**6 + ",b\n")
    with pytest.raises(NetworkError, match=r"^line 1 of .*g.csv has a cell that cannot be read"):
        read_graphs(file)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([(1, "1"), ("1", 2)], "^two nodes of the graph are both called '1', such as 1 and '1'"),
        ([("a\x1b[2J", "b")], r"^a device must have a name that can be printed \(got 'a\\x1b"),
    ],
)
def test_nodes_need_names_of_their_own(nodes: list, told: str) -> None:
    """Nodes whose names would be the same, or not printable, are refused."""
    with pytest.raises(NetworkError, match=told):
        islands_of_graph(nx.Graph(nodes))
    with pytest.raises(NetworkError, match=told):
        islands_of_sequence(GraphSequence(tuple(nx.Graph([link]) for link in nodes)))


def test_weights_of_links_are_ignored_in_one_line(tmp_path: Path) -> None:
    """Weights in a file or on a graph have no effect, and a warning says so."""
    warn_once.cache_clear()
    weighted = nx.Graph()
    weighted.add_edge("a", "b", weight=3.0)
    (tmp_path / "third.txt").write_text("a b 3\n")
    nx.write_edgelist(weighted, tmp_path / "braces.txt")
    nx.write_graphml(weighted, tmp_path / "xml.graphml")
    for name in ("third.txt", "braces.txt", "xml.graphml"):
        with pytest.warns(SkerryWarning, match="ignored: all links count alike"):
            assert set(read_graphs(tmp_path / name).edges()) == {("a", "b")}
        warn_once.cache_clear()
    with pytest.warns(SkerryWarning, match="the links of the graph have weights, which are ign"):
        as_graph([weighted])
