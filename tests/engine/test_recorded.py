"""What a GPU records once and replays is what it would have done anew. Skipped without a GPU."""

import numpy as np
import pytest
import torch

from skerry import registry
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.kernels.recorded import Repeated, record
from skerry.measure.observer import Observer
from skerry.measure.reading import columns_by_key
from skerry.runs.variants import expand

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def launched(monkeypatch):
    """Nothing is small enough to be recorded."""
    for room in ("engine.trainer", "kernels.recorded", "measure.observer"):
        monkeypatch.setattr(f"skerry.{room}.SMALL", 0)


def last_state(base, lanes):
    *_, moment = simulate(build_stack(build_world(base, device="cuda"), lanes))
    return moment.state


@pytest.mark.parametrize("name", [name for name in registry.METHODS if name != "sgd"])
def test_methods(small, name, monkeypatch):
    """Models and companions, to the bit; the round in which carry centres Z is among them."""
    rounds = 104 if name == "carry" else 9
    base = small("server.sampled=6", "server.offset=2", f"rounds={rounds}")
    lanes = expand(base, ["s2s", name])
    ours = last_state(base, lanes)
    launched(monkeypatch)
    theirs = last_state(base, lanes)
    assert torch.equal(ours.X_nld, theirs.X_nld)
    for array, values in theirs.companions.arrays.items():
        assert torch.equal(ours.companions.arrays[array], values), array


def test_a_users_own_method_is_not_recorded_unless_it_says_so(small):
    base = small("method.name=good_plugins:HeavyBall")
    stack = build_stack(build_world(base, device="cuda"), [base])
    (group,) = stack.mixing
    assert not group.method.repeats(5)
    *_, moment = simulate(stack)
    assert moment.state.X_nld.isfinite().all()


def test_measures(small, monkeypatch):
    """Of every round, server rounds among them."""
    base = small("rounds=12", 'evaluate.measures=["average","consensus"]')
    lanes = [base, base.with_settings("server.primitive=s2a", "server.period=2")]

    def rows():
        stack = build_stack(build_world(base, device="cuda"), lanes)
        observer = Observer(stack)
        readings = [observer.look(moment) for moment in simulate(stack)]
        return columns_by_key([reading for reading in readings if reading])

    ours = rows()
    launched(monkeypatch)
    for key, columns in rows().items():
        for name, values in columns.items():
            assert np.array_equal(ours[key][name], values, equal_nan=True), name


def test_work_that_waits_for_a_number_is_done_the_ordinary_way():
    """And the GPU goes on."""
    x = torch.ones(3, device="cuda")

    def waits(x):
        return x * x.sum().item()

    assert record(lambda: waits(x)) is None
    repeated = Repeated(waits)
    for value in (1.0, 2.0, 3.0, 4.0):
        x.fill_(value)
        assert repeated(x).tolist() == [3 * value**2] * 3


def test_a_result_holds_until_it_is_asked_for_again():
    x = torch.zeros(3, device="cuda")
    first, second = Repeated(torch.sum), Repeated(torch.sum)
    for value in range(5):
        x.fill_(value)
        before = first(x)
        x.add_(1)
        assert (before.item(), second(x).item()) == (3 * value, 3 * value + 3)
