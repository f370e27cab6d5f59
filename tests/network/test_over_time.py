"""Graphs given over time: which of them holds in a round, and that the engine follows it."""

import networkx as nx
import numpy as np
import pytest
import torch

import skerry
from recorded_runs import PlugPulledError, assert_same, record
from skerry.config.experiment import Network
from skerry.engine.world import Materials, build_world
from skerry.errors import NetworkError, SkerryError
from skerry.network.contraction import mixing_parameter
from skerry.network.fleet import build_fleet
from skerry.network.graphs import GraphSequence, as_graph, read_graphs
from trajectories import assert_same_trajectories

EVEN = nx.Graph([("a", "b"), ("c", "d"), ("x", "y")])
ODD = nx.Graph([("b", "c"), ("y", "z"), ("x", "y")])
NETWORK = Network.model_construct(**dict(Network(topology="ring")), _fields_set=set())


def fleet_of(given, *, link_failure=0.0):
    network = NETWORK.model_copy(update={"link_failure": link_failure})
    return build_fleet(network, 0, as_graph(given))


def links(fleet, t):
    names = fleet.labels
    return {frozenset((names[i], names[j])) for i, j in fleet.edges(t).tolist()}


def of(graph):
    return {frozenset(edge) for edge in graph.edges}


# Which graph holds when


def test_a_list_has_a_graph_for_each_round_again_and_again():
    fleet = fleet_of([EVEN, ODD])
    assert [links(fleet, t) for t in range(4)] == [of(EVEN), of(ODD)] * 2
    assert not fleet.fixed


def test_in_a_dict_each_holds_from_its_round_on():
    fleet = fleet_of({5: ODD, 2: EVEN})
    assert [links(fleet, t) for t in (0, 1)] == [set(), set()]
    assert [links(fleet, t) for t in (2, 4, 5, 99)] == [of(EVEN), of(EVEN), of(ODD), of(ODD)]


def test_islands_are_who_can_ever_talk():
    """Of all graphs together; a device that a graph leaves out has no links there."""
    fleet = fleet_of([EVEN, ODD])
    assert fleet.sizes == (4, 3)
    assert fleet.labels == ("a", "b", "c", "d", "x", "y", "z")
    alone = fleet.labels.index("z")
    assert fleet.matrix(0)[alone, alone] == 1.0
    assert fleet.matrix(1)[alone, alone] < 1.0


def test_one_graph_again_and_again_is_that_graph():
    graph = nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(3))
    ours, theirs = fleet_of([graph, graph]), build_fleet(NETWORK, 0, graph)
    assert ours.sizes == theirs.sizes
    assert (ours.matrix(3) != theirs.matrix(3)).nnz == 0
    assert ours.mixing_parameters().minimum == pytest.approx(theirs.mixing_parameters().minimum)


def test_p_is_that_of_a_graph_drawn_at_random():
    """1 - the largest eigenvalue of the mean of W W^T, beside constants."""
    paths = [nx.Graph([(0, 1)]), nx.Graph([(1, 2)])]
    for graph in paths:
        graph.add_nodes_from(range(3))
    fleet = fleet_of(paths)
    moment = np.mean([(W @ W.T).toarray() for W in map(fleet.matrix, (0, 1))], axis=0)
    assert fleet.mixing_parameters().minimum == pytest.approx(
        1 - np.sort(np.linalg.eigvalsh(moment))[-2]
    )
    assert mixing_parameter(fleet.matrix(0)) == pytest.approx(0)  # neither mixes all alone
    assert fleet_of(paths, link_failure=0.3).mixing_parameters().method == "estimated"


# Files


FILE = """\
round,source,target
0,a,b
0,c,d
0,x,y
3,b,c
3,y,z
3,x,y
"""


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        "\n".join(",".join((b, c, a)) for a, b, c in (s.split(",") for s in FILE.split())),
        FILE.replace(",", "\t").replace("source", "from").replace("target", "to"),
        FILE + "# the end\n",
    ],
)
def test_an_edge_list_with_a_round_column(tmp_path, text):
    path = tmp_path / "contacts.csv"
    path.write_text(text)
    found = read_graphs(path)
    assert isinstance(found, GraphSequence)
    assert found.rounds == (0, 3)
    fleet = build_fleet(Network(topology=str(path)), 0)
    assert [links(fleet, t) for t in (0, 2, 3, 9)] == [of(EVEN), of(EVEN), of(ODD), of(ODD)]
    assert of(found.union) == of(EVEN) | of(ODD)


