"""A run with [clock] measures during the run what pricing computes afterwards."""

import warnings

import numpy as np
import pytest

import skerry
from recorded_runs import PlugPulledError, assert_same, lanes_of, record
from skerry.clock.settings import read_clock
from skerry.clock.times import MEASURES
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryWarning

CLOCK = """
[compute]
seconds_per_step = 0.05
spread = 0.5
jitter = 0.2
watts = 4.0
idle_watts = 0.5
[d2d]
bandwidth = "2 kB/s"
latency = "5 ms"
channel = "one_by_one"
joules_per_byte = 2e-7
[uplink]
bandwidth = "1 kB/s"
latency = "60 ms"
joules_per_byte = 5e-6
[downlink]
bandwidth = "5 kB/s"
latency = "60 ms"
broadcast = "3 kB/s"
joules_per_byte = 1e-6
[server]
bandwidth_in = "10 kB/s"
bandwidth_out = "10 kB/s"
"""
TRACE = "device,from,to\n" + "".join(f"{i},{i % 3},{i % 3 + 2}\n" for i in range(12))
PRIMITIVES = ("s2s", "s2a", "blend:0.5")
GRID = {
    "plain": "",
    "every round": "server.period=1 evaluate.every=2",
    "one each": "server.selection=one_each server.sampled=4",
    "per component": "server.selection=per_component",
    "bernoulli": "server.selection=bernoulli server.sample_prob=0.2 server.period=1",
    "round robin": "server.selection=round_robin server.period=2",
    "random sleep": "availability.awake=0.6",
    "reached asleep": "availability.awake=0.4 availability.reach_asleep=true server.period=2",
    "bursts": "availability.on=2 availability.off=1 availability.together=islands",
    "a trace": "availability.awake=trace.csv server.period=2",
    "nobody awake": "availability.awake=0.0",
    "dynamic links": "network.topology=erdos_renyi network.dynamic=true",
    "failing links": "network.link_failure=0.4",
    "two gossip steps": "network.gossip_steps=2",
    "no gossip": "network.gossip_steps=0",
    "server rounds without mixing": "network.mix_with_server=false",
    "local steps": "training.local_steps=3",
    "local epochs": "training.local_epochs=2 data.intra=dirichlet data.alpha=1.0",
    "gradient tracking": "method.name=gradient_tracking",
    "tracker by s2a": "method.name=gradient_tracking method.tracker=s2a",
    "tracker at home": "method.name=gradient_tracking method.tracker=home",
    "local adam": "training.optimizer=adam",
    "compressed": "server.compression=int8 network.compression=top_k",
    "compressed up": "server.compression=random_k server.compressed=up",
    "schedules of K and H": "server.sampled_schedule=cosine server.sampled_end=2 "
    "server.period_schedule=double server.period=1 server.change_every=3",
    "private parts": 'model.name=mlp model.hidden=[5] model.private=["3.*"]',
    "three islands, offset": "network.components=3 server.offset=2 server.optimizer=fedavgm",
}
PRESETS = ("scaffold", "sd_gt", "mtgc", "fedprox", "fedvarp", "carry", "fedavg", "none")
SWITCH = (
    "server.primitive=blend server.beta_schedule=switch server.beta=1.0 server.beta_end=0.0 "
    "server.switch_round=4"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clock.toml").write_text(CLOCK)
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def recorded_and_priced(folder, base: Experiment, compare):
    timed = base.replace(clock={"file": "clock.toml"})
    skerry.run(timed, compare=compare, out=folder / "timed")
    skerry.run(base, compare=compare, out=folder / "plain")
    return (
        skerry.load(folder / "timed"),
        skerry.load(folder / "plain"),
        skerry.load(folder / "plain", clock="clock.toml"),
    )


@pytest.mark.parametrize(
    ("compare", "settings"),
    [*((PRIMITIVES, settings) for settings in GRID.values()),
     *(((name,), "server.sampled=6") for name in PRESETS), ((), SWITCH)],
    ids=[*GRID, *PRESETS, "a beta that switches"],
)  # fmt: skip
def test_measured_during_the_run_as_priced_afterwards(small, folder, compare, settings):
    """In every recorded row; and time changes nothing of what is learned."""
    base = small("rounds=8", *settings.split())
    timed, plain, priced = recorded_and_priced(folder, base, list(compare) or None)
    assert len(timed) == len(priced) == len(plain)
    assert timed["primitive"].tolist() == priced["primitive"].tolist()
    for name in MEASURES:
        found, expected = timed[name].to_numpy(), priced[name].to_numpy()
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-12), name
    learned = [name for name in plain.columns if name in timed and plain[name].dtype == float]
    assert "average_loss" in learned
    for name in learned:
        assert np.array_equal(plain[name], timed[name], equal_nan=True), name
    if "awake=0.0" not in settings:
        assert timed["seconds"].max() > 0


