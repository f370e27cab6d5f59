"""A user's own topologies and weights: used as the built-in ones are, and checked."""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network.fleet import build_fleet

PLUGINS = """
import networkx as nx
import numpy as np
from skerry.network.mixing import metropolis


def wheel(size):
    return nx.wheel_graph(size)


def lattice(size):
    return nx.grid_2d_graph(2, size // 2)


def split(size):
    return nx.empty_graph(size)


def short(size):
    return nx.path_graph(size - 1)


def loops(size):
    return nx.Graph([(i, i) for i in range(size)])


def directed(size):
    return nx.cycle_graph(size, create_using=nx.DiGraph)


def listed(size):
    return [(0, 1)]


def failing(size):
    raise RuntimeError("no luck")


def halfway(graph):
    return 0.5 * np.eye(len(graph)) + 0.5 * metropolis(graph).toarray()


def directed_ring(graph):
    m = len(graph)
    return (np.eye(m) + np.roll(np.eye(m), 1, axis=1)) / 2


def leaky(graph):
    return 0.9 * metropolis(graph)


def everyone(graph):
    m = len(graph)
    return np.full((m, m), 1 / m)
"""


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "harbour_plugins.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "harbour_plugins", raising=False)


def network(topology: str = "ring", mixing: str = "metropolis", **fields: object) -> Network:
    return Network(devices=12, topology=topology, mixing=mixing, **fields)


def test_own_topology() -> None:
    """A user's topology is drawn for every island."""
    fleet = build_fleet(network("harbour_plugins:wheel"), seed=0)
    assert fleet.sizes == (6, 6)
    first = fleet.graph(0).subgraph(range(6))
    assert nx.is_isomorphic(first, nx.wheel_graph(6))


def test_own_labels_are_numbered() -> None:
    """Nodes may have any labels; they become devices in node order."""
    fleet = build_fleet(network("harbour_plugins:lattice", components=1), seed=0)
    assert nx.is_isomorphic(fleet.graph(0), nx.grid_2d_graph(2, 6))
    assert fleet.edges(0)[0].tolist() == [0, 1]


def test_own_weights() -> None:
    """A user's weights are used, symmetric or not, and p is theirs."""
    fleet = build_fleet(network(mixing="harbour_plugins:halfway"), seed=0)
    lazy = build_fleet(network(mixing="lazy"), seed=0)
    np.testing.assert_allclose(fleet.matrix(0).toarray(), lazy.matrix(0).toarray(), atol=1e-15)
    turning = build_fleet(network(mixing="harbour_plugins:directed_ring"), seed=0)
    assert turning.mixing_parameters().minimum == pytest.approx(1 - np.cos(np.pi / 6) ** 2)


def test_own_weights_in_dynamic_fleets() -> None:
    """Weights that may depend on the numbering are not taken for exchangeable."""
    fleet = build_fleet(network("complete", "harbour_plugins:directed_ring", dynamic=True), seed=0)
    found = fleet.mixing_parameters(draws=20)
    assert found.method == "estimated"
    assert found.minimum == pytest.approx(1 - np.cos(np.pi / 6) ** 2)
    assert found.frobenius > found.minimum + 0.1


def test_dynamic_topologies_need_not_be_connected() -> None:
    """A user's fresh graph may be in pieces."""
    fleet = build_fleet(network("harbour_plugins:split", dynamic=True), seed=0)
    assert fleet.links(0) == 0
    assert np.array_equal(fleet.matrix(0).toarray(), np.eye(12))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topology": "harbour_plugins:split"}, r"must give a connected graph"),
        ({"topology": "harbour_plugins:short"}, r"of the 6 devices asked for \(got 5 nodes\)"),
        ({"topology": "harbour_plugins:loops"}, r"self-loop at node 0"),
        ({"topology": "harbour_plugins:directed"}, r"must be undirected.*got a DiGraph"),
        ({"topology": "harbour_plugins:listed"}, r"must be a networkx.Graph .*got list"),
        ({"topology": "harbour_plugins:failing"}, r"failed \(RuntimeError: no luck\)"),
        ({"mixing": "harbour_plugins:leaky"}, r"row 0 of W sums to 0\.9, not 1"),
        ({"mixing": "harbour_plugins:everyone"}, r"the graph has no such link"),
    ],
)
def test_bad_plugins(fields: dict[str, str], message: str) -> None:
    """What a plug-in does wrong is said in one line that names it."""
    ((kind, name),) = fields.items()
    with pytest.raises(NetworkError, match=message) as caught:
        build_fleet(network(**fields), seed=0).blocks(0)
    assert str(caught.value).startswith(f"{kind} '{name}'")
    assert "\n" not in str(caught.value)