def test_a_round_without_links_names_a_device_alone(tmp_path):
    path = tmp_path / "contacts.csv"
    path.write_text("source,target,round\na,b,0\na,a,4\n")
    fleet = build_fleet(Network(topology=str(path)), 0)
    assert [len(links(fleet, t)) for t in (0, 3, 4, 9)] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "soon,a,b",
            "line 2 of .* must have a round, a whole number of at least 0 .got 'soon,a,b'",
        ),
        ("-1,a,b", "must have a round"),
        ("1.5,a,b", "must have a round"),
        ("1,a", "must name two devices"),
        ("", "holds no devices"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, line, message):
    path = tmp_path / "contacts.csv"
    path.write_text(f"round,source,target\n{line}\n")
    with pytest.raises(NetworkError, match=message):
        read_graphs(path)


def test_a_third_column_without_a_header_is_ignored_as_ever(tmp_path):
    path = tmp_path / "weights.csv"
    path.write_text("a,b,3\nb,c,4\n")
    assert not isinstance(read_graphs(path), GraphSequence)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one"),
        ([nx.path_graph(3), "ring"], "got a str at index 1"),
        ([nx.DiGraph([(0, 1)])], "got a DiGraph at index 0"),
        ({-1: nx.path_graph(3)}, "at least 0 .got -1"),
        ({"start": nx.path_graph(3)}, "at least 0 .got 'start'"),
        ("ring", "a networkx.Graph, a list of them"),
        ([nx.Graph([(0, 0), (0, 1)])], "no link to itself"),
    ],
)
def test_what_is_no_sequence_is_told(given, message):
    with pytest.raises(SkerryError, match=message):
        skerry.run(skerry.Experiment(rounds=2), graph=given)


# In the engine


def test_the_engine_follows_the_graphs(small):
    base = small("rounds=7", "network.link_failure=0.1")
    graphs = [
        nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(6)),
        nx.disjoint_union(nx.star_graph(5), nx.empty_graph(6)),
        nx.empty_graph(12),
    ]
    for given in (graphs, dict(zip((0, 2, 5), graphs, strict=True))):
        world = build_world(base, Materials(graph=as_graph(given)), dtype=torch.float64)
        lanes = [
            base.with_settings("server.primitive=s2a", "network.gossip_steps=2"),
            base.with_settings("server.primitive=none", "fleet.awake=0.6"),
            base.with_settings("server.primitive=s2s", "network.mixing=lazy"),
        ]
        assert_same_trajectories(world, lanes, 1e-10)


def test_a_run_on_a_file_of_rounds_goes_on_where_it_was(small, tmp_path):
    path = tmp_path / "contacts.csv"
    rows = [f"{t},{i},{(i + 1 + t) % 6}" for t in (0, 1, 2, 4) for i in range(6)]
    path.write_text("\n".join(["round,source,target", *rows]))
    table = {"network": {"topology": str(path)}, "rounds": 6, "server": {"sampled": 3}}
    base = skerry.Experiment.parse(table, ["training.batch=8"])
    undisturbed = record(tmp_path / "whole", [base])
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", [base], 3)
    assert_same(record(tmp_path / "parts", [base]), undisturbed)


def test_runs_on_other_graphs_are_other_runs(small, tmp_path):
    base = small("rounds=2")
    one, other = nx.cycle_graph(12), nx.path_graph(12)
    given = [one, [one], [one, other], [other, one], {0: one, 1: other}, {0: one, 2: other}]
    keys = {skerry.run(base, graph=graph, out=tmp_path)[0].key for graph in given}
    assert len(keys) == len(given)


# Topologies that are told the round


def turning(size, context):
    """A ring in even rounds, no links in odd ones."""
    return nx.cycle_graph(size) if context.round % 2 == 0 else nx.empty_graph(size)


turning.every_round = True


def test_a_topology_may_ask_for_the_round(small):
    base = small("rounds=5", f"network.topology={__name__}:turning")
    fleet = build_fleet(base.network, 0)
    assert [fleet.links(t) for t in range(4)] == [12, 0, 12, 0]
    assert fleet.edges(0).tolist() == fleet.edges(2).tolist()  # places are not dealt anew
    assert 0 < fleet.mixing_parameters().minimum < 1
    assert_same_trajectories(build_world(base, dtype=torch.float64), [base], 1e-10)
