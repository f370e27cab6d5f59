"""Which lanes go together, and how many at once."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import small
from skerry.engine.compressed_messages import compression_temporaries
from skerry.engine.stack import group_keys
from skerry.engine.world import build_world
from skerry.errors import is_out_of_memory
from skerry.runs.executors.ray import CUDA_CONTEXT, gpu_share
from skerry.runs.grouping import cut, shape, stacks
from skerry.runs.memory import (
    EVALUATION,
    WORKSPACE,
    Footprint,
    _scores,
    _workspaces,
    footprint,
    free_memory,
    total_memory,
)
from skerry.runs.progress import Watcher
from skerry.runs.run import run
from skerry.runs.sweep import Sweep

PAPER = Path(__file__).parents[2] / "experiments" / "paper_mnist.toml"
GIGABYTE = 10**9


def test_the_papers_grid_is_twenty_worlds():
    """9,600 runs; a world is a regime of the data and a seed, with 480 lanes."""
    groups = stacks(Sweep.load(PAPER).runs())
    assert [len(group) for group in groups] == [480] * 20
    assert len({(g[0].data.inter, g[0].data.intra, g[0].seed) for g in groups}) == 20
    assert len({shape(group[0]) for group in groups}) == 1


LANES = [
    small(f"network.topology={topology}", f"server.period={period}", f"training.stepsize={eta}")
    for topology in ("ring", "complete")
    for eta in (0.1, 0.2, 0.3)
    for period in (1, 2, 3)
]


@given(st.integers(1, 20), st.permutations(LANES))
def test_a_cut_keeps_every_lane_once_and_stacks_alike(most, lanes):
    pieces = cut(lanes, most)
    assert sorted(e.key() for piece in pieces for e in piece) == sorted(e.key() for e in lanes)
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 17), st.permutations(LANES))
def test_a_cut_divides_no_more_groups_than_it_must(most, lanes):
    """Lanes that meet the server together are divided only where a stack ends."""
    pieces = cut(lanes, most)
    parts = sum(len({group_keys(e) for e in piece}) for piece in pieces)
    assert parts - len({group_keys(e) for e in lanes}) <= len(pieces) - 1


def test_no_lanes_are_no_stacks():
    assert cut([], 5) == []


@given(
    free=st.integers(0, 100 * GIGABYTE),
    world=st.integers(0, GIGABYTE),
    lane=st.integers(1, GIGABYTE),
    sharers=st.integers(1, 64),
)
def test_stacks_that_are_planned_side_by_side_fit(free, world, lane, sharers):
    """One lane is tried in any case."""
    found = Footprint(free, 2 * free, 0.7, world, lane, (0, 0, 0), 0.0, 0, 0, efficient=128)
    lanes = found.lanes(sharers)
    held = world * sharers if sharers > 1 else 0
    assert 1 <= lanes <= 128
    assert lanes == 1 or held + sharers * (EVALUATION + lanes * lane) <= free


def test_memory_is_measured():
    assert 0 < free_memory() <= total_memory()
    found = footprint(build_world(small()))
    assert found.free <= total_memory()
    # d = 4 classes x 8 inputs (6 features and the bias, aligned), 12 devices, four bytes
    assert found.lane >= 12 * 4 * 8 * 4
    assert found.world >= 300 * 6 * 4


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (["server.selection=bernoulli", "server.sample_prob=0.9", "server.sampled=2"], 12),
        (["server.selection=bernoulli", "server.sample_prob=0.02", "server.sampled=12"], 3),
        (["server.sampled=1", "server.sampled_schedule=double", "server.change_every=1"], 12),
        (["server.sampled=9", "server.sampled_schedule=inverse_sqrt"], 9),
        (["server.sampled=1", "server.sampled_schedule=cosine", "server.sampled_end=11"], 11),
        (["server.sampled=2", "server.sampled_end=11"], 2),  # which no schedule goes to
        (
            [
                "server.sampled=2",
                "server.sampled_schedule=adaptive",
                "server.sampled_target=0.1",
            ],
            12,
        ),
    ],
)
def test_room_is_left_for_as_many_as_the_server_may_meet(settings: list[str], most: int):
    """Also where server.sampled does not say how many these are."""
    experiment = small(*settings)
    assert experiment.server.most_sampled(12) == most
    means = 3 * 2 + 2  # of two islands, and what is made of them
    assert footprint(build_world(experiment)).other == pytest.approx(max(most, means) / 12)


def test_room_is_left_for_the_messages_of_as_many():
    coins = "server.selection=bernoulli", "server.sample_prob=0.9", "server.sampled=2"
    compressed = small(*coins, "server.compression=top_k", "server.primitive=s2s")
    assert compression_temporaries(compressed, 12)[0] == 1


@pytest.mark.parametrize(
    ("devices", "precision", "lanes", "held", "taken"),
    [
        (10_000, "tf32", 1, 37.6, 662.6),
        (10_000, "tf32", 4, 37.6, 746.9),
        (10_000, "float32", 1, 37.6, 694.6),
        (10_000, "float32", 4, 37.6, 778.9),
        (100_000, "tf32", 1, 346.6, 1240.2),
        (100_000, "tf32", 4, 346.6, 2076.9),
        (100_000, "float32", 1, 346.6, 1688.3),
        (100_000, "float32", 4, 346.6, 2884.0),
    ],
)
def test_a_forecast_fits_what_a_gpu_took(devices, precision, lanes, held, taken):
    """MiB on an H200: softmax regression 64 -> 10, batch 32, rings of 100; ten rounds, then all
    devices were scored on 10,000 samples. `held`: the world, with its draws."""
    on_chip, mebibyte = precision == "tf32", 2**20
    score, portion = 4 * 10 + 5, 2**32 // (4 * (72 + 10))
    fixed, more = (0, 4) if on_chip else (4 * 32 * 72, 4 * 32 * 10)
    found = Footprint(
        free=0,
        total=0,
        share=0.6,
        world=int(held * mebibyte) + (1 if on_chip else 2) * WORKSPACE,
        lane=devices * 720 * 4,
        step=(devices * fixed, devices * more, 2**40),
        other=(3 * devices // 100 + 2) / devices,
        scores=devices * 10_000 * score,
        most_scores=portion * score,
        efficient=128,
        judged=devices * 10 * 4,
        on_gpu=True,
    )
    assert 0.97 <= found.need(lanes) / (taken * mebibyte) <= 1.03


def test_on_a_gpu_scores_take_what_is_scored(monkeypatch):
    """A model's outputs for a sample and what is made of them: 4 classes, 12 devices."""
    base = small()
    there = replace(build_world(base), device=torch.device("cuda"))
    samples = len(there.y_test)
    each = 4 * 4 + 5
    assert _scores(there)[0] == 12 * samples * each
    few = replace(there, experiment=small("evaluate.device_samples=5"))
    assert _scores(few)[0] == max(samples, 12 * 5) * each
    one = replace(there, experiment=small("evaluate.measures=average"))
    assert _scores(one)[0] == samples * each
    rare = replace(there, experiment=small(f"evaluate.every={base.rounds}"))
    assert _workspaces(rare) == 2 * WORKSPACE
    monkeypatch.setattr(there.learner, "steps_on_chip", lambda batch: True)
    assert (_workspaces(rare), _workspaces(there)) == (WORKSPACE, 2 * WORKSPACE)


