"""Broken inputs: a row is an id, the input, and the line (or a long part of it) that a user reads.

A row with several lines has several faults, all told at once. `test_bad_input.py` holds the laws.
"""

import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

SMALL = ("rounds=2", "network.devices=10", "server.sampled=3")
Content = str | bytes | dict[str, Any] | Callable[[Path], object]


@dataclass(frozen=True)
class Row:
    id: str
    arguments: tuple[str, ...]
    told: tuple[str, ...]
    files: dict[str, Content] = field(default_factory=dict)


def run(id: str, arguments: list[str], *told: str, **files: Content) -> Row:
    return Row(id, ("run", *settings(*SMALL), *arguments), told, files)


def toml(id: str, content: str | bytes, *told: str) -> Row:
    return Row(id, ("run", "mine.toml"), told, {"mine.toml": content})


def sets(id: str, given: str, *told: str) -> Row:
    return run(id, settings(*given.split()), *told)


def settings(*given: str) -> list[str]:
    return [word for setting in given for word in ("--set", setting)]


def graph(id: str, content: Content, *told: str, file: str = "g.edgelist", also: str = "") -> Row:
    given = ["rounds=2", "server.sampled=1", f"network.topology={file}", *also.split()]
    return Row(id, ("run", *settings(*given)), told, {file: content})


X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
Y = np.arange(60) % 3
GOOD = {"x_train": X, "y_train": Y, "x_test": X[:20], "y_test": Y[:20]}


def npz(id: str, content: Content, *told: str, also: str = "") -> Row:
    given = settings(*SMALL, "data.dataset=npz", "data.path=d.npz", *also.split())
    return Row(id, ("run", *given), told, {"d.npz": content})


def plugin(setting: str, *told: str) -> Row:
    """A plug-in from bad_plugins.py; a star in what is told stands for its name."""
    where, _, name = setting.partition("=")
    reference = f"bad_plugins:{name}"
    lines = [line.replace("*", f"'{reference}'") for line in told]
    return sets(f"{where}-{name}", f"{where}={reference}", *lines)


def _cut(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)
    path.write_bytes(path.read_bytes()[:500])


