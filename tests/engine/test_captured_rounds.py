"""What a GPU records once and replays is what it would have done anew.

Without a GPU, a stand-in does a round's work again; the round's number stays what it was when the
work was recorded, as it would in a recording.
"""

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skerry.engine.round import initial_state
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.kernels.cuda_graph import CapturedFunction, capture, capture_pays, is_capturing
from skerry.measure.observer import Observer, columns_by_key
from skerry.plugins import registry
from skerry.runs.variants import expand

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
METHODS = [name for name in registry.METHODS if name != "sgd"]


class StandIn:
    """Counts replays."""

    replays = 0

    def __init__(self, state, work):
        self.state, self.t, self.work = state, state.t, work

    def replay(self):
        StandIn.replays += 1
        now, self.state.t = self.state.t, self.t
        try:
            return self.work()
        finally:
            self.state.t = now


def lanes_for(small, name):
    """Their stepsizes change; carry comes to the round in which Z is centred."""
    rounds = 104 if name == "carry" else 9
    base = small(
        "server.sampled=6", "server.offset=2", f"rounds={rounds}", "training.schedule=cosine"
    )
    if name != "private":
        return base, expand(base, ["s2s", name])
    base = base.with_settings("model.name=mlp", 'model.private=["3.*"]')
    return base, expand(base, ["s2s", "gradient_tracking"])


@pytest.mark.parametrize("name", [*METHODS, "private"])
def test_rounds_of_methods_follow_from_fixed_places(small, name, monkeypatch):
    base, lanes = lanes_for(small, name)
    stack = build_stack(build_world(base), lanes)
    *_, usual = simulate(stack)
    monkeypatch.setattr("skerry.engine.trainer.can_be_captured", lambda stack, state: True)
    monkeypatch.setattr(StandIn, "replays", 0)
    state = initial_state(stack)
    monkeypatch.setattr("skerry.engine.trainer.capture", partial(StandIn, state))
    *_, moment = simulate(stack, state)
    assert StandIn.replays == base.rounds - 2 - (name == "carry")
    assert torch.equal(moment.state.X_nld, usual.state.X_nld)
    for array, values in usual.state.companions.arrays.items():
        assert torch.equal(moment.state.companions.arrays[array], values), array


@pytest.mark.parametrize(
    "links", ["network.link_failure=0.3", "network.mix_with_server=false", "network.gossip_steps=2"]
)
def test_links_that_change_are_mixed_outside_of_the_recording(small, links, monkeypatch):
    base = small(links, "method.name=carry", "rounds=9")
    stack = build_stack(build_world(base), [base])
    *_, usual = simulate(stack)
    monkeypatch.setattr("skerry.engine.trainer.can_be_captured", lambda stack, state: True)
    state = initial_state(stack)
    monkeypatch.setattr("skerry.engine.trainer.capture", partial(StandIn, state))
    *_, moment = simulate(stack, state)
    assert torch.equal(moment.state.X_nld, usual.state.X_nld)


def test_what_cannot_be_recorded_is_done_the_ordinary_way(small, monkeypatch):
    base = small()
    stack = build_stack(build_world(base), [base])
    *_, usual = simulate(stack)
    asked = []
    monkeypatch.setattr("skerry.engine.trainer.can_be_captured", lambda stack, state: True)
    monkeypatch.setattr("skerry.engine.trainer.capture", asked.append)
    *_, moment = simulate(stack)
    assert len(asked) == 1
    assert torch.equal(moment.state.X_nld, usual.state.X_nld)


def test_a_users_own_method_is_not_recorded_unless_it_says_so(small, monkeypatch):
    base = small("method.name=good_plugins:HeavyBall")
    asked = []
    monkeypatch.setattr("skerry.engine.trainer.can_be_captured", lambda stack, state: True)
    monkeypatch.setattr("skerry.engine.trainer.capture", asked.append)
    for _ in simulate(build_stack(build_world(base), [base])):
        assert asked == []


class OnGpu:
    """As much of an array on a GPU as is asked of it."""

    is_cuda, nbytes, shape = True, 12, (3,)

    def __init__(self, place):
        self.place = place

    def data_ptr(self):
        return self.place