def test_compressed_links_that_change_have_an_approximate_price(small, folder):
    """Messages that catch up are longer, and their record is a sum: docs/clock.md says how much."""
    settings = "network.topology=erdos_renyi network.dynamic=true network.compression=int8"
    base = small("rounds=8", *settings.split())
    timed, _, priced = recorded_and_priced(folder, base, None)
    ratio = (priced["seconds"] / timed["seconds"]).to_numpy()
    assert 0.001 < abs(ratio[1:] - 1).max() < 0.25
    assert ratio[-1] == pytest.approx(1, abs=0.05)
    assert priced["joules_talking"].iloc[-1] == pytest.approx(timed["joules_talking"].iloc[-1])


TIMED = "server.deadline=0.35 server.over_sample=2 server.sampled=6 server.period=2"


def test_resumed_runs_end_with_the_same_times(small, folder):
    """Through checkpoints on the disk, with lanes that have no clock beside them."""
    timed = small("clock.file=clock.toml", *TIMED.split(), "rounds=8")
    lanes = [*lanes_of(timed), *lanes_of(small("rounds=8"))]
    undisturbed = record(folder / "whole", lanes)
    for stop_after in (1, 3, 6):
        with pytest.raises(PlugPulledError):
            record(folder / "parts", lanes, stop_after)
    assert_same(record(folder / "parts", lanes), undisturbed)


@pytest.mark.parametrize(
    "settings",
    [
        "server.period_schedule=adaptive server.period_target=0.01",
        "server.selection=importance",
        "server.selection=timed_plugins:my_uniform",
        "server.primitive=timed_plugins:my_s2a",
        "method.name=timed_plugins:Doubled",
        TIMED,
    ],
)
def test_what_pricing_refuses_is_measured_during_the_run(small, folder, settings):
    """Its own columns stand, also under its own clock; another clock is refused."""
    base = small("clock.file=clock.toml", *settings.split())
    skerry.run(base, out=folder / "timed")
    recorded = skerry.load(folder / "timed")
    assert recorded["seconds"].is_monotonic_increasing
    assert recorded["seconds"].max() > 0
    own = skerry.load(folder / "timed", clock="clock.toml")
    assert [own[name].tolist() for name in MEASURES] == [
        recorded[name].tolist() for name in MEASURES
    ]
    other = {"compute": {"seconds_per_step": 1.0}}
    with pytest.raises(
        RecordsError, match=r"by another clock than its own \(clock.toml\), because"
    ):
        skerry.load(folder / "timed", clock=other)
    (folder / "clock.toml").write_text(CLOCK.replace("0.05", "0.06"))
    with pytest.raises(RecordsError, match="by another clock than its own"):
        skerry.load(folder / "timed", clock="clock.toml")


