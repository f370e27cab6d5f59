"""Recorded runs priced afterwards take the time of a plain simulation of what the engine did."""

import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import fleet_data
import skerry
from event_clock import PlainRound, ServerCall, simulate
from skerry.analysis import pricing
from skerry.analysis.run_table import RunTable
from skerry.clock.devices import device_speeds
from skerry.clock.settings import read_clock
from skerry.clock.times import MEASURES
from skerry.engine.simulate import simulate as engine_moments
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError, SkerryWarning

CLOCK = {
    "compute": {"seconds_per_step": 0.5, "spread": 0.6, "jitter": 0.2, "watts": 4, "idle_watts": 1},
    "d2d": {"bandwidth": 900.0, "latency": 0.05, "joules_per_byte": 1e-3},
    "uplink": {"bandwidth": 300.0, "latency": 0.2, "joules_per_byte": 4e-3},
    "downlink": {"bandwidth": 500.0, "latency": 0.1, "joules_per_byte": 2e-3},
    "server": {"bandwidth_in": 900.0, "bandwidth_out": 900.0},
}
"""Steps and messages (112 bytes for the small model) take comparable times."""
CHANNELS = {"d2d": CLOCK["d2d"] | {"channel": "shared"}}
BROADCAST = {"downlink": CLOCK["downlink"] | {"broadcast": 400.0}}


def plain_columns(experiment, clock, materials=None):
    """Seconds and joules by the number of rounds done: events of what the engine itself does."""
    clock = read_clock(clock)
    world = build_world(experiment, materials)
    experiment = world.experiment
    stack = build_stack(world, [experiment])
    (mixing,), (server,) = stack.mixing, stack.servers
    fleet, awake = mixing.mixer.fleet, mixing.awake
    number, n, size = 4, world.n, world.shared_parameters
    d2d = number * size
    if mixing.compression is not None:
        d2d = mixing.compression.compression.bytes(size)
    up = down = number * size
    if server.compression is not None:
        up = server.compression.up.bytes(size) if server.compression.up else up
        down = server.compression.down.bytes(size) if server.compression.down else down
    epochs = world.local_epochs
    steps = (experiment.training.local_steps,) * n if epochs is None else epochs.steps.tolist()
    rounds, recorded = [], np.zeros(3, dtype=int)
    for moment in engine_moments(stack):
        if moment.phase != "end":
            continue
        t = moment.round - 1
        awake_n = np.ones(n, dtype=bool) if awake is None else awake(t)
        edges = tuple(map(tuple, fleet.edges(t).tolist()))
        call = None
        for one in moment.server_rounds:
            call = server_call(one, server, experiment, awake_n, t, up, down)
            recorded += [one.uplink, one.downlink, 0]
        gossip = mixing.steps_in(t)
        recorded[2] += 2 * len(edges) * gossip * mixing.mixed_arrays
        size_now = float(d2d * mixing.mixed_arrays)
        rounds.append(
            PlainRound(tuple(steps), tuple(awake_n.tolist()), edges, gossip, size_now, call)
        )
    speeds = device_speeds(clock, world.fleet.labels, experiment.seed)
    found = {name: [0.0] for name in MEASURES}
    for done in range(1, len(rounds) + 1):
        spent = simulate(clock, speeds, world.fleet.island_of.tolist(), rounds[:done])
        T_n, joules_n = spent["T"][-1], spent["joules"]
        found["seconds"].append(T_n.max())
        found["seconds_mean"].append(T_n.mean())
        found["waiting"].append(100 * spent["waiting"].sum() / T_n.sum())
        found["joules"].append(joules_n.sum())
        found["joules_max"].append(joules_n.max())
        computing = clock.compute.watts * spent["computing"].sum()
        idle = clock.compute.idle_watts * (spent["waiting"] + spent["talking"]).sum()
        found["joules_computing"].append(computing)
        found["joules_talking"].append(joules_n.sum() - computing - idle)
    return {name: np.array(values) for name, values in found.items()}, recorded


