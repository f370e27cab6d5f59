"""Graph files."""

import networkx as nx

from bad_inputs.rows import Content, Row, run, settings


def graph(id: str, content: Content, *told: str, file: str = "g.edgelist", also: str = "") -> Row:
    given = ["rounds=2", "server.sampled=1", f"network.topology={file}", *also.split()]
    return Row(id, ("run", *settings(*given)), told, {file: content})


ROWS = [
    run(
        "no such graph",
        settings("network.topology=g.csv"),
        "/g.csv. Check network.topology.",
    ),
    run(
        "graph with a long name",
        settings(f"network.topology={'n' * 3000}.csv"),
        "nnn",
    ),
    run(
        "graph of nobody",
        settings("network.topology=~nosuchuser/g.csv"),
        "/~nosuchuser/g.csv. Check network.topology.",
    ),
    graph(
        "arrows",
        "a b\nb -> c\n",
        "line 2 of g.edgelist must not have an arrow or a dash: a link carries models both ways "
        "(got 'b -> c'). Write one link per line: 'a b'",
    ),
    graph("empty", "# nothing\n", "g.edgelist holds no devices. Write one link per line: 'a b'."),
    graph(
        "half a link",
        "a b\nb c\n\nlonely\n",
        "line 4 of g.edgelist must name two devices (got 'lonely'). Write one link per line: "
        "'a b'; 'a a' is a device without links.",
    ),
    graph(
        "half a row",
        "source,target\na,b\n,c\n",
        "line 3 of g.csv must name two devices (got ',c').",
        file="g.csv",
    ),
    graph(
        "not text",
        b"a b\n\xff\xfe c\n",
        "cannot read g.txt as text ('utf-8' codec can't decode byte 0xff in position 4: "
        "invalid start byte).",
        file="g.txt",
    ),
    graph(
        "directed",
        lambda path: nx.write_graphml(nx.DiGraph([(1, 2)]), path),
        'g.graphml is directed (edgedefault="directed"), but a link carries models both '
        "ways. Save graph.to_undirected().",
        file="g.graphml",
    ),
    graph(
        "not xml",
        "<graphml><nope",
        "g.graphml is not GraphML (ParseError: unclosed token: line 1, column 9).",
        file="g.graphml",
    ),
    graph(
        "not a graph",
        "<graphml/>",
        "g.graphml is not GraphML (NetworkXError: file not successfully read as graphml).",
        file="g.graphml",
    ),
    graph(
        "fresh every round",
        "a b\n",
        "network.dynamic = true needs a topology to draw from (got the graph file "
        "g.edgelist). Set network.dynamic = false; network.link_failure makes a given graph "
        "vary.",
        also="network.dynamic=true",
    ),
    graph(
        "other sizes",
        "a b\nb c\n",
        "network.devices must match the graph (got 5, the graph has 3). Leave network.devices out.",
        "network.components must match the graph (got 2, the graph has 1 of sizes [3]). "
        "Leave network.components out.",
        also="network.devices=5 network.components=2",
    ),
    graph(
        "more sampled than the file has",
        "a b\nb c\n",
        "server.sampled must be between 1 and the number of devices (got 5 of 3 devices). "
        "Lower server.sampled.",
        also="data.inter=iid server.sampled=5",
    ),
    graph(
        "more components than classes in the file",
        "\n".join(f"{i} {i}" for i in range(11)),
        '(got 11 islands for 10 classes). Use data.inter = "dirichlet" or fewer islands.',
    ),
    graph(
        "links without a round",
        "round,source,target\n0,a,b\nlater,b,c\n",
        "line 3 of g.edgelist must have a round, a whole number of at least 0 (got 'later,b,c').",
    ),
]
