"""A run with [clock] measures during the run what pricing computes afterwards."""

import numpy as np
import pytest

import skerry
from skerry.clock.times import MEASURES
from skerry.config.experiment import Experiment

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