@given(st.integers(0, 100 * GIGABYTE), st.integers(GIGABYTE, 200 * GIGABYTE))
def test_stacks_that_share_a_gpu_fit_into_it(need, total):
    share = gpu_share(need, total)
    assert share in (1, 1 / 2, 1 / 4, 1 / 8)
    assert share == 1 or (need + CUDA_CONTEXT) / share <= total


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")],
)
def test_full_memory_is_known(error):
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_a_full_machine_is_known():
    """torch has no error of its own for it, only words."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**58)
    assert is_out_of_memory(caught.value)


class Sizes(Watcher):
    def __init__(self):
        self.begun, self.split = [], []

    def stack_begun(self, task):
        self.begun.append(len(task))

    def stack_split(self, task):
        self.split.append(len(task))


def test_a_stack_that_does_not_fit_is_split_and_the_size_remembered(tmp_path):
    """Ten lanes where three fit: 10 -> 5 -> 3; the next seed starts with what was learnt."""
    asked = Sweep(
        experiment=small("server.primitive=sweep_plugins:greedy"),
        axes={"training.stepsize": [0.01 * k for k in range(1, 11)]},
        seeds=2,
    )
    sizes = Sizes()
    results = run(asked, out=tmp_path, watcher=sizes)
    assert [lane.status for lane in results] == ["finished"] * 20
    assert sizes.split == [10, 5]
    assert sizes.begun[:2] == [10, 5]
    assert all(size <= 3 for size in sizes.begun[2:])
    assert sum(sizes.begun[2:]) == 20