def server_call(one, group, experiment, awake_n, t, up, down):
    """A server round from the messages that the engine counted."""
    sampled = tuple(one.devices_k.tolist())
    beta = {"s2s": 0.0, "s2a": 1.0}.get(experiment.server.primitive)
    if beta is None:
        beta = group.schedule.server_round(t).server.beta
    reached, to_all = sampled, beta > 0
    if to_all:
        everyone = np.ones_like(awake_n) if experiment.availability.reach_asleep else awake_n
        reached = tuple(np.flatnonzero(everyone).tolist())
    K, all_, own = len(sampled), 1, 0
    if experiment.method.name == "gradient_tracking":
        own = int(experiment.method.tracker == "s2s")
        if experiment.method.tracker == "s2a":  # Y goes to all, and X as the primitive says
            all_, own = (2, 0) if to_all else (1, 1)
            reached, to_all = tuple(np.flatnonzero(awake_n).tolist()), True
    elif experiment.method.name in ("scaffold", "sd_gt"):
        all_ = 2
    assert one.uplink % K == 0
    assert one.downlink == all_ * len(reached) + own * K
    return ServerCall(
        sampled, reached, one.uplink // K * up, all_ * down, own * float(down), to_all=to_all
    )


def check_priced(folder, experiments, clock=None, materials=None):
    """All runs of a store, priced, equal the plain simulation in every recorded round."""
    clock = clock or CLOCK
    table = RunTable.read(folder).priced(clock)
    frame = skerry.load(folder, clock=clock)
    assert {run.key for run in table.runs} == set(frame["key"])
    runs = {run.key: run for run in table.runs}
    assert len(runs) == len(experiments)
    for experiment in experiments:
        world = build_world(experiment, materials)
        key = world.key(world.experiment)
        rows = frame[frame["key"] == key]
        expected, messages = plain_columns(experiment, clock, materials)
        done = rows["round"].to_numpy()
        for name in MEASURES:
            np.testing.assert_allclose(
                rows[name].to_numpy(), expected[name][done], rtol=1e-9, atol=1e-9, err_msg=name
            )
        links = ("uplink", "downlink", "d2d")
        last = [rows[f"{link}_messages"].iloc[-1] for link in links]
        if runs[key].rounds_done == experiment.rounds:
            assert last == messages.tolist()