def test_a_function_is_recorded_anew_for_an_array_in_another_place(monkeypatch):
    done, recorded = [], []

    def stands_in(work):
        recorded.append(work())
        return SimpleNamespace(replay=lambda: f"again {recorded[-1]}")

    def place(X):
        done.append(X.place)
        return X.place

    monkeypatch.setattr("skerry.kernels.cuda_graph.capture", stands_in)
    repeated, one, other = CapturedFunction(place), OnGpu(1), OnGpu(2)
    found = [repeated(X) for X in (one, one, one, one, other, other, other)]
    assert found == [1, 1, "again 1", "again 1", 2, 2, "again 2"]
    assert (done, recorded) == ([1, 1, 1, 2, 2, 2], [1, 2])


def test_a_function_that_cannot_be_recorded_is_tried_once(monkeypatch):
    asked = []
    monkeypatch.setattr("skerry.kernels.cuda_graph.capture", asked.append)
    repeated, array = CapturedFunction(lambda X: X.place), OnGpu(7)
    assert [repeated(array) for _ in range(5)] == [7] * 5
    assert len(asked) == 1


def test_work_can_ask_whether_it_is_being_recorded(monkeypatch):
    """And after work that failed, nothing is."""

    def fails():
        raise RuntimeError("not permitted when stream is capturing")

    stands_in = SimpleNamespace(
        CUDAGraph=SimpleNamespace,
        graph=lambda graph, capture_error_mode: nullcontext(),
        current_stream=lambda: None,
        set_stream=lambda stream: None,
        synchronize=lambda: None,
    )
    monkeypatch.setattr("torch.cuda", stands_in)
    asked = []
    assert capture(lambda: asked.append(is_capturing())) is not None
    assert capture(fails) is None
    assert asked == [True]
    assert not is_capturing()


def test_a_larger_stack_is_recorded_where_it_needs_little_on_the_way():
    megabyte = 10**6
    assert capture_pays(268 * megabyte, 4000 * megabyte)
    assert capture_pays(304 * megabyte, 90 * megabyte)
    assert not capture_pays(304 * megabyte, 300 * megabyte)
    assert not capture_pays(600 * megabyte, 0)


# On a GPU


def launched(monkeypatch):
    """Nothing is small enough to be recorded."""
    for limit in (
        "kernels.cuda_graph.MAX_MODEL_BYTES",
        "kernels.cuda_graph.MAX_TOTAL_BYTES",
        "measure.observer.MAX_MODEL_BYTES",
    ):
        monkeypatch.setattr(f"skerry.{limit}", 0)


def last_state(base, lanes):
    *_, moment = simulate(build_stack(build_world(base, device="cuda"), lanes))
    return moment.state


@needs_gpu
@pytest.mark.parametrize("name", [*METHODS, "private"])
def test_methods(small, name, monkeypatch):
    """Models and companions, to the bit."""
    base, lanes = lanes_for(small, name)
    ours = last_state(base, lanes)
    launched(monkeypatch)
    theirs = last_state(base, lanes)
    assert torch.equal(ours.X_nld, theirs.X_nld)
    for array, values in theirs.companions.arrays.items():
        assert torch.equal(ours.companions.arrays[array], values), array


@needs_gpu
def test_measures(small, monkeypatch):
    """Of every round, server rounds among them."""
    base = small("rounds=12", 'evaluate.measures=["average","consensus"]')
    lanes = [base, base.with_settings("server.primitive=s2a", "server.period=2")]

    def rows():
        stack = build_stack(build_world(base, device="cuda"), lanes)
        observer = Observer(stack)
        readings = [observer.read(moment) for moment in simulate(stack)]
        return columns_by_key([reading for reading in readings if reading])

    ours = rows()
    launched(monkeypatch)
    for key, columns in rows().items():
        for name, values in columns.items():
            assert np.array_equal(ours[key][name], values, equal_nan=True), name


@needs_gpu
def test_work_that_waits_for_a_number_is_done_the_ordinary_way():
    """And the GPU goes on."""
    x = torch.ones(3, device="cuda")

    def waits(x):
        return x * x.sum().item()

    assert capture(lambda: waits(x)) is None
    repeated = CapturedFunction(waits)
    for value in (1.0, 2.0, 3.0, 4.0):
        x.fill_(value)
        assert repeated(x).tolist() == [3 * value**2] * 3


@needs_gpu
def test_a_result_holds_until_it_is_asked_for_again():
    x = torch.zeros(3, device="cuda")
    first, second = CapturedFunction(torch.sum), CapturedFunction(torch.sum)
    for value in range(5):
        x.fill_(value)
        before = first(x)
        x.add_(1)
        assert (before.item(), second(x).item()) == (3 * value, 3 * value + 3)
