"""What is told of memory before a run is what a process takes of it."""

import json
import subprocess
import sys

import pytest

from command_line import environment
from conftest import small
from skerry.engine.world import build_world
from skerry.runs.memory import footprint

CHILD = """
import json, sys
import scipy.stats, networkx
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.config.experiment import Experiment
from skerry.measure.observer import Observer
from skerry.runs.memory import footprint

def taken(when):
    # VmRSS is now, VmHWM the peak; ru_maxrss would begin with that of the parent.
    [line] = [line for line in open("/proc/self/status") if line.startswith(when)]
    return int(line.split()[1]) * 1024

def told(experiment):
    world = build_world(experiment)
    stack = build_stack(world, [experiment])
    observer = Observer(stack)
    for moment in simulate(stack):
        observer.read(moment)
    return footprint(world).need(1)

told(Experiment(rounds=2))  # all that is imported late
before = taken("VmRSS")
need = told(Experiment.parse({}, sys.argv[1:]))
print(json.dumps([need, taken("VmHWM") - before]))
"""
MANY = ("data.dataset=synthetic", "training.batch=1", "rounds=2", "network.components=1")
CASES = {
    "links": (*MANY, "data.samples=2000", "network.topology=complete", "network.devices=1000"),
    "data": ("data.dataset=synthetic", "data.samples=60000", "data.features=100", "rounds=1"),
}
SMALL = 30e6
"""Bytes that nobody counts."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_a_forecast_counts_links_and_data(settings):
    """A complete graph of 4,000 devices was told as 0.1 GB, and took 2.2."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *settings],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    told, used = json.loads(done.stdout)
    assert used - SMALL < 1.3 * told, (told, used)
    assert told < 1.8 * used, (told, used)


def test_shared_weights_are_counted_once():
    """Four islands with the same links share one W."""
    four, one = (
        footprint(build_world(small("data.inter=iid", f"network.components={count}")))
        for count in (4, 1)
    )
    assert four.world < one.world
