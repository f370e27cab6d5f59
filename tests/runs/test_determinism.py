"""With `deterministic`, a run repeats to the bit: alone, among others, in workers, interrupted."""

from contextlib import contextmanager

import pytest
import torch

from command_line import skerry
from conftest import small
from recorded_runs import PlugPulledError, assert_same, histories
from skerry.engine.world import build_world
from skerry.errors import CallbackError, SkerryWarning
from skerry.records.store import Store
from skerry.runs.process import deterministic_torch
from skerry.runs.progress import Progress
from skerry.runs.run import run
from skerry.runs.sweep import Sweep

MODELS = ("linear", "mlp")


def asked(model="mlp", *settings):
    return small(f"model.name={model}", "data.features=40", "training.batch=16", *settings)


def others(one):
    """The same run among eleven others, of this world and of another one."""
    axes = {"server.primitive": ["s2a", "s2s", "blend"], "training.stepsize": [0.05, 0.1]}
    return Sweep(experiment=one, axes=axes, seeds=2)


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module", params=MODELS)
def alone(request, tmp_path_factory):
    """A run, and what comes of it when nothing runs beside it."""
    one = asked(request.param, "training.stepsize=0.1")
    folder = tmp_path_factory.mktemp("alone")
    run(one, out=folder, device="cpu", deterministic=True)
    return one, histories(folder)


PLACES = [
    {},
    pytest.param({"workers": 2}, marks=pytest.mark.slow),
    pytest.param({"executor": "ray", "workers": 2}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("where", PLACES, ids=["here", "processes", "ray"])
def test_a_run_repeats_to_the_bit_whatever_runs_beside_it(alone, where, tmp_path):
    pytest.importorskip("ray") if where.get("executor") == "ray" else None
    one, whole = alone
    if where and one.model.name == "linear":
        pytest.skip("one model is enough for workers")
    with threads(3):  # however many there are otherwise
        run(others(one), out=tmp_path, device="cpu", deterministic=True, **where)
        assert torch.get_num_threads() == 3
    found = histories(tmp_path)
    assert len(found) == 12
    assert told(tmp_path) == {("1", "1", "yes")}
    assert_same({key: found[key] for key in whole}, whole)


def test_the_record_says_with_how_many_threads_and_lanes(tmp_path):
    lanes = [asked("linear", f"server.primitive={name}") for name in ("s2s", "s2a")]
    with threads(2):
        run(lanes, out=tmp_path / "free", device="cpu")
        run(lanes, out=tmp_path / "strict", device="cpu", deterministic=True)
    assert told(tmp_path / "free") == {("2", "2", None)}
    assert told(tmp_path / "strict") == {("1", "1", "yes")}


def told(folder):
    """Of threads, lanes and determinism, by all runs."""
    names = ("threads", "lanes", "deterministic")
    with Store.read(folder) as store:
        return {tuple(run.versions.get(name) for name in names) for run in store.runs()}


def test_finished_runs_that_were_not_deterministic_are_computed_again(alone, tmp_path):
    one, whole = alone
    run(others(one), out=tmp_path, device="cpu")
    with pytest.warns(SkerryWarning, match=r"holds 1 run .* not computed with `deterministic`"):
        run(one, out=tmp_path, device="cpu", deterministic=True)
    found = histories(tmp_path)
    assert len(found) == 12
    assert_same({key: found[key] for key in whole}, whole)


class Unplugged(Progress):
    def moment(self, moment):
        if moment.phase == "before_server" and moment.round > 4:
            raise PlugPulledError


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupted_run_goes_on_from_its_own_kind_alone(alone, before, tmp_path):
    """A checkpoint of other lanes, or of other threads, would bring their bits along."""
    one, whole = alone
    first = one if before else others(one)
    with pytest.raises(CallbackError, match="PlugPulledError"):
        run(
            first,
            out=tmp_path,
            device="cpu",
            deterministic=before,
            keep_going=False,
            progress=Unplugged(),
            checkpoint_seconds=0,
        )
    [checkpoint] = (tmp_path / "checkpoints").glob("*.safetensors")
    assert checkpoint.stem.endswith("-alone") == before
    if before:
        run(one, out=tmp_path, device="cpu", deterministic=True)
    else:
        with pytest.warns(SkerryWarning, match="no checkpoint is left of 1 run"):
            run(one, out=tmp_path, device="cpu", deterministic=True)
    found = histories(tmp_path)
    assert_same({key: found[key] for key in whole}, whole)


def test_torch_is_as_it_was_afterwards():
    with threads(2):
        with deterministic_torch():
            assert torch.get_num_threads() == 1
            assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 2
        assert not torch.are_deterministic_algorithms_enabled()


def test_the_commands_take_it(tmp_path, monkeypatch):
    """`run` and `sweep` make the same bits; a forecast plans one run at a time."""
    monkeypatch.chdir(tmp_path)
    one = asked("linear")
    (tmp_path / "one.toml").write_text(one.to_toml())
    axis = '[sweep.axes]\n"server.primitive" = ["s2s", "s2a"]\n'
    (tmp_path / "grid.toml").write_text(f"{one.to_toml()}[sweep]\nseeds = 1\n{axis}")
    plan = skerry("sweep", "grid.toml", "--deterministic", "--dry-run", "--json")
    assert '"stacks": 2, "lanes": 1' in plan.out, plan.err
    for command, file in (("run", "one.toml"), ("sweep", "grid.toml")):
        done = skerry(command, file, "--deterministic", "--out", command, "--device", "cpu")
        assert done.code == 0, done.err
    key = build_world(one).key(one)
    assert_same({key: histories(tmp_path / "run")[key]}, {key: histories(tmp_path / "sweep")[key]})