def test_its_own_clock_is_known_by_its_content(small, folder, monkeypatch):
    """From any folder, and as a copy with its device table; runs that no other clock can price are
    left out of it with a warning."""
    table = "seconds_per_step\n0.1\n0.2\n"
    for place in (folder, folder / "copy"):
        place.mkdir(exist_ok=True)
        (place / "phones.csv").write_text(table)
        (place / "clock.toml").write_text(f'devices = "phones.csv"\n{CLOCK}')
    timed = small("clock.file=clock.toml", *TIMED.split())
    skerry.run([timed, small("seed=5")], out=folder / "runs")
    (folder / "elsewhere").mkdir()
    own = skerry.load(folder / "runs").query("seed == 0")["seconds"].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkerryWarning)
        one = read_clock("copy/../clock.toml")
        assert skerry.load(folder / "runs", clock=one).query("seed == 0")["seconds"].tolist() == own
        monkeypatch.chdir(folder / "elsewhere")
        for path in ("../clock.toml", "../copy/clock.toml"):
            frame = skerry.load(folder / "runs", clock=path)
            assert frame.query("seed == 0")["seconds"].tolist() == own
    (folder / "copy/phones.csv").write_text(table.replace("0.2", "0.3"))
    told = (
        r"^1 of 2 runs has no price and is left out: run \w+ cannot be priced by another clock "
        r"than its own \(clock\.toml, of which there is no file /.*elsewhere/clock\.toml\), because"
    )
    with pytest.warns(SkerryWarning, match=told):
        frame = skerry.load(folder / "runs", clock="../copy/clock.toml")
    assert set(frame["seed"]) == {5}


def test_a_run_with_a_clock_may_be_priced_by_another(small, folder):
    """Without deadlines time changes nothing, so that any clock may be asked for."""
    skerry.run(small("clock.file=clock.toml"), out=folder / "timed")
    skerry.run(small(), out=folder / "plain")
    other = {"compute": {"seconds_per_step": 1.0}}
    timed, plain = (skerry.load(folder / name, clock=other) for name in ("timed", "plain"))
    assert timed["seconds"].tolist() == plain["seconds"].tolist() == [*map(float, range(8))]


def test_a_run_may_stop_after_so_many_seconds(small, folder):
    base = small("clock.file=clock.toml", "rounds=50", "stop=seconds >= 1.5")
    (lane,) = skerry.run(base)
    seconds = lane.history["seconds"]
    assert seconds[-1] >= 1.5 > seconds[-2]
    assert len(seconds) < 50


def test_the_content_of_a_clock_is_in_the_key(small, folder):
    """And of the table of its devices; a run without a clock has the key that it had."""
    clock, table = folder / "clock.toml", folder / "phones.csv"
    table.write_text("seconds_per_step\n0.1\n0.2\n")
    keys = [small().key(), small("clock.file=clock.toml").key()]
    clock.write_text(CLOCK + "\n")
    keys.append(small("clock.file=clock.toml").key())
    clock.write_text(f'devices = "phones.csv"\n{CLOCK}')
    keys.append(small("clock.file=clock.toml").key())
    table.write_text("seconds_per_step\n0.1\n0.3\n")
    keys.append(small("clock.file=clock.toml").key())
    assert len({*keys}) == 5
    assert small("clock.file=clock.toml").world_key() == small().world_key()


def test_a_clock_is_found_beside_its_experiment(small, folder, monkeypatch):
    """As every path of an experiment file, from wherever it is run."""
    (folder / "mine.toml").write_text(small("clock.file=clock.toml", "rounds=2").to_toml())
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    here = Experiment.load(folder / "mine.toml")
    key = here.key()
    (lane,) = skerry.run(here)
    assert lane.final["seconds"] > 0
    (folder / "clock.toml").unlink()
    assert Experiment.load(folder / "mine.toml").key() != key


def test_lanes_with_and_without_a_clock_share_a_stack(small, folder):
    (folder / "slow.toml").write_text(CLOCK.replace("0.05", "0.5"))
    base = small("rounds=3")
    results = skerry.run([base, base.replace(clock={"file": "clock.toml"}),
                          base.replace(clock={"file": "slow.toml"})])  # fmt: skip
    finals = [lane.final for lane in results]
    assert [("seconds" in one) for one in finals] == [False, True, True]
    assert finals[2]["seconds"] > finals[1]["seconds"] > 0
    assert len({one["average_loss"] for one in finals}) == 1