def _zipped(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")


SERVER = (
    "name, primitive, beta, sampled, period, offset, selection, sample_prob, weights, optimizer, "
    "momentum, learning_rate, dampening, second_momentum, smallest, compression, "
    "compression_share, compressed, error_feedback, beta_schedule, beta_end, "
    "sampled_schedule, sampled_end, period_schedule, "
    "period_end, switch_round, change_every, bias_cost, sampled_target, period_target, adapt_over"
)

EXPERIMENT_FILES = [
    toml(
        "not toml",
        "rounds = = 3",
        "mine.toml is not valid TOML: Invalid value (at line 1, column 10).",
    ),
    toml(
        "unclosed section",
        "[network\n",
        "mine.toml is not valid TOML: Expected ']' at the end of a table declaration (at "
        "line 1, column 9).",
    ),
    toml(
        "field twice",
        "rounds = 1\nrounds = 2",
        "mine.toml is not valid TOML: Cannot overwrite a value (at end of document).",
    ),
    toml(
        "not utf-8", b'name = "\xff"', "mine.toml is not UTF-8 text (at byte 8). Save it as UTF-8."
    ),
    toml("utf-16", "rounds = 3".encode("utf-16"), "mine.toml is not UTF-8 text (at byte 0)."),
    Row(
        "no such file", ("run", "a/b.toml"), ("no file a/b.toml. Make one: skerry new > a/b.toml",)
    ),
    Row(
        "a folder",
        ("run", "d"),
        ("cannot read d (Is a directory). Give an experiment file (TOML).",),
        {"d/x": ""},
    ),
    toml("text for a number", 'rounds = "many"', 'rounds must be a whole number (got "many").'),
    toml("part of a round", "rounds = 2.5", "rounds must be a whole number (got 2.5)."),
    toml("true for a number", "rounds = true", "rounds must be a whole number (got true)."),
    toml("number for text", "name = 3", "name must be text in quotes (got 3)."),
    toml(
        "date for a number",
        "rounds = 2024-01-01",
        'rounds must be a whole number (got "2024-01-01").',
    ),
    toml("no rounds", "rounds = 0", "rounds must be at least 1 (got 0)."),
    toml("negative seed", "seed = -1", "seed must be at least 0 (got -1)."),
    toml(
        "nan", "[training]\nstepsize = nan", "training.stepsize must be a finite number (got NaN)."
    ),
    toml("zero", "[training]\nstepsize = 0", "training.stepsize must be above 0 (got 0)."),
    toml("above 1", "[server]\nbeta = 1.5", "server.beta must be at most 1 (got 1.5)."),
    toml("not below 1", "[server]\nmomentum = 1", "server.momentum must be below 1 (got 1)."),
    toml(
        "maybe",
        '[network]\ndynamic = "maybe"',
        'network.dynamic must be true or false (got "maybe").',
    ),
    toml(
        "one of two",
        '[data]\nscaling = "none"',
        "data.scaling must be one of 'standard', 'unit' or 'raw' (got \"none\").",
    ),
    toml("section as a value", "network = 3", "network must be a section (got 3)."),
    toml(
        "section twice",
        "[[network]]\ndevices = 3",
        'network must be a section (got [{"devices": 3}]).',
    ),
    toml("value as a section", "[rounds]\na = 3", 'rounds must be a whole number (got {"a": 3}).'),
    toml(
        "list item",
        "[network]\ncomponents = [50, 0]",
        "network.components must be a whole number of at least 1, or a list of such sizes "
        "(got [50, 0]).",
    ),
    toml(
        "empty list", "[evaluate]\nmeasures = []", "evaluate.measures must not be empty (got [])."
    ),
    toml(
        "unknown field",
        "[server]\nsampeld = 3",
        f"unknown field 'server.sampeld'; did you mean 'sampled'? [server] takes: {SERVER}.",
    ),
    toml(
        "unknown section",
        "[netwrok]\ndevices = 3",
        "unknown field 'netwrok'; did you mean 'network'? An experiment takes: name, seed, "
        "rounds, network, data, task, model, training, server, fleet, method, evaluate.",
    ),
    toml(
        "field of another section",
        "[network]\nsampled = 3",
        "unknown field 'network.sampled'; did you mean 'server.sampled'? [network] takes: "
        "devices, components, topology, degree, edge_prob, rewire_prob, dynamic, "
        "link_failure, gossip_steps, mix_with_server, mixing, compression, compression_share, "
        "consensus_stepsize.",
    ),
    toml(
        "field outside its section",
        "devices = 3",
        "unknown field 'devices'; did you mean 'network.devices'? An experiment takes: name, "
        "seed, rounds, network, data, task, model, training, server, fleet, method, evaluate.",
    ),
    toml(
        "unknown field of a section with options",
        '[data]\ninterr = "iid"',
        "unknown field 'data.interr'; did you mean 'inter'? [data] takes: dataset, path, "
        "split, inter, intra, alpha, inter_alpha, shards, min_samples, scaling; dataset 'digits' "
        "adds none.",
    ),
    toml(
        "unknown option",
        '[data]\ndataset = "synthetic"\nsampels = 3',
        "unknown field 'data.sampels'; did you mean 'samples'? [data] takes: dataset, path, "
        "split, inter, intra, alpha, inter_alpha, shards, min_samples, scaling; dataset "
        "'synthetic' "
        "adds: samples, test_samples, features, classes, difficulty, data_seed.",
    ),
    toml(
        "unknown option of one's own",
        '[server]\nprimitive = "good_plugins:pull"\nstrength = 1\nstrenght = 2',
        f"unknown field 'server.strenght'; did you mean 'strength'? [server] takes: {SERVER}; "
        "primitive 'good_plugins:pull' adds: strength.",
    ),
    toml(
        "option of a function that is not named",
        "[server]\nstrength = 2",
        f"unknown field 'server.strength'. [server] takes: {SERVER}.",
    ),
    toml(
        "unknown topology",
        '[network]\ntopology = "rign"',
        "unknown topology 'rign'; did you mean 'ring'? Available: barabasi_albert, complete, "
        "erdos_renyi, grid, path, regular, ring, star, torus, watts_strogatz.",
    ),
    toml(
        "unknown mixing",
        '[network]\nmixing = "metro"',
        "unknown mixing 'metro'; did you mean 'metropolis'? Available: laplacian, lazy, "
        "max_degree, metropolis.",
    ),
    toml(
        "unknown data set",
        '[data]\ndataset = "minst"',
        "unknown dataset 'minst'; did you mean 'mnist'? Available: cifar10, cifar100, "
        "devices, digits, fashion_mnist, mnist, npz, speeches, synthetic, synthetic_regression, "
        "synthetic_tokens, vowels.",
    ),
    toml(
        "unknown split",
        '[data]\ninter = "noniid"',
        "unknown inter partition 'noniid'; did you mean 'non_iid'? Available: dirichlet, "
        "iid, non_iid.",
    ),
    toml(
        "unknown schedule",
        '[training]\nschedule = "cos"',
        "unknown schedule 'cos'; did you mean 'cosine'? Available: constant, cosine, "
        "inverse_sqrt, step.",
    ),
    toml(
        "unknown primitive",
        '[server]\nprimitive = "S3S"',
        "unknown primitive 'S3S'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
    ),
    toml(
        "unknown optimizer",
        '[server]\noptimizer = "sgd"',
        "unknown server optimizer 'sgd'. Available: fedadam, fedavg, fedavgm, "
        "fedavgm_averages, fedyogi.",
    ),
    toml(
        "unknown measures",
        '[evaluate]\nmeasures = ["bais", "train_los"]',
        "unknown measure 'bais'; did you mean 'bias'? Available: average, average_accuracy,",
        "unknown measure 'train_los'; did you mean 'train_loss'? Available: average,",
    ),
    toml(
        "more sampled than there are",
        "[server]\nsampled = 120",
        "server.sampled must be between 1 and network.devices (got 120 of 100 devices). Lower "
        "server.sampled or raise network.devices.",
    ),
    toml(
        "sizes do not add up",
        "[network]\ncomponents = [50, 40]",
        "network.components must add up to network.devices (got 90 of 100 devices). Change "
        "the sizes or network.devices.",
    ),
    toml(
        "more components than devices",
        "[network]\ncomponents = 1_000_000_000_000",
        "network.components must be at most network.devices (got 1000000000000 components "
        "for 100 devices).",
    ),
    toml(
        "degree too large",
        '[network]\ntopology = "watts_strogatz"\ndegree = 50',
        "network.degree must be below the size of every component (got 50 with a component of 50).",
    ),
    toml(
        "degree odd",
        '[network]\ntopology = "regular"\ncomponents = 4\ndegree = 3',
        "network.degree times a component's size must be even for a regular graph (got 3 x 25).",
    ),
    toml(
        "never connected",
        '[network]\ntopology = "erdos_renyi"\nedge_prob = 0.001',
        "a component must be connected, but 200 draws of erdos_renyi with network.edge_prob "
        "= 0.001 on 50 devices were not.",
    ),
    toml(
        "npz without a path",
        '[data]\ndataset = "npz"',
        'data.path must name a .npz file when data.dataset = "npz".',
    ),
    toml(
        "field with its section in quotes",
        '"server.period" = 10\nrounds = 0',
        "rounds must be at least 1 (got 0).",
        "unknown field '\"server.period\"': in quotes a dot is part of the name. Write period = "
        "... below [server].",
    ),
    toml(
        "unknown field in quotes",
        '"a.b" = 10',
        "unknown field 'a.b'. An experiment takes: name, seed, rounds,",
    ),
    toml(
        "number of 5,000 digits",
        f"seed = 3\nrounds = {'9' * 5000}",
        "rounds must not have more than 100 digits (in mine.toml). Shorten the number.",
    ),
    toml(
        "number of 6,000 digits in base 16",
        f"[server]\nperiod = 0x{'f' * 5000}",
        "server.period must not have more than 100 digits. Shorten the number.",
    ),
    toml(
        "thousands of brackets",
        f"rounds = {'[' * 2000}{']' * 2000}",
        "rounds must have at most 20 levels (in mine.toml). Write it with fewer.",
    ),
    toml(
        "dozens of brackets",
        f"[network]\ncomponents = {'[' * 50}{']' * 50}",
        "network.components must have at most 20 levels. Write it with fewer.",
    ),
    toml(
        "thousands of dots",
        f"{'a.' * 3000}b = 3",
        "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a must have at most 20 levels.",
    ),
    toml(
        "faults of all sorts",
        "rounds = 0\nfoo = 1\n"
        '[network]\ntopology = "rign"\ndevices = 10\n'
        "[server]\nsampled = 20\n"
        '[model]\nname = "mlp"\nhiden = 3',
        "rounds must be at least 1 (got 0).",
        "unknown topology 'rign'; did you mean 'ring'?",
        "unknown field 'foo'. An experiment takes: name, seed, rounds, network, data, task, model, "
        "training, server, fleet, method, evaluate.",
        "unknown field 'model.hiden'; did you mean 'hidden'? [model] takes: name, weights; model "
        "'mlp' adds: hidden.",
        "server.sampled must be between 1 and network.devices (got 20 of 10 devices).",
    ),
    toml(
        "no second fault where the first is the cause",
        '[network]\ndevices = 0\n[data]\ndataset = "syntetic"\nsamples = 100\n',
        "network.devices must be at least 1 (got 0).",
        "unknown dataset 'syntetic'; did you mean 'synthetic'?",
    ),
]

COMMAND_LINE = [
    Row(
        "an unknown example",
        ("new", "three_island"),
        ("unknown example 'three_island'; did you mean 'three_islands'? Available: carry, ",),
    ),
    Row(
        "an example that would be overwritten",
        ("new", "vowels"),
        (
            "vowels.toml would be overwritten. Move it away, or choose another folder: skerry new "
            "vowels --out DIR",
        ),
        {"vowels.toml": b"# mine"},
    ),
    run(
        "more ranks than devices",
        ["--ranks", "20", "--dry-run"],
        "--ranks must be at most the number of devices (got 20 ranks for 10 devices). Ask for "
        "fewer ranks.",
    ),
    run(
        "a method on ranks",
        ["--ranks", "2", "--dry-run", "--set", "method.name=gradient_tracking"],
        "method.name = 'gradient_tracking' keeps more than a model on a device, which is not "
        "divided among ranks. Run it without them.",
    ),
    run(
        "weight decay on ranks",
        ["--ranks", "2", "--dry-run", "--set", "training.weight_decay=0.01"],
        "training.weight_decay = 0.01 changes the steps of each device, which is not divided among "
        "ranks. Run it without them.",
    ),
    run(
        "compressed messages on ranks",
        ["--ranks", "2", "--dry-run", "--set", "network.compression=int8"],
        "a compressed message needs what its sender and receiver know of each other, which is not "
        "divided among ranks. Run it without them.",
    ),
    run(
        "importance on ranks",
        ["--ranks", "2", "--dry-run", "--set", "server.selection=importance"],
        "server.selection = 'importance' goes by the models of all devices, which is not divided "
        "among ranks. Run it without them.",
    ),
    run(
        "setting without a value",
        ["--set", "rounds"],
        "a setting reads section.field=value (got 'rounds').",
    ),
    run(
        "setting without a field",
        ["--set", "=3"],
        "a setting reads section.field=value (got '=3'). Example: server.period=10",
    ),
    run(
        "setting with a dot",
        ["--set", ".rounds=3"],
        "a setting reads section.field=value (got '.rounds=3').",
    ),
    run(
        "setting too deep",
        ["--set", "a.b.c=3"],
        "a setting reads section.field=value (got 'a.b.c=3').",
    ),
    run(
        "setting inside a value",
        ["--set", "rounds.x=3"],
        "cannot set rounds.x: rounds is 2, no section.",
    ),
    sets(
        "setting of a section and then inside it",
        "server=3 server.period=4",
        "cannot set server.period: server is 3, no section.",
        "server must be a section (got 3).",
    ),
    sets(
        "setting of 5,000 digits",
        f"rounds={'9' * 5000}",
        "rounds must be a whole number of fewer digits (got ",
    ),
    sets(
        "setting of 6,000 digits in base 16",
        f"rounds=0x{'f' * 5000}",
        "rounds must not have more than 100 digits. Shorten the number.",
    ),
    sets(
        "setting of thousands of brackets",
        f"rounds={'[' * 2000}{']' * 2000}",
        'rounds must be a whole number (got "[[[[',
    ),
    sets(
        "setting of dozens of brackets",
        f"rounds={'[' * 50}{']' * 50}",
        "rounds must have at most 20 levels. Write it with fewer.",
    ),
    Row(
        "file with a long name",
        ("run", f"{'n' * 3000}.toml"),
        ("(File name too long). Give an experiment file (TOML).",),
    ),
    Row(
        "folder with a long name", ("show", "n" * 3000), ("a path is too long (File name too long",)
    ),
    sets("setting out of range", "rounds=-1", "rounds must be at least 1 (got -1)."),
    run(
        "setting of two lines",
        ["--set", "rounds=3\nseed=4"],
        'rounds must be a whole number (got "3\\nseed=4").',
    ),
    sets("setting a bare word", "rounds=abc", 'rounds must be a whole number (got "abc").'),
    run(
        "several settings",
        settings("seed=-1", "server.sampled=50", "rounds"),
        "a setting reads section.field=value (got 'rounds'). Example: server.period=10",
        "seed must be at least 0 (got -1).",
        "server.sampled must be between 1 and network.devices (got 50 of 10 devices).",
    ),
    run(
        "comparison unknown",
        ["--compare", "s2s,s3s"],
        "unknown primitive 's3s'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
    ),
    run(
        "every comparison wrong",
        ["--compare", "s2b,s2s:0.5,blend:2,blend:x,nope:f"],
        "unknown primitive 's2b'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
        "only blend takes a beta (got 's2s:0.5'). Example: blend:0.25",
        "a blend's beta lies from 0, which is s2s, to 1, which is s2a (got 'blend:2'). Example:",
        "a blend's beta lies from 0, which is s2s, to 1, which is s2a (got 'blend:x'). Example:",
        "primitive 'nope:f' cannot be imported (ModuleNotFoundError: No module named 'nope').",
    ),
    run(
        "device unknown",
        ["--device", "gpu"],
        "unknown device 'gpu'; did you mean 'cpu'? Available: auto, cpu, cuda",
    ),
    run(
        "device of torch",
        ["--device", "meta"],
        "unknown device 'meta'. Available: auto, cpu, cuda",
    ),
    run(
        "device not here",
        ["--device", "cuda:99"],
        "no device 'cuda:99': ",
    ),
    Row(
        "fetch unknown",
        ("data", "fetch", "minst"),
        (
            "unknown published data set 'minst'; did you mean 'mnist'? Available: cifar10, "
            "cifar100, fashion_mnist, mnist, speeches.",
        ),
    ),
    Row(
        "fetch from nowhere",
        ("data", "fetch", "mnist", "--path", "nope"),
        (
            "data.path does not exist: nope. Give the folder or archive of mnist, or leave "
            "data.path empty to fetch it.",
        ),
    ),
]

HUGE = [
    sets(
        "too many devices",
        "network.devices=100_000_000 network.components=100_000_000",
        "network.devices must be at most 1,000,000 (got 100000000).",
    ),
    sets(
        "too many components",
        "network.components=100_000_000",
        "network.components must be at most network.devices (got 100000000 components for 10 ",
    ),
    sets(
        "too many links",
        "network.devices=100_000 network.topology=complete network.components=1 "
        "data.dataset=synthetic data.samples=100_000 data.features=2",
        "network.topology = 'complete' must have at most 10,000,000 links (got about "
        "4,999,950,000). Lower network.devices, have more components, or take a topology with",
    ),
    sets("too many rounds", f"rounds={10**12}", "rounds must be at most 1,000,000,000 (got 10000"),
    sets(
        "too large a minibatch",
        f"training.batch={10**18}",
        "training.batch must be at most 1,000,000,000 (got 1000000000000000000).",
    ),
    sets("too late", f"server.offset={10**30}", "server.offset must be at most 1,000,000,000 (got"),
    run(
        "too many seeds",
        ["--seeds", "1000000000000"],
        "--seeds must give at most 50,000 runs (got 1,000,000,000,000 seeds of 3). Take fewer",
    ),
    sets(
        "models of a terabyte",
        "model.name=mlp model.hidden=10_000_000 network.devices=5000 data.dataset=synthetic "
        "data.features=2 data.classes=2",
        "out of memory: the models of 5,000 devices with 50,000,002 parameters take 1,000.0 GB of ",
    ),
]

GRAPHS = [
    run(
        "no such graph",
        settings("network.topology=g.csv"),
        "no graph file g.csv. Check network.topology.",
    ),
    run(
        "graph with a long name",
        settings(f"network.topology={'n' * 3000}.csv"),
        "no graph file nnn",
    ),
    run(
        "graph of nobody",
        settings("network.topology=~nosuchuser/g.csv"),
        "no graph file ~nosuchuser/g.csv. Check network.topology.",
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
        '(got 11 components for 10 classes). Use data.inter = "dirichlet" or fewer components.',
    ),
]

DATA_FILES = [
    sets(
        "no such npz",
        "data.dataset=npz data.path=d.npz",
        "data.path does not exist: d.npz. Name a .npz file.",
    ),
    npz(
        "text",
        "hello",
        "d.npz cannot be read: it is no .npz file, or cut off. Write it with "
        "np.savez(path, x_train=..., y_train=..., x_test=..., y_test=...), without objects.",
    ),
    npz(
        "npy",
        lambda path: np.save(path.open("wb"), X),
        "d.npz cannot be read: it is no .npz file, or cut off.",
    ),
    npz(
        "cut off",
        lambda path: _cut(path, GOOD),
        "d.npz cannot be read: it is no .npz file, or cut off.",
    ),
    npz(
        "objects",
        GOOD | {"x_train": np.array([[1], [2, 3]], dtype=object)},
        "d.npz cannot be read (ValueError: Object arrays cannot be loaded when "
        "allow_pickle=False).",
    ),
    sets(
        "npz with a long name",
        f"data.dataset=npz data.path={'n' * 3000}",
        "data.path does not exist: nnn",
    ),
    sets(
        "npz of nobody",
        "data.dataset=npz data.path=~nosuchuser/d.npz",
        "data.path does not exist: ~nosuchuser/d.npz. Name a .npz file.",
    ),
    sets(
        "published set with a long name",
        f"data.dataset=mnist data.path={'n' * 3000}",
        "data.path does not exist: nnn",
    ),
    npz(
        "bfloat16",
        GOOD | {"x_train": X.astype(np.float16).view("V2")},
        "d.npz: x_train must hold real numbers (got dtype |V2). Convert: x_train.astype(np.float",
    ),
    npz(
        "single numbers",
        {"x": np.float32(1), "y": np.int64(1)},
        "x and y in d.npz must have the same length (got shapes () and ()).",
    ),
    npz(
        "single labels",
        GOOD | {"y_train": np.int64(1)},
        "d.npz: y_train must have one dimension (got shape ()).",
    ),
    npz(
        "text in the archive",
        lambda path: _zipped(path, {"x": b"hello", "y": b"you"}),
        "x and y in d.npz must have the same length (got shapes () and ()).",
    ),
    npz(
        "array of a header that is cut",
        lambda path: _zipped(path, {"x.npy": b"\x93NUMPY\x01\x00\x05\x00{'a'"}),
        "d.npz cannot be read (",
    ),
    npz(
        "other names",
        {"a": X},
        "d.npz must hold x_train, y_train, x_test, y_test, or x and y (got a).",
    ),
    npz(
        "lengths",
        GOOD | {"y_train": Y[:9]},
        "d.npz: x_train and y_train must have the same length (got 60 and 9).",
    ),
    npz(
        "nan",
        GOOD | {"x_train": np.where(X > 2, np.nan, X)},
        "d.npz: x_train must be finite in float32 (got 6 values that are not).",
    ),
    npz(
        "text inputs",
        GOOD | {"x_train": X.astype(str)},
        "d.npz: x_train must hold real numbers (got dtype <U32).",
    ),
    npz(
        "float labels",
        GOOD | {"y_train": Y + 0.5},
        "d.npz: y_train and y_test must both hold whole numbers, or both numbers of a regression "
        "(got dtype float32 and int64). Give labels as integers in both, or amounts with a point "
        "in both.",
    ),
    npz(
        "negative labels",
        GOOD | {"y_train": Y - 1},
        "d.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from -1 to 1).",
    ),
    npz(
        "labels with gaps",
        GOOD | {"y_train": Y * 2},
        "d.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from 0 to "
        "4). Renumber: np.unique(labels, return_inverse=True)[1]",
    ),
    npz(
        "labels only in the test",
        GOOD | {"y_test": Y[:20] + 3},
        "d.npz: y_test must hold labels 0 to 2 (got 5).",
    ),
    npz(
        "one class",
        GOOD | {"y_train": Y * 0, "y_test": Y[:20] * 0},
        "d.npz: a data set needs at least 2 classes (got 1).",
    ),
    npz(
        "other shape in the test",
        GOOD | {"x_test": X[:20, :4]},
        "d.npz: x_train and x_test must be alike (got float32 samples of (5,) and float32 "
        "samples of (4,)).",
    ),
    npz(
        "no test",
        GOOD | {"x_test": X[:0], "y_test": Y[:0]},
        "d.npz: x_test must not be empty (got shape (0, 5)).",
    ),
    npz(
        "channels first",
        GOOD | {"x_train": np.zeros((60, 3, 8, 8)), "x_test": np.zeros((20, 3, 8, 8))},
        "d.npz: images must be N,H,W,C (got shape (60, 3, 8, 8)). Move the channels last: "
        "np.moveaxis(x, 1, -1)",
    ),
    run(
        "not a published set",
        settings("data.dataset=mnist", "data.path=folder"),
        "folder does not hold mnist. It must hold train-images-idx3-ubyte, "
        "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.",
        **{"folder/readme": "hello"},
    ),
    run(
        "not an archive",
        settings("data.dataset=mnist", "data.path=mnist.tar"),
        "mnist.tar cannot be read: it is truncated or damaged (ReadError: file could not be opened",
        **{"mnist.tar": "hello"},
    ),
    sets(
        "option of a data set",
        "data.dataset=synthetic data.difficulty=-1",
        "data.difficulty must be a number from 0 to 1,000,000 (got -1).",
    ),
    sets(
        "too much data",
        "data.dataset=synthetic data.samples=1_000_000_000_000_000",
        "data.samples and data.test_samples times data.features must be at most 1,000,000,000 (got "
        "20,000,000,000,020,000). Lower one of them.",
    ),
]

PARTITIONS = [
    sets(
        "more components than classes",
        "network.components=11 network.devices=11",
        'data.inter = "non_iid" gives every component classes of its own (got 11 components '
        "for 10 classes).",
    ),
    sets(
        "more devices than samples",
        "network.devices=1_000_000",
        "1437 training samples are too few for 1000000 devices with at least 1 each. "
        "Lower network.devices or data.min_samples.",
    ),
    sets(
        "too many shards",
        "data.intra=shards data.shards=10_000_000",
        "data.shards times the devices of a component must be at most 10,000,000 (got 10000000 x "
        "5). Lower data.shards.",
    ),
    sets(
        "too many samples each",
        "data.min_samples=1000",
        "1437 training samples are too few for 10 devices with at least 1000 each. Lower "
        "network.devices or data.min_samples.",
    ),
    sets(
        "too many samples in one component",
        "data.min_samples=140 network.components=[8,2]",
        "component 0 has 1002 training samples for 8 devices with at least 140 each. Lower "
        "data.min_samples, or use another data.inter.",
    ),
]

MODELS = [
    sets(
        "unknown model",
        "model.name=mpl",
        "unknown model 'mpl'; did you mean 'mlp'? Available: cnn_cifar10, cnn_cifar100, "
        "gru, linear, mlp, quadratic, transformer.",
    ),
    sets(
        "misspelt option",
        "model.name=mlp model.hiden=3",
        "unknown field 'model.hiden'; did you mean 'hidden'? [model] takes: name, weights; model "
        "'mlp' adds: hidden.",
    ),
    sets(
        "option of another model",
        "model.hidden=3",
        "unknown field 'model.hidden'. [model] takes: name, weights; model 'linear' adds none.",
    ),
    sets(
        "no width",
        "model.name=mlp model.hidden=0",
        "model.hidden must be a width of at least 1 or a list of them (got 0).",
    ),
    sets(
        "too wide",
        "model.name=mlp model.hidden=1_000_000_000_000_000_000",
        "model.hidden must give a network of at most 200,000,000 parameters (got 7.4e+19).",
    ),
    sets(
        "too deep and wide",
        f"model.name=mlp model.hidden={[10**30, 1]}".replace(", ", ","),
        "model.hidden must give a network of at most 200,000,000 parameters (got 6.5e+31).",
    ),
    sets(
        "no number",
        "model.name=mlp model.hidden=1.5",
        "model.hidden must be a width of at least 1 or a list of them (got 1.5).",
    ),
    sets(
        "curvature",
        "model.name=quadratic model.curvature=x",
        "model.curvature must be a number above 0 and model.conditioning one of at least 1, both "
        "at most 1e+30 (got 'x' and 1.0).",
    ),
    sets(
        "small images",
        "model.name=cnn_cifar10",
        "model 'cnn_cifar10' needs square images of at least 16 x 16 (got inputs of shape "
        "(1, 8, 8)).",
    ),
    sets("half a reference", "model.name=mine:", "model 'mine:' must read package.module:name."),
    sets(
        "no such module",
        "model.name=nope.models:net",
        "model 'nope.models:net' cannot be imported (ModuleNotFoundError: No module named 'nope'). "
        "Check its name and that it is on PYTHONPATH.",
    ),
    sets(
        "no such function",
        "model.name=bad_plugins:frosen",
        "model 'bad_plugins:frosen': module bad_plugins has no 'frosen'; did you mean 'frozen'?",
    ),
    run(
        "module with an error",
        settings("model.name=broken:net"),
        "model 'broken:net' cannot be imported (SyntaxError: invalid syntax (broken.py, line 1)).",
        **{"broken.py": "def net(:"},
    ),
    run(
        "module that needs another",
        settings("model.name=needy:net"),
        "model 'needy:net' cannot be imported (ModuleNotFoundError: No module named "
        "'not_installed'). Correct the module.",
        **{"needy.py": "import not_installed"},
    ),
    plugin("model.name=NUMBER", "model * must be a function (got int)."),
    plugin(
        "model.name=nothing",
        "model * must give an nn.Module or a learner (got NoneType). Return the module from "
        "the factory.",
    ),
    plugin(
        "model.name=raises",
        "model * failed (ValueError: boom and a second line). Correct the function; skerry "
        "--debug shows where it fails.",
    ),
    plugin("model.name=wide", "model * needs the option 'width'. Set model.width."),
    plugin(
        "model.name=batch_norm",
        "layer '1' (BatchNorm1d) keeps batch statistics, which devices "
        "cannot average or mix as parameters. Use torch.nn.GroupNorm instead.",
    ),
    plugin(
        "model.name=eleven_scores",
        "the model must give one score per class, shape (2, 10) for "
        "two samples (got (2, 11)). Change its last layer.",
    ),
    plugin(
        "model.name=GivesTuple",
        "the model must give one score per class, shape (2, 10) for two samples (got tuple).",
    ),
    plugin(
        "model.name=wrong_input",
        "the model fails on inputs of shape (1, 8, 8) (RuntimeError: mat1 and mat2 shapes",
    ),
    plugin("model.name=frozen", "the model has no trainable parameters. Leave requires_grad on."),
    plugin(
        "model.name=FunctionalDropout",
        "the model draws random numbers of its own while it trains, as functional dropout",
    ),
    plugin(
        "model.name=FewerWhenTraining",
        "the model must give one score per class, shape (2, 10) for two samples (got (2, 3)).",
    ),
]

PLUGINS = [
    plugin("network.topology=NUMBER", "topology * must be a function (got int)."),
    plugin("network.topology=raises", "topology * failed (ValueError: boom and a second line)."),
    plugin(
        "network.topology=nothing",
        "topology *: a graph must be a networkx.Graph or a scipy sparse adjacency matrix "
        "(got NoneType).",
    ),
    plugin(
        "network.topology=one_node_more",
        "topology * must give a graph of the 5 devices asked "
        "for (got 6 nodes). Use its first argument as the number of nodes.",
    ),
    plugin(
        "network.topology=directed",
        "topology *: a graph must be undirected, because a link carries models both ways "
        "(got a DiGraph).",
    ),
    plugin(
        "network.topology=in_pieces",
        "topology * must give a connected graph, because a component is connected by "
        "definition (got several pieces).",
    ),
    plugin(
        "network.mixing=nothing",
        "mixing *: W must be a matrix of numbers (got None). Build W with "
        "skerry.network.mixing.metropolis(graph).",
    ),
    plugin(
        "network.mixing=heavy_weights",
        "mixing *: row 0 of W sums to 5, not 1. Build W with "
        "skerry.network.mixing.metropolis(graph).",
    ),
    plugin(
        "network.mixing=weights_off_the_links",
        "mixing *: W[0, 2] is 0.2, but the graph has no such link; weights are zero off the links.",
    ),
    plugin(
        "data.dataset=nothing",
        "dataset * must return a Dataset or (x_train, y_train, x_test, y_test) (got NoneType).",
    ),
    plugin("data.dataset=three_arrays", "(x_train, y_train, x_test, y_test) (got tuple)."),
    plugin("data.dataset=no_arrays", "dataset *: y_train must have one dimension (got shape ())."),
    plugin(
        "data.dataset=not_finite",
        "dataset *: x_train must be finite in float32 (got 300 values that are not).",
    ),
    plugin(
        "data.dataset=raises",
        "dataset * failed (ValueError: boom and a second line). Correct the function; skerry "
        "--debug shows where it fails.",
    ),
    plugin("data.dataset=sized", "dataset * needs the option 'size'. Set data.size."),
    plugin("data.inter=nothing", "inter partition * must give 2 arrays of sample indices."),
    plugin(
        "data.inter=one_share", "inter partition * must give 2 arrays of sample indices (got 1)."
    ),
    plugin(
        "data.inter=every_sample_twice",
        "inter partition * must deal every one of its 1437 sample indices exactly once.",
    ),
    plugin("data.intra=raises", "intra partition * failed (ValueError: boom and a second line)."),
    plugin(
        "data.intra=one_sample_lost",
        "intra partition * must deal every one of its 717 sample indices exactly once.",
    ),
    plugin(
        "training.sampling=nothing",
        "sampling * failed (AttributeError: 'NoneType' object has no attribute 'indices').",
    ),
    plugin(
        "training.sampling=Foreign",
        "sampling *: indices(t, step, steps) must give training "
        "indices 0 to 1436 as an int64 array of shape (10, 128), a row per device (got int64 of "
        "shape (10, 128) from 1000000 to 1000000).",
    ),
    plugin("training.sampling=Halves", "(got float64 of shape (10, 128) from 0.5 to 0.5)."),
    plugin("training.sampling=Small", "(got int64 of shape (3, 2) from 0 to 0)."),
    plugin(
        "training.schedule=nothing",
        "schedule * must give the factor on the stepsize, a number "
        "of at least 0 (got None in round 0).",
    ),
    plugin("training.schedule=negative", "a number of at least 0 (got -1 in round 0)."),
    plugin("training.schedule=text", "a number of at least 0 (got 'slower' in round 0)."),
    plugin("training.schedule=raises", "schedule * failed (ValueError: boom and a second line)."),
    plugin(
        "server.primitive=forgets_to_count",
        "primitive * must return how many devices received the average, 0 to 4 (got None).",
    ),
    plugin(
        "server.primitive=lacks_an_option",
        "primitive * needs the option 'strength'. Set server.strength.",
    ),
    plugin(
        "network.mixing=option_of_another_kind",
        "mixing * cannot have an option 'degree', because network.degree is a field with another "
        "use. Rename the parameter.",
    ),
    plugin(
        "network.topology=default_of_its_own",
        "topology * must not give 'degree' a default, because network.degree has one. Leave out "
        "the parameter's.",
    ),
    plugin("server.primitive=counts_too_many", "received the average, 0 to 4 (got 5)."),
    plugin(
        "server.primitive=too_narrow",
        "primitive * failed (RuntimeError: shape mismatch",
    ),
    plugin(
        "server.optimizer=NUMBER",
        "server optimizer * must have the methods start and deliver (got int).",
    ),
    plugin(
        "server.optimizer=DeliversNothing",
        "server optimizer *: deliver must give a tensor of "
        "the average's shape, [lanes, parameters] (got NoneType).",
    ),
    plugin("server.optimizer=DeliversLess", "[lanes, parameters] (got shape (1, 3))."),
    plugin(
        "server.optimizer=RemembersNothing",
        "server optimizer *: start must give a dict of tensors of the shape it gets, [lanes, "
        "parameters], or an empty one (got NoneType).",
    ),
    plugin("server.optimizer=RemembersLess", "or an empty one (got v: shape (1, 2))."),
]


def trace(id: str, content: str, *told: str) -> Row:
    given = settings(*SMALL, "fleet.awake=trace.csv")
    return Row(id, ("run", *given), told, {"trace.csv": content})


PARTICIPATION = [
    plugin(
        "server.selection=strangers",
        "selection * names devices that are not in the fleet, 0 to 9 (got [10, 99]).",
    ),
    plugin(
        "server.selection=one_twice",
        "selection * must name each device once (got [0, 1, 1]). Give one that counts twice twice "
        "the weight.",
    ),
    plugin(
        "server.selection=table_of_devices",
        "selection * must give the numbers of the sampled devices, a list of whole numbers (got "
        "[[0, 1], [2, 3]]).",
    ),
    plugin(
        "server.selection=nothing",
        "selection * must give the numbers of the sampled devices, a list of whole numbers (got "
        "None).",
    ),
    plugin(
        "server.selection=weights_that_do_not_sum",
        "selection * must give a weight for each sampled device, which sum to 1 (got 3 weights for "
        "3 devices, sum 1.5).",
    ),
    plugin(
        "server.selection=a_weight_too_few",
        "selection * must give a weight for each sampled device, which sum to 1 (got 2 weights for "
        "3 devices, sum 1).",
    ),
    plugin("server.selection=raises", "selection * failed (ValueError: boom and a second line)."),
    sets(
        "one_each of fewer than islands",
        "network.components=5 server.selection=one_each",
        "server.sampled must be a multiple of the number of islands for server.selection = "
        '"one_each" (got 3 for 5 islands). Change server.sampled, or use "per_component".',
    ),
    trace(
        "trace without its header",
        "0,1,2\n",
        "the first line of trace.csv must read device,from,to (got '0,1,2'). Each further line "
        "tells from which round on a device is awake, and from which on no longer.",
    ),
    trace(
        "trace of a stranger",
        "device,from,to\nporch,0,1\n",
        "line 2 of trace.csv names the device 'porch', which is not in the fleet",
    ),
    trace(
        "trace of no rounds",
        "device,from,to\n0,dawn,dusk\n",
        "line 2 of trace.csv: from and to must be whole rounds (got 'dawn' and 'dusk').",
    ),
    sets(
        "no trace",
        "fleet.awake=none.csv",
        "cannot read the trace none.csv ([Errno 2] No such file or directory: 'none.csv'). Check "
        "fleet.awake.",
    ),
    sets(
        "schedule without an end",
        "server.sampled_schedule=cosine",
        'server.sampled_schedule = "cosine" goes from server.sampled to an end (got none). Set '
        "server.sampled_end.",
    ),
    sets(
        "unknown schedule",
        "server.period_schedule=doubled",
        "unknown period schedule 'doubled'; did you mean 'double'? Available: adaptive, constant, "
        "cosine, double, inverse_sqrt, step, switch.",
    ),
    sets(
        "adaptive without a target",
        "server.period_schedule=adaptive",
        'server.period_schedule = "adaptive" goes by a target (got none). Set '
        "server.period_target.",
    ),
    sets(
        "adaptive where nothing can be told",
        "server.primitive=blend server.beta_schedule=adaptive server.selection=weighted",
        'server.beta_schedule = "adaptive" goes by the spread of the sampled models, which is '
        "known for the selections uniform, bernoulli, round_robin, per_component, one_each, and "
        "not for weights by data (got 'weighted' with weights 'equal'). Change one of them.",
    ),
    plugin(
        "server.sampled_schedule=more_than_all",
        "sampled schedule * must give server.sampled, at most the 10 devices there are (got 99 in "
        "round 0).",
    ),
    plugin(
        "server.period_schedule=text_of_a_number",
        "period schedule * must give server.period, a number of at least 1 (got 'slower' in round "
        "0).",
    ),
    plugin(
        "server.sampled_schedule=raises",
        "sampled schedule * failed (ValueError: boom and a second line).",
    ),
    run(
        "unknown preset",
        ["--compare", "s2s,tthf"],
        "unknown primitive 'tthf'; did you mean 'tt_hf'? Available: blend, none, s2a, s2s. "
        "Presets: fedavg, fedavg_data, local_sgd, dsgd, d_psgd, gossip_pga, hier_favg, tt_hf, "
        "hl_sgd, modest, gradient_tracking, gradient_tracking_s2s, sd_gt, mtgc, scaffold, "
        "fedvarp, mifa, fedprox, carry.",
    ),
    sets(
        "name of a primitive",
        "server.name=s2a",
        "server.name must not be that of a primitive (got 's2a'): tables would confuse the two. "
        "Choose another name.",
    ),
    graph(
        "links without a round",
        "round,source,target\n0,a,b\nlater,b,c\n",
        "line 3 of g.edgelist must have a round, a whole number of at least 0 (got 'later,b,c').",
    ),
]

STORES = [
    run(
        "store of garbage",
        [],
        "cannot use the store out/skerry.sqlite: it is no SQLite file. Give another folder, "
        "or move the file away.",
        **{"out/skerry.sqlite": b"garbage" * 999},
    ),
    run(
        "out with a long name",
        ["--out", "n" * 3000],
        "(File name too long). Choose another folder.",
    ),
    run(
        "store of another program",
        [],
        "out/skerry.sqlite was made by another program, not by skerry. Choose another folder.",
        **{"out/skerry.sqlite": _foreign},
    ),
    run(
        "file in the way",
        [],
        "cannot make the folder out (File exists). Choose another folder.",
        out="mine",
    ),
    Row(
        "show what is no store",
        ("show", "mine.toml"),
        (
            "cannot use the store mine.toml: it is no SQLite file. Give another folder, or move "
            "the file away.",
        ),
        {"mine.toml": "rounds = 3"},
    ),
    Row(
        "show nothing",
        ("show", "nope"),
        ("no store at nope. Give a folder that holds a skerry.sqlite.",),
    ),
    Row(
        "show an empty folder",
        ("show", "d"),
        ("no store at d/skerry.sqlite. Give a folder that holds a skerry.sqlite.",),
        {"d/x": ""},
    ),
]


def bounds(id: str, arguments: str, *told: str) -> Row:
    return Row(id, ("theory", "bounds", *arguments.split()), told)


RULES_OF_BOUNDS = [
    bounds(
        "bounds of more components than a number can count",
        f"--components 1{'0' * 400}",
        "components is larger than any number here. Lower it.",
    ),
    bounds(
        "bounds of a misspelt rule",
        "--selection per_componet",
        "the theory has no law of counts for selection 'per_componet'; did you mean "
        "'per_component'? It knows uniform, per_component, one_each, bernoulli.",
    ),
    bounds(
        "bounds of a rule without a law",
        "--selection uniform,round_robin",
        "the theory has no law of counts for selection 'round_robin'. It knows uniform,",
    ),
    bounds(
        "bounds of no rule",
        "--selection ,",
        "--selection must name something (got ','). Give uniform or per_component.",
    ),
    bounds(
        "bounds of no primitive",
        "--primitive ,",
        "--primitive must name something (got ','). Give s2s,s2a.",
    ),
    bounds(
        "a rule that the theorems do not know",
        "--selection one_each --mode order",
        "the paper's theorems assume that devices are sampled uniformly and weigh alike (got "
        "selection 'one_each', weights 'equal'). Ask for certified bounds: they follow the rule.",
    ),
    bounds(
        "one_each that does not come out even",
        "--selection one_each --sampled 7",
        "sampled must be a multiple of the number of islands for one_each (got 7 for 2).",
    ),
    bounds(
        "one_each with fewer devices than islands",
        "--selection one_each --sampled 2 --components 4",
        "sampled must be a multiple of the number of islands for one_each (got 2 for 4).",
    ),
    bounds(
        "more sampled than there are, by islands",
        "--selection per_component --sampled 101",
        "sampled must be between 1 and devices (got 101 of 100 devices).",
    ),
    bounds(
        "unknown weights of bounds",
        "--weights by_size",
        "unknown kind of weights 'by_size'. Available: equal, stratified.",
    ),
    bounds(
        "stratified weights of an island that is missed",
        "--weights stratified --components 30+70 --sampled 2",
        "stratified weights on islands of several sizes have bounds only where every island is in "
        "every sample",
    ),
    bounds(
        "counts too many to write out",
        "--selection per_component --devices 210 --components "
        + "+".join(str(size) for size in range(1, 21)),
        "20 islands have too many possible counts to write out. Ask about fewer islands, or about "
        "one_each, whose counts are fixed.",
    ),
]

Z = Y + 0.5
NUMBERS = {"x_train": X, "y_train": Z, "x_test": X[:20], "y_test": Z[:20]}
TEXT = np.arange(60 * 5).reshape(60, 5) % 7
TOKENS = {"x_train": TEXT, "y_train": TEXT, "x_test": TEXT[:9], "y_test": TEXT[:9]}
ON_TOKENS = "data.dataset=synthetic_tokens data.samples=60 data.test_samples=20"


def weights(id: str, tensors: Content, *told: str, model: str = "linear") -> Row:
    given = settings("model.weights=w.safetensors", f"model.name={model}")
    return run(id, given, *told, **{"w.safetensors": tensors})


def _tensors(**arrays: Any) -> Callable[[Path], object]:
    from safetensors.numpy import save_file

    return lambda path: save_file({name.replace("__", "."): a for name, a in arrays.items()}, path)


FULL = {"weight": np.zeros((10, 64), np.float32), "bias": np.zeros(10, np.float32)}

TASKS = [
    npz(
        "nan targets",
        NUMBERS | {"y_train": np.where(Z > 2, np.nan, Z)},
        "d.npz: y_train must be finite in float32 (20 of its values are not). Drop those samples.",
    ),
    npz(
        "text targets",
        GOOD | {"y_train": Y.astype(str)},
        "d.npz: y_train must hold whole numbers, or for a regression floating-point ones (got ",
    ),
    npz(
        "whole numbers as floats",
        GOOD | {"y_train": Y.astype(float), "y_test": Y[:20].astype(float)},
        "y_train of d holds whole numbers as float32, which may be labels or amounts. If they are "
        'amounts, set task.name = "regression"; if labels, give them as integers.',
    ),
    npz(
        "more numbers in the test",
        NUMBERS | {"y_test": np.stack([Z, Z], axis=1)[:20]},
        "d.npz: y_train and y_test must have as many numbers for each sample (got () and (2,)).",
    ),
    npz(
        "targets in a cube",
        NUMBERS | {"y_train": np.ones((60, 2, 2)) / 3},
        "d.npz: y_train must hold one number, or one row of numbers, for each sample (got shape "
        "(60, 2, 2)).",
    ),
    npz(
        "fewer next tokens than tokens",
        TOKENS | {"y_train": TEXT[:, :4]},
        "d.npz: x_train and y_train must have the same shape, a next token for each token (got "
        "(60, 5) and (60, 4)).",
    ),
    npz(
        "a token below 0",
        TOKENS | {"y_test": TEXT[:9] - 1},
        "d.npz: y_test must hold tokens from 0 on (got -1).",
    ),
    sets(
        "unknown task",
        "task.name=clasification",
        "task.name must be one of 'auto', 'classification', 'regression' or 'tokens' (got "
        '"clasification").',
    ),
    sets(
        "tokens without tokens",
        "task.name=tokens",
        'task.name = "tokens" needs targets that are whole numbers of the same shape as the inputs '
        '(got int64 of shape (1437,)). Set task.name = "classification", or change the targets.',
    ),
    sets(
        "classes without labels",
        "task.name=classification data.dataset=synthetic_regression",
        'task.name = "classification" needs targets that are whole labels, one for each sample',
    ),
    sets("unknown loss", "task.loss=hubber", "unknown loss 'hubber'; did you mean 'huber'?"),
    sets(
        "loss of another task",
        "task.loss=mse",
        'task.loss = "mse" is no loss of a classification task. Choose cross_entropy, or your own',
    ),
    sets("no delta", "task.loss=huber task.delta=0", "task.delta must be above 0 (got 0)."),
    sets(
        "top five numbers",
        "task.name=regression task.score=top5",
        'task.score = "top5" needs classes or tokens (got a regression task).',
    ),
    sets(
        "option of no loss",
        "task.smoothing=0.1",
        "unknown field 'task.smoothing'",
    ),
    sets(
        "loss that is a vector",
        "task.name=regression task.loss=task_plugins:vector",
        "loss 'task_plugins:vector' must give one number, the mean over the minibatch (got shape "
        "(2, 1)). End it with .mean().",
    ),
    sets(
        "loss that raises",
        "task.loss=task_plugins:raises",
        "loss 'task_plugins:raises' failed (ValueError: no loss today). Correct the function;",
    ),
    sets(
        "loss that does not learn",
        "task.loss=task_plugins:constant",
        "loss 'task_plugins:constant' must be differentiable: its value does not depend on the "
        "outputs",
    ),
    sets(
        "loss that looks at values",
        "task.loss=task_plugins:looks_at_values",
        "loss 'task_plugins:looks_at_values' cannot be computed for all devices at once (",
    ),
    sets(
        "score that is a vector",
        "task.name=regression task.score=task_plugins:vector",
        "score 'task_plugins:vector' must give one number, the mean over the minibatch (got shape ",
    ),
    sets(
        "a buffer that changes",
        "model.name=task_plugins:counts",
        "the model changes its buffer 'calls' while it trains, which devices cannot average or mix "
        "as parameters. Keep such numbers outside of the module.",
    ),
    sets(
        "a recurrent layer with dropout",
        f"{ON_TOKENS} model.name=task_plugins:gru_with_dropout",
        "the model draws random numbers of its own while it trains: the dropout inside 'recur' "
        "(LSTM) does not follow the seed. Switch it off once the model is built, "
        "model.recur.dropout = 0.0; nn.Dropout layers beside it stay, and follow the seed.",
    ),
    sets(
        "torch's transformer with its usual dropout",
        f"{ON_TOKENS} model.name=task_plugins:encoder_with_dropout",
        "the model draws random numbers of its own while it trains: the dropout inside "
        "'layer.self_attn' (MultiheadAttention) does not follow the seed. Switch it off once the "
        "model is built, model.layer.self_attn.dropout = 0.0; nn.Dropout layers beside it stay",
    ),
    sets(
        "a transformer with too few places",
        f"{ON_TOKENS} model.name=task_plugins:few_places",
        "embedding 'places' has 4 rows, 0 to 3, but is given 0 to 15 on inputs of shape (16,). "
        "Make it nn.Embedding(16, ...).",
    ),
    npz(
        "tokens that were standardised",
        {"x_train": TEXT, "y_train": Y, "x_test": TEXT[:20], "y_test": Y[:20]},
        "embedding '0' takes whole numbers (got torch.float32). Give the data whole inputs and set "
        'data.scaling = "raw", which leaves them whole.',
        also="model.name=task_plugins:embeds_labels",
    ),
    npz(
        "labels that are words",
        {**GOOD, "y_train": Y.astype("U1"), "y_test": Y[:20].astype("U1")},
        "y_train must hold whole numbers, or for a regression floating-point ones (got dtype <U1). "
        "Number labels from 0 on: np.unique(y_train, return_inverse=True)[1]",
    ),
    sets(
        "a model that knows too few tokens",
        f"{ON_TOKENS} model.name=task_plugins:few_tokens",
        "embedding 'Embedding' has 11 rows, 0 to 10, but is given 0 to 11 on inputs of shape "
        "(16,). Make it nn.Embedding(problem.tokens, ...).",
    ),
    sets(
        "a model of tokens for pictures",
        "model.name=gru",
        "model 'gru' reads tokens (got inputs of shape (1, 8, 8) that are real numbers). Use data",
    ),
    sets(
        "heads that do not divide the width",
        f"{ON_TOKENS} model.name=transformer model.width=9 model.heads=2",
        "model.width must be a multiple of model.heads (got 9 and 2).",
    ),
    sets("one token", f"{ON_TOKENS} data.vocabulary=1", "data.vocabulary must be a whole number"),
    sets(
        "noise below 0",
        "data.dataset=synthetic_regression data.noise=-1",
        "data.noise must be a number from 0 to 1,000,000 (got -1).",
    ),
    sets(
        "weights that are not there",
        "model.weights=start.safetensors",
        "model.weights does not exist: start.safetensors. Name a .safetensors file.",
    ),
    weights(
        "weights that are a pickle",
        b"\x80\x04not a safetensors file",
        "model.weights: w.safetensors cannot be read as safetensors (",
    ),
    weights(
        "weights of another shape",
        _tensors(**FULL | {"weight": np.zeros((10, 63), np.float32)}),
        "model.weights: 'weight' in w.safetensors must be numbers of shape (10, 64) (got float32 "
        "of shape (10, 63)).",
    ),
    weights(
        "weights that are missing",
        _tensors(weight=FULL["weight"]),
        "model.weights: w.safetensors lacks 'bias'. Names must be those of model.state_dict().",
    ),
    weights(
        "weights of another model",
        _tensors(**FULL),
        "model.weights: w.safetensors lacks '1.bias', '1.weight', '3.bias' and 1 more and has "
        "'bias', 'weight', which the model does not.",
        model="mlp",
    ),
    weights(
        "weights that are not numbers",
        _tensors(**FULL | {"bias": np.full(10, np.nan, np.float32)}),
        "model.weights: 'bias' in w.safetensors must be finite.",
    ),
    weights(
        "weights for what has none",
        _tensors(**FULL),
        "model 'quadratic' cannot start from weights. Leave out model.weights.",
        model="quadratic",
    ),
]


def fleet(id: str, content: Content, *told: str, file: str = "f.npz", also: str = "") -> Row:
    """Data by device in a file, or in a folder if `file` lies in one."""
    place = file.partition("/")[0]
    given = ["rounds=2", "server.sampled=1", "data.dataset=devices", "data.split=given"]
    arguments = settings(*given, f"data.path={place}", *also.split())
    return Row(id, ("run", *arguments), told, {file: content})


def folder(id: str, files: dict[str, Content], *told: str, also: str = "") -> Row:
    first = fleet(id, "", *told, file="homes/any.csv", also=also)
    return Row(id, first.arguments, told, {f"homes/{name}": one for name, one in files.items()})


WHO = np.repeat(["attic", "barn", "den"], 20)
TABLE = {"x": X, "y": Y, "device": WHO}
ONE = {"x": X[:20], "y": Y[:20]}
CSV = "a,b,y\n" + "\n".join(f"{i},{-i},{i % 3}" for i in range(30)) + "\n"
ROW = "device,a,b,y\n" + "\n".join(f"d{i % 3},{i},{-i},{i % 3}" for i in range(30)) + "\n"
NOT_FINITE = np.where(np.arange(300).reshape(60, 5) == 202, np.nan, X)

DEVICE_DATA = [
    sets(
        "data by device, no split",
        "data.dataset=devices data.path=f.npz",
        'data.dataset = "devices" says which device holds which samples. Set data.split = "given" '
        'to keep it so, or "dealt" to deal them out anew.',
    ),
    sets(
        "data by device, no path",
        "data.dataset=devices data.split=given",
        "data.path must name a table with a column device, or a folder with a file per device, "
        'when data.dataset = "devices". Set data.path.',
    ),
    sets(
        "digits are nobody's",
        "data.split=given",
        'data.split = "given" needs data that say which device holds which samples (got digits). '
        'Use data.dataset = "devices" with data.path, skerry.from_devices, or data.split = '
        '"dealt".',
    ),
    sets(
        "half given",
        "data.split=half",
        "data.split must be one of 'dealt' or 'given' (got \"half\").",
    ),
    fleet(
        "table that is not there",
        "",
        "data.path does not exist: nope.npz. Name a table (.npz, .parquet, .csv) or a folder with "
        "a file per device.",
        also="data.path=nope.npz",
    ),
    fleet("table of another kind", "a", "f.txt must end in .npz, .parquet, .csv", file="f.txt"),
    fleet(
        "table cut off",
        lambda path: _cut(path, TABLE),
        "f.npz cannot be read: it is no .npz file, or cut off. Write it with np.savez(path, x=..., "
        "y=..., device=...), without objects.",
    ),
    fleet(
        "table without devices",
        ONE,
        "f.npz must say whose each sample is. Add a column 'device', or give a folder with a file "
        "per device.",
    ),
    fleet("table without labels", {"x": X, "device": WHO}, "f.npz has x, but no y."),
    fleet(
        "table of other arrays",
        {"a": X, "b": Y},
        "f.npz must hold x and y (got a, b).",
    ),
    fleet(
        "too few devices for the rows",
        TABLE | {"device": WHO[:50]},
        "f.npz: device must be as long as x (got shapes (50,) and (60, 5)).",
    ),
    fleet(
        "objects in a table",
        {"x": X, "y": Y.astype(object), "device": WHO},
        "f.npz cannot be read (ValueError: Object arrays cannot be loaded when allow_pickle=False)",
    ),
    fleet(
        "devices that are halves",
        TABLE | {"device": np.linspace(0, 1, 60)},
        "f.npz: device must hold names or whole numbers (got float64 of shape (60,)).",
    ),
    fleet(
        "numbers of no names",
        TABLE | {"device": np.arange(60) % 4, "devices": np.array(["a", "b", "c"])},
        "f.npz: device must number the names in devices, 0 to 2 (got 0 to 3).",
    ),
    fleet(
        "samples of nobody",
        TABLE | {"device": np.where(np.arange(60) < 2, "", WHO)},
        "f.npz: a training sample has no device (got 2 without). Name the device of every training "
        "sample.",
    ),
    fleet(
        "a name with a line end",
        TABLE | {"device": np.where(WHO == "den", "d\nen", WHO)},
        "f.npz: a device must have a name that can be printed (got 'd\\nen').",
    ),
    fleet(
        "a part that is neither",
        TABLE | {"split": np.where(np.arange(60) % 2, "train", "later")},
        "f.npz: split must be train or test (got 'later').",
    ),
    fleet(
        "a device with tests alone",
        TABLE | {"split": np.where(WHO == "den", "test", "train")},
        "f.npz: device 'den' has no training samples. Leave out devices without data.",
    ),
    fleet(
        "a device on two islands",
        TABLE | {"island": np.where(np.arange(60) % 20 < 3, "west", "east")},
        "f.npz: device 'attic' is on two islands, 'west' and 'east'. A device is on one.",
    ),
    fleet(
        "a feature that is not finite",
        TABLE | {"x": NOT_FINITE},
        "f.npz: device 'den' has a training sample that is not finite (nan at place 2). Fill or "
        "drop it.",
    ),
    fleet(
        "a target that is not finite",
        TABLE | {"y": np.where(np.arange(60) == 24, -np.inf, np.arange(60.0))},
        "f.npz: device 'barn' has a training target that is not finite (-inf at place 0).",
    ),
    fleet(
        "a test label nobody has",
        TABLE
        | {
            "y": np.where(np.arange(60) == 59, 3, Y),
            "split": np.where(np.arange(60) % 20 > 15, "test", "train"),
        },
        "f.npz: device 'den' has the test label 3, which no device has to train on. Leave those "
        "samples out.",
    ),
    fleet(
        "labels from 1 on by device",
        TABLE | {"y": Y + 1},
        "f.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from 1 to 3).",
    ),
    fleet(
        "words for samples",
        TABLE | {"x": X.astype(str)},
        "f.npz must have samples that are numbers (got text of shape (5,)).",
    ),
    fleet(
        "samples in no rows",
        TABLE | {"x": X[:, 0]},
        "f.npz must have samples in rows, as an array of at least two dimensions (got shape "
        "(60,)).",
    ),
    fleet(
        "nothing to test on",
        {"x": X[:8], "y": np.arange(8) % 3, "device": np.repeat(["a", "b"], 4)},
        "f.npz: there are no test samples, and no device has 5 samples of which one could be held "
        "out. Give test samples.",
    ),
    fleet(
        "another number of devices",
        TABLE,
        "network.devices must match the data (got 7, the data have 3 devices). Leave "
        "network.devices out.",
        also="network.devices=7",
    ),
    fleet(
        "another number of islands",
        TABLE | {"island": WHO},
        "network.components must match the islands of the data (got 2, the data have 3 of sizes "
        "[1, 1, 1]). Leave network.components out.",
        also="network.components=2",
    ),
    fleet(
        "more islands than devices",
        TABLE,
        "network.components must be at most network.devices (got 5 components for 3 devices).",
        also="network.components=5",
    ),
    fleet(
        "more sampled than devices with data",
        TABLE,
        "server.sampled must be between 1 and the number of devices (got 4 of 3 devices). Lower "
        "server.sampled.",
        also="server.sampled=4",
    ),
    fleet(
        "text in a column",
        ROW.replace("4,-4", "4,warm"),
        "f.csv: column 'b' must hold numbers (got 'warm' in row 5, device 'd1').",
        file="f.csv",
    ),
    fleet(
        "a row without a label",
        ROW + "d1,3,4,\n",
        "f.csv: row 31, device 'd1' has no label.",
        file="f.csv",
    ),
    fleet(
        "a table without a label column",
        ROW.replace("y", "z"),
        "f.csv must have one column y or label (got device, a, b, z).",
        file="f.csv",
    ),
    fleet(
        "a csv that is none", b"\xff\xfe\x00a", "f.csv cannot be read as a table (", file="f.csv"
    ),
    fleet(
        "a parquet file that is none",
        "parquet",
        "f.parquet cannot be read as a table (",
        file="f.parquet",
    ),
    folder(
        "a folder without data",
        {"notes.md": "hello"},
        "homes holds no files that end in .npz, .parquet, .csv. Put a file per device in it.",
    ),
    folder(
        "a device twice",
        {"east/attic.npz": ONE, "west/attic.npz": ONE},
        "device 'attic' is there twice: homes/east/attic.npz and homes/west/attic.npz. Keep one.",
    ),
    folder(
        "samples of another shape",
        {"attic.npz": ONE, "barn.npz": ONE | {"x": X[:20, :4]}},
        "device 'barn' (homes/barn.npz) has samples of shape (4,), but device 'attic' "
        "(homes/attic.npz) of shape (5,). All devices must have the same kind of samples.",
    ),
    folder(
        "labels of another kind",
        {"attic.npz": ONE, "barn.npz": ONE | {"y": Y[:20].astype(str)}},
        "device 'barn' (homes/barn.npz) has labels that are text, but device 'attic' "
        "(homes/attic.npz) has whole numbers. All devices must have the same kind of labels.",
    ),
    folder(
        "pixels on one device",
        {"attic.npz": ONE, "barn.npz": ONE | {"x": np.zeros((20, 5), np.uint8)}},
        "device 'barn' (homes/barn.npz) has samples of uint8, but device 'attic' "
        "(homes/attic.npz) of float32.",
    ),
    folder(
        "fewer labels than samples",
        {"attic.npz": ONE, "barn.npz": ONE | {"x_test": X[:5], "y_test": Y[:4]}},
        "homes/barn.npz: y must be as long as x (got shapes (4,) and (5, 5)).",
    ),
    folder(
        "a device without samples",
        {"attic.npz": ONE, "barn.npz": {"x": X[:0], "y": Y[:0]}},
        "homes: device 'barn' has no training samples. Leave out devices without data.",
    ),
    folder(
        "a file of another device",
        {"attic.csv": CSV, "barn.csv": ROW},
        "homes/barn.csv is the file of device 'barn', but holds samples of 'd0'. Name the file as "
        "the device, or give one table with a column 'device'.",
    ),
    folder(
        "a column that others lack",
        {"attic.csv": CSV, "barn.csv": CSV.replace("b", "c", 1)},
        "homes/barn.csv lacks the column 'b', unlike the tables before it. All devices must have "
        "the same features.",
    ),
    folder(
        "names that the graph does not know",
        {"attic.npz": ONE, "barn.npz": ONE, "../g.edgelist": "attic cellar"},
        "devices of the graph and of the data must have the same names (no data for 'cellar'; no "
        "place in the graph for 'barn'). Rename them in one of the two.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "islands that a link joins",
        {"east/attic.npz": ONE, "west/barn.npz": ONE, "../g.edgelist": "attic barn"},
        "the data put device 'barn' on island 'west' and 'attic' on 'east', but the graph links "
        "them. Leave the islands out, or the link.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "an island without a way",
        {"east/attic.npz": ONE, "east/barn.npz": ONE, "../g.edgelist": "attic attic\nbarn barn"},
        "the data put devices 'attic' and 'barn' on island 'east', but the graph has no way "
        "between them. Leave the islands out, or add a link.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "some without an island",
        {"east/attic.npz": ONE, "barn.npz": ONE},
        "homes: device 'barn' has no island, but others have. Give every device an island, or "
        "none.",
    ),
    Row(
        "devices of nothing",
        ("results", "d", "--devices"),
        ("no store at d. Give a folder that holds a skerry.sqlite.",),
    ),
    Row(
        "devices by a measure",
        ("results", "--devices", "--measure", "bias"),
        (
            "--devices shows what single devices scored at the end; --measure has no part in that. "
            "Leave one out.",
        ),
    ),
]

METHODS = [
    sets(
        "unknown compression",
        "network.compression=topk",
        "network.compression: unknown compression 'topk'; did you mean 'top_k'?",
    ),
    sets(
        "a share of nothing",
        "server.compression=top_k server.compression_share=0",
        "server.compression_share must be above 0 (got 0).",
    ),
    sets(
        "a consensus stepsize above 1",
        "network.compression=top_k network.consensus_stepsize=1.5",
        "network.consensus_stepsize must be at most 1 (got 1.5).",
    ),
    sets(
        "a way that there is not",
        "server.compression=int8 server.compressed=sideways",
        "server.compressed",
    ),
    sets(
        "compressed links of a method that needs models",
        "network.compression=top_k method.name=carry",
        "network.compression is not defined for method 'carry': its rule needs models as they are. "
        "Leave network.compression out, or take int8, or set method.name to one of sgd, fedprox, "
        "gradient_tracking.",
    ),
    sets(
        "compressed server of a method that needs models",
        "server.compression=int8 method.name=gradient_tracking",
        "server.compression is not defined for method 'gradient_tracking': its rule needs models "
        "as they are. Leave server.compression out, or set method.name to one of sgd, fedprox.",
    ),
    sets(
        "compressed server with a schedule that goes by the models",
        "server.compression=int8 server.primitive=blend server.beta_schedule=adaptive",
        "server.compression needs schedules that do not go by the models (got an adaptive one): "
        "the server never sees them whole. Change one of them.",
    ),
    sets(
        "unknown method",
        "method.name=gradient_traking",
        "method.name: unknown method 'gradient_traking'; did you mean 'gradient_tracking'?",
    ),
    sets(
        "method that asks for other links and another primitive",
        "method.name=scaffold",
        "method 'scaffold' needs network.gossip_steps = 0 (got 1): its devices know the server "
        "alone. Set network.gossip_steps=0.",
        'method \'scaffold\' needs server.primitive = "s2a" (got "s2s"). Set '
        'server.primitive="s2a".',
    ),
    sets(
        "method for one local step",
        "method.name=gradient_tracking training.local_steps=2",
        "method 'gradient_tracking' needs training.local_steps = 1 (got 2): its rule is written "
        "for one gradient between two mixings. Set training.local_steps=1.",
    ),
    sets(
        "method that counts on steps of devices that sleep",
        "method.name=scaffold fleet.awake=0.5 network.gossip_steps=0 server.primitive=s2a",
        "method 'scaffold' is not defined for devices that sleep: it counts on their steps. Leave "
        "[fleet] out, or take gradient_tracking, carry or fedprox.",
    ),
    sets(
        "method that S2A would break",
        "method.name=carry server.primitive=s2a",
        'method \'carry\' needs server.primitive = "s2s" or "none" (got "s2a"): S2A would move '
        'the average. Set server.primitive="s2s".',
    ),
    sets(
        "negative mu", "method.name=fedprox method.mu=-1", "method.mu must be at least 0 (got -1)."
    ),
    sets(
        "option of no method",
        "method.name=carry method.strength=1",
        "unknown field 'method.strength'",
    ),
    run(
        "primitive or preset that nobody knows",
        ["--compare", "s2s,scafold"],
        "unknown primitive 'scafold'; did you mean 'scaffold'?",
    ),
    sets(
        "function that was given from Python, in a text",
        "server.primitive=given:halfway@0123456789ab",
        "primitive 'given:halfway@0123456789ab' was the function halfway (source 0123456789ab), "
        "given from Python: no text holds it. Define it again and give the function itself",
    ),
    sets(
        "local optimizer that nobody knows",
        "training.optimizer=adm",
        "unknown local optimizer 'adm'; did you mean 'adam'? Available: adam, momentum, sgd.",
    ),
    sets(
        "weight decay below 0",
        "training.weight_decay=-1",
        "training.weight_decay must be at least 0 (got -1).",
    ),
    sets(
        "momentum of 1",
        "training.optimizer=momentum training.momentum=1",
        "training.momentum must be below 1 (got 1).",
    ),
    sets(
        "method and local optimizer at once",
        "method.name=carry training.optimizer=adam",
        'method \'carry\' needs training.optimizer = "sgd" (got "adam")',
    ),
    sets(
        "built-in measure as one of ones own",
        "evaluate.own=own_accuracy",
        "evaluate.own takes measures of your own, as package.module:function (got "
        "'own_accuracy'). Built-in ones go into evaluate.measures.",
    ),
    sets(
        "stepsize of the server below 0",
        "server.optimizer=fedadam server.learning_rate=-0.1",
        "server.learning_rate must be above 0 (got -0.1).",
    ),
]

ROWS = [
    *EXPERIMENT_FILES,
    *METHODS,
    *COMMAND_LINE,
    *HUGE,
    *GRAPHS,
    *DATA_FILES,
    *DEVICE_DATA,
    *PARTITIONS,
    *MODELS,
    *PLUGINS,
    *PARTICIPATION,
    *STORES,
    *RULES_OF_BOUNDS,
    *TASKS,
]
