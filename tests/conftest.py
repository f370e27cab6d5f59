"""Small worlds that tests share."""

import gc
import os
import signal
import sys
from functools import partial

import pytest
import torch
from hypothesis import settings

from browser import browser  # noqa: F401
from skerry.config.experiment import Experiment
from skerry.engine.world import World, build_world

torch.set_num_threads(1)  # tests run side by side; small tensors gain nothing from threads
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests edit modules twice within a second, which Python's cache of bytecode does not notice.
sys.dont_write_bytecode = True

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell: children would inherit a Ctrl-C that does nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: modules and tests are no garbage


def pytest_collection_finish():
    """Libraries and tests stay: whoever looks for garbage later need not look through them."""
    gc.freeze()
    gc.enable()


settings.register_profile("skerry", deadline=None, max_examples=60)
settings.load_profile("skerry")


def small(*extra: str) -> Experiment:
    """Twelve devices on two islands, synthetic data: quick, but nothing is special about it."""
    return Experiment.parse(
        {},
        [
            "network.devices=12",
            "server.sampled=5",
            "server.period=3",
            "rounds=7",
            "training.batch=4",
            "data.dataset=synthetic",
            "data.samples=240",
            "data.test_samples=60",
            "data.features=6",
            "data.classes=4",
            *extra,
        ],
    )


@pytest.fixture
def counts(record_property):
    """Says what a campaign did in a line, which stands at the end of `make test-slow`."""
    return partial(record_property, "counts")


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        if "slow" in report.keywords and report.when == "call":
            for name, line in report.user_properties:
                if name == "counts":
                    terminalreporter.write_line(line)


@pytest.fixture(name="small")
def _small():
    return small


@pytest.fixture
def small_world() -> World:
    return build_world(small())