KINDS = {
    "primitives": [["server.primitive=s2s"], ["server.primitive=s2a"], ["server.primitive=blend"]],
    "no server": [["server.primitive=none"]],
    "topologies": [["network.topology=complete"], ["network.topology=star"]],
    "links that fail": [["network.link_failure=0.4"]],
    "a new graph every round": [
        ["network.topology=erdos_renyi", "network.edge_prob=0.3", "network.dynamic=true"]
    ],
    "several gossip steps": [["network.gossip_steps=3"], ["network.gossip_steps=0"]],
    "no mixing with the server": [
        ["network.mix_with_server=false", f"server.period={H}"] for H in (2, 3)
    ],
    "islands of different sizes": [["network.components=[2, 7, 3]", "server.primitive=s2a"]],
    "sleep": [
        ["availability.awake=0.5", f"server.primitive={one}", f"availability.reach_asleep={far}"]
        for one, far in (("s2s", "false"), ("s2a", "false"), ("s2a", "true"), ("blend", "true"))
    ],
    "islands asleep": [
        ["availability.on=2", "availability.off=1", "availability.together=islands"]
    ],
    "selections": [
        [f"server.selection={one}", f"server.sampled={K}", f"server.primitive={primitive}"]
        for one, K in (("per_component", 5), ("one_each", 4), ("round_robin", 5), ("bernoulli", 5))
        for primitive in ("s2s", "s2a")
    ],
    "selections and sleep": [
        [f"server.selection={one}", "server.sampled=4", "availability.awake=0.6"]
        for one in ("per_component", "one_each", "round_robin", "bernoulli")
    ],
    "schedules": [
        ["server.sampled_schedule=double", "server.sampled_end=12", "server.change_every=2"],
        ["server.sampled_schedule=double", "server.sampled_end=12", "server.change_every=4"],
        ["server.sampled_schedule=switch", "server.sampled_end=9", "server.switch_round=3"],
        ["server.sampled_schedule=switch", "server.sampled_end=9", "server.switch_round=6"],
        ["server.period_schedule=switch", "server.period_end=1", "server.switch_round=3"],
        ["server.period_schedule=cosine", "server.period_end=1"],
        ["server.primitive=blend", "server.beta=0", "server.beta_schedule=switch",
         "server.beta_end=0.5", "server.switch_round=4"],
        ["server.offset=2"],
    ],
    "round robin with schedules": [
        ["server.selection=round_robin", "server.period_schedule=switch", "server.period_end=1",
         f"server.switch_round={one}", "server.sampled=2"]
        for one in (2, 4)
    ],
    "methods": [
        ["method.name=scaffold", "server.primitive=s2a", "network.gossip_steps=0"],
        ["method.name=fedprox"],
        ["method.name=fedvarp", "server.primitive=s2a", "network.gossip_steps=0"],
        ["method.name=carry"],
        ["method.name=mtgc", "server.primitive=s2a", "server.sampled=12", "server.offset=2",
         "network.topology=complete"],
        ["method.name=sd_gt", "server.selection=one_each", "server.sampled=4", "server.period=3",
         "server.offset=2"],
        *(
            ["method.name=gradient_tracking", f"server.primitive={one}", f"method.tracker={way}"]
            for one in ("s2s", "s2a") for way in ("s2s", "s2a", "home")
        ),
    ],
    "compression": [
        ["network.compression=top_k", "server.compression=int8"],
        ["server.compression=top_k", "server.compressed=up", "server.primitive=s2a"],
        ["server.compression=random_k", "server.compressed=down"],
    ],
    "local steps": [["training.local_steps=4"]],
    "local epochs": [
        ["training.local_epochs=2", "data.intra=dirichlet", "data.alpha=0.5",
         f"training.batch={one}"]
        for one in (4, 9)
    ],
    "few rounds are measured": [["evaluate.every=3"]],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_priced_runs_equal_the_events_of_the_engine(small, tmp_path, kind):
    """Each kind of experiment, several at once in a store, and two seeds."""
    experiments = []
    for settings in KINDS[kind]:
        try:
            base = small(*settings)
        except SkerryError as error:  # a fault of this test: the settings must be allowed
            pytest.fail(str(error))
        experiments += [base, base.with_settings("seed=1")]
    skerry.run(experiments, out=tmp_path)
    check_priced(tmp_path, experiments)


@pytest.mark.parametrize("tables", [CHANNELS, BROADCAST], ids=["shared channel", "broadcast"])
def test_other_clocks(small, tmp_path, tables):
    experiments = [small(f"server.primitive={one}") for one in ("s2s", "s2a", "blend")]
    skerry.run(experiments, out=tmp_path)
    check_priced(tmp_path, experiments, CLOCK | tables)


def test_recorded_bytes_are_those_that_are_priced(small, tmp_path):
    """With the energy of bytes alone, joules are the recorded bytes, those of links twice."""
    skerry.run([small("server.primitive=s2a"), small("availability.awake=0.7")], out=tmp_path)
    for link, times in (("uplink", 1), ("downlink", 1), ("d2d", 2)):
        frame = skerry.load(tmp_path, clock={link: {"joules_per_byte": 1.0}})
        np.testing.assert_allclose(frame["joules"], times * frame[f"{link}_bytes"])


def test_runs_that_differ_in_what_is_learned_share_the_computation(small, tmp_path, monkeypatch):
    """Stepsizes, optimizers and weights change no time: one lane serves them all."""
    experiments = [
        small(*settings)
        for settings in (
            ["training.stepsize=0.1"],
            ["training.stepsize=0.2"],
            ["training.stepsize=0.2", "training.schedule=cosine"],
            ["server.optimizer=fedavgm", "server.primitive=s2a"],
            ["server.primitive=s2a"],
        )
    ]
    skerry.run(experiments, out=tmp_path)
    lanes, real = [], pricing.run_clock
    monkeypatch.setattr(
        pricing, "run_clock", lambda g, *rest: lanes.append(len(g)) or real(g, *rest)
    )
    frame = skerry.load(tmp_path, clock=CLOCK)
    assert lanes == [2]
    by_run = frame.groupby(["primitive", "key"])["seconds"].last().groupby("primitive")
    assert (by_run.nunique() == 1).all()
    assert by_run.size().to_dict() == {"s2a": 2, "s2s": 3}


def test_runs_that_a_rule_has_stopped(small, tmp_path):
    """A run that ended early has the times of its own rounds, beside one that went on; schedules
    that depend on the number of rounds are those of the whole run."""
    settings = [
        "server.period_schedule=cosine",
        "server.period=1",
        "server.period_end=6",
        "rounds=12",
    ]
    whole = small(*settings)
    stopped = small(*settings, "stop=no gain in 5 rounds", "training.stepsize=1e-9")
    skerry.run([whole, stopped], out=tmp_path)
    done = {run.experiment.stop: run.rounds_done for run in RunTable.read(tmp_path).runs}
    assert done[""] == 12 > done["no gain in 5 rounds"]
    check_priced(tmp_path, [whole, stopped])
    alone = tmp_path / "alone"
    skerry.run([stopped], out=alone)
    check_priced(alone, [stopped])


def test_a_run_without_rounds_is_no_obstacle(small, tmp_path):
    """A run that failed before its first round leaves the others to be priced."""
    from skerry.records.store import Store, versions

    skerry.run([small()], out=tmp_path)
    with Store.open(tmp_path) as store:
        other = small("seed=3")
        store.begin(
            {other.key(): other}, materials={}, world="w", device="cpu", versions=versions()
        )
        store.finish(other.key(), "failed", wall_seconds=0.0, note="no memory")
    frame = skerry.load(tmp_path, clock=CLOCK)
    assert frame["seconds"].notna().all()
    finals = skerry.finals(tmp_path, clock=CLOCK).set_index("seed")
    assert finals.loc[0, "seconds"] > 0
    assert np.isnan(finals.loc[3, "seconds"])


# Names of devices


def given_data(folder, rounds, *settings):
    """An experiment on data that name their devices."""
    return skerry.Experiment.parse(
        {"data": {"dataset": "devices", "path": str(folder), "split": "given"}},
        [f"rounds={rounds}", "training.batch=4", "server.sampled=2", "server.period=2", *settings],
    )


def test_names_from_data(tmp_path):
    """`compute.slow` and a table name the devices that the data name."""
    folder = fleet_data.write_folder(tmp_path / "fleet")
    base = given_data(folder, 4)
    experiments = [base, base.with_settings("server.primitive=s2a")]
    out = tmp_path / "runs"
    skerry.run(experiments, out=out)
    slow = {"compute": CLOCK["compute"] | {"slow": {"porch": 9.0}}}
    check_priced(out, experiments, CLOCK | slow)
    table = tmp_path / "devices.csv"
    lines = [f"{name},{place / 10 + 0.1},{50 * place + 50}" for place, name in
             enumerate(reversed(fleet_data.SIZES))]  # fmt: skip
    table.write_text("\n".join(["device,seconds_per_step,uplink", *lines]))
    check_priced(out, experiments, CLOCK | {"devices": str(table)})
    with pytest.raises(SkerryError, match=r"names the device 'proch'.*did you mean 'porch'"):
        skerry.load(out, clock=CLOCK | {"compute": {"slow": {"proch": 2.0}}})


def test_sleep_by_names_from_data(tmp_path):
    """A trace of on and off times names the devices of the data too."""
    folder = fleet_data.write_folder(tmp_path / "fleet")
    trace = tmp_path / "trace.csv"
    lines = [f"{name},{place % 3},{place % 3 + 2}" for place, name in enumerate(fleet_data.SIZES)]
    trace.write_text("\n".join(["device,from,to", *lines]))
    base = given_data(folder, 6, f"availability.awake={trace}")
    experiments = [base, base.with_settings("server.primitive=s2a")]
    skerry.run(experiments, out=tmp_path / "runs")
    check_priced(tmp_path / "runs", experiments)


def test_names_of_two_data_sets(tmp_path):
    """Fleets of the same size whose data name other devices have speeds of their own."""
    rng, experiments = np.random.default_rng(0), []
    fleets = {"north": ["ada", "bob", "cyd", "dot"], "south": ["eve", "fay", "gil", "hal"]}
    for place, names in fleets.items():
        folder = tmp_path / place
        folder.mkdir()
        for name in names:
            x, y = rng.normal(size=(9, 3)).astype(np.float32), np.arange(9) % 2
            np.savez(folder / f"{name}.npz", x=x, y=y)
        experiments.append(given_data(folder, rounds=2))
    skerry.run(experiments, out=tmp_path / "runs")
    table = tmp_path / "devices.csv"
    rows = [
        f"{name},{1 + row},100" for row, name in enumerate([*fleets["north"], *fleets["south"]])
    ]
    table.write_text("\n".join(["device,seconds_per_step,uplink", *rows]))
    check_priced(tmp_path / "runs", experiments, {"devices": str(table)})


def test_names_from_a_graph_file(tmp_path, small):
    """And those of a graph file."""
    file = tmp_path / "fleet.edgelist"
    file.write_text("porch shed\nshed attic\nbarn cellar\ncellar loft\nloft barn\n")
    settings = [f"network.topology={file}", "server.sampled=2", "rounds=4", "server.period=2"]
    base = skerry.Experiment.parse({}, [*settings, "training.batch=4", "data.dataset=synthetic",
                                        "data.samples=120", "data.features=6"])  # fmt: skip
    skerry.run([base], out=tmp_path / "runs")
    slow = {"compute": CLOCK["compute"] | {"slow": {"cellar": 9.0}}}
    check_priced(tmp_path / "runs", [base], CLOCK | slow)
    table = tmp_path / "devices.csv"
    names = ["attic", "barn", "cellar", "loft", "porch", "shed"]
    rows = [f"{name},{100 * place + 100},1 kB/s" for place, name in enumerate(names)]
    table.write_text("\n".join(["device,d2d,downlink", *rows]))
    check_priced(tmp_path / "runs", [base], CLOCK | {"devices": str(table)})


# Runs that cannot be priced


def refused(folder, clock=None):
    with pytest.raises(SkerryError) as error:
        skerry.load(folder, clock=clock or CLOCK)
    (line,) = str(error.value).splitlines()
    return line


def test_what_depends_on_models_is_refused(small, tmp_path):
    for number, settings in enumerate(
        [
            ["server.primitive=blend", "server.beta_schedule=adaptive"],
            ["server.selection=importance"],
            ["server.selection=weighted"],
        ]
    ):
        skerry.run([small(*settings)], out=tmp_path / str(number))
        line = refused(tmp_path / str(number))
        assert re.search(r"^run \w+ cannot be priced afterwards, because .*\[clock\]", line)


def test_bytes_that_were_not_measured_are_refused(small, tmp_path):
    skerry.run([small('evaluate.measures=["average"]')], out=tmp_path)
    assert re.search(r"has no uplink_bytes.*evaluate\.measures", refused(tmp_path))


def test_a_graph_from_python_is_refused(small, tmp_path):
    """The store does not hold it."""
    graph = nx.disjoint_union(nx.path_graph(6), nx.path_graph(6))
    skerry.run([small()], graph=graph, out=tmp_path)
    line = refused(tmp_path)
    assert "because its graph was given from Python" in line
    assert "Draw" not in line


def test_a_graph_file_that_changed_is_refused(tmp_path):
    file = tmp_path / "fleet.edgelist"
    file.write_text("a b\nb c\n")
    base = skerry.Experiment.parse(
        {},
        [f"network.topology={file}", "server.sampled=2", "rounds=2", "training.batch=4",
         "data.dataset=synthetic", "data.samples=60", "data.features=6"],
    )  # fmt: skip
    skerry.run([base], out=tmp_path / "runs")
    file.write_text("a b\nb c\nc a\n")
    assert "has changed since the runs were recorded" in refused(tmp_path / "runs")


def test_an_edited_trace_is_refused(small, tmp_path):
    """The same file with other devices asleep: as many messages, other times."""
    trace = tmp_path / "trace.csv"
    trace.write_text("device,from,to\n" + "".join(f"{n},0,7\n" for n in range(8)))
    skerry.run([small(f"availability.awake={trace}")], out=tmp_path / "runs")
    assert len(skerry.load(tmp_path / "runs", clock=CLOCK))
    trace.write_text("device,from,to\n" + "".join(f"{n},0,7\n" for n in range(1, 9)))
    line = refused(tmp_path / "runs")
    assert "what availability.awake names has changed since it was recorded. Restore it." in line


def test_a_tracker_that_goes_to_all_is_priced_as_it_was_timed(small, tmp_path):
    """Y goes to all devices beside X: the run itself and the record give the same seconds."""
    settings = ["method.name=gradient_tracking", "method.tracker=s2a", "server.primitive=s2s"]
    skerry.run([small(*settings)], out=tmp_path / "plain")
    skerry.run([small(*settings, "clock.file=lte_phone")], out=tmp_path / "timed")
    priced, timed = (
        skerry.load(tmp_path / name, clock=clock)["seconds"].to_numpy()
        for name, clock in (("plain", "lte_phone"), ("timed", None))
    )
    np.testing.assert_allclose(priced, timed, rtol=1e-12)
    assert priced[-1] > 0


def test_other_messages_than_the_settings_tell_are_refused(small, tmp_path):
    """A record with other messages is not priced as if it had sent the usual ones."""
    skerry.run([small()], out=tmp_path)
    table = RunTable.read(tmp_path)
    (run,) = table.runs
    history = table.histories[run.key]
    for link in ("uplink", "downlink", "d2d"):
        more = {name: 2 * history[f"{link}_{name}"] for name in ("messages", "bytes")}
        other = {**history, **{f"{link}_{name}": values for name, values in more.items()}}
        with pytest.raises(SkerryError, match="because its recorded messages are others than"):
            replace(table, histories={run.key: other}).priced(CLOCK)
    skerry.run([small("server.primitive=s2a"), small("server.period=1")], out=tmp_path)
    beside = RunTable.read(tmp_path)
    histories = {**beside.histories, run.key: other}
    with pytest.warns(SkerryWarning, match="1 of 3 runs has no price and is left out"):
        left = replace(beside, histories=histories).priced(CLOCK)
    assert {one.key for one in left.runs} == {one.key for one in beside.runs} - {run.key}
    assert all("seconds" in left.histories[one.key] for one in left.runs)
