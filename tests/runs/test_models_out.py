"""Final models in plain PyTorch: they score what the run reported, and runs start from them."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import skerry
from command_line import skerry as command
from skerry.analysis.results import read_studies
from skerry.errors import SkerryError

SIZE = ["rounds=4", "network.devices=6", "server.sampled=2", "server.period=2", "training.batch=4"]
DIGITS = ["data.dataset=digits", "evaluate.every=4"]
REGRESSION = ["data.dataset=synthetic_regression", "data.samples=60", "data.test_samples=20"]
TOKENS = [
    "data.dataset=synthetic_tokens", "data.samples=60", "data.test_samples=20", "data.length=5",
]  # fmt: skip
THREE = ["network.devices=3"]
MODELS = {
    "linear": DIGITS,
    "mlp": DIGITS,
    "model_factories:tiny_cnn": DIGITS,
    "model_factories:partly_frozen": DIGITS,
    "linear regression": REGRESSION,
    "mlp regression": REGRESSION,
    "linear tokens": TOKENS,
    "gru tokens": [*TOKENS, "model.width=4"],
}


def tiny(*settings: str) -> skerry.Experiment:
    return skerry.Experiment.parse({}, [*SIZE, *settings])


def scores(module: nn.Module, lane: skerry.Lane) -> dict[str, float]:
    """What a user computes in plain PyTorch."""
    x, y = lane.data("test")
    with torch.no_grad():
        outputs = module(x)
    if y.is_floating_point():
        return {"average_loss": nn.functional.mse_loss(outputs, y.view(outputs.shape)).item()}
    outputs, y = outputs.flatten(0, -2), y.flatten()
    return {
        "average_loss": nn.functional.cross_entropy(outputs, y).item(),
        "average_accuracy": 100 * (outputs.argmax(1) == y).float().mean().item(),
    }


@pytest.mark.parametrize("name", MODELS)
def test_the_module_scores_in_plain_pytorch_what_the_run_reported(name):
    """The average model as an nn.Module has the loss and accuracy that were recorded."""
    experiment = tiny(*MODELS[name], f"model.name={name.split()[0]}")
    lanes = skerry.run(experiment, compare=["s2s", "s2a"], keep_models=True)
    for lane in lanes:
        module = lane.model("average")
        assert not module.training
        for measure, value in scores(module, lane).items():
            if measure in lane.final:
                assert value == pytest.approx(lane.final[measure], rel=1e-5), measure
        assert lane.models.shape == (6, sum(np.prod(p.shape, dtype=int) for p in lane.parameters))
        trained = {n for n, p in module.named_parameters() if p.requires_grad}
        assert {p.name for p in lane.parameters} == trained
        for row, device in ((3, "3"), (3, 3)):
            state = lane.model(device).state_dict()
            for one in lane.parameters:
                numbers = one.of(torch.from_numpy(lane.models)[row])
                assert torch.equal(state[one.name], numbers)


def test_disagreement_and_device_scores_follow_from_the_models():
    """Flat vectors have no padding: their spread is the recorded disagreement, and the score of a
    device's module that of the table of devices."""
    experiment = tiny(*DIGITS, "model.name=mlp")
    (lane,) = skerry.run(experiment, keep_models=True, keep_devices=True)
    away = lane.models - lane.models.mean(axis=0)
    assert (away**2).sum() / 6 == pytest.approx(lane.final["disagreement"], rel=1e-4)
    north = torch.from_numpy(lane.models[:3]).mean(dim=0)
    state = lane.state_dict(island="0")
    assert torch.equal(state["3.bias"], lane.parameters[-1].of(north))


def test_frozen_parts_buffers_and_tied_names_come_along():
    """The state dict is complete: a module of the user's own loads it strictly."""
    from model_factories import PartlyFrozen

    experiment = tiny(*DIGITS, "model.name=model_factories:partly_frozen")
    (lane,) = skerry.run(experiment, keep_models=True)
    module = PartlyFrozen(10)
    module.load_state_dict(lane.state_dict("average"), strict=True)
    found = scores(module.eval(), lane)
    assert found["average_loss"] == pytest.approx(lane.final["average_loss"], rel=1e-5)
    state = lane.state_dict(0)
    assert torch.equal(state["first.weight"], state["second.weight"])
    assert state["order"].dtype == torch.int64


def test_a_factory_from_python_is_rebuilt_in_the_process():
    """Models and data given from Python come out as they were given."""
    x, y = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32), np.arange(40) % 3

    def factory(problem):
        return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, problem.outputs))

    (lane,) = skerry.run(tiny(), dataset=(x, y, x, y), model=factory, keep_models=True)
    found = scores(lane.model(), lane)
    assert found["average_loss"] == pytest.approx(lane.final["average_loss"], rel=1e-5)


def test_what_has_no_module_says_so():
    """The quadratic has a state dict only; unknown names get one line."""
    (lane,) = skerry.run(tiny("model.name=quadratic", *DIGITS), keep_models=True)
    assert torch.equal(lane.state_dict(0)["parameters"], torch.from_numpy(lane.models[0]))
    with pytest.raises(SkerryError, match=r"has no nn.Module. Take lane.state_dict"):
        lane.model()
    with pytest.raises(SkerryError, match=r"unknown device 'avrage'; did you mean 'average'\?"):
        lane.state_dict("avrage")
    with pytest.raises(SkerryError, match="from 0 to 5"):
        lane.state_dict(6)
    with pytest.raises(SkerryError, match="unknown island '7'"):
        lane.state_dict(island="7")
    with pytest.raises(SkerryError, match="Leave the device or the island out"):
        lane.state_dict("3", island="0")


# Export


def test_exported_models_are_those_of_the_run_kept_or_computed_again(tmp_path, monkeypatch):
    """`skerry export` writes the same state dict with and without --keep-models."""
    monkeypatch.chdir(tmp_path)
    words = [word for setting in [*SIZE, *DIGITS, "model.name=mlp"] for word in ("--set", setting)]
    assert command("run", *words, "--compare", "s2a", "--seeds", 1, "--keep-models").code == 0
    (file,) = (tmp_path / "runs/models").iterdir()
    assert command("export", file.stem[:6], "-o", "kept.safetensors").code == 0
    (lane,) = skerry.run(
        tiny(*DIGITS, "model.name=mlp"), compare=["s2a"], out="runs", keep_models=True
    )
    state = load_file("kept.safetensors")
    module = lane.model()  # from the file in the store: the run was recorded before
    assert all(torch.equal(value, state[n]) for n, value in module.state_dict().items())

    file.unlink()
    told = command("export", f"runs#{file.stem}", "--device", "average", "-o", "again.safetensors")
    assert "were not kept: computing it again" in told.err
    again = load_file("again.safetensors")
    assert all(torch.allclose(value, again[name], rtol=1e-5) for name, value in state.items())

    refused = command("export", "runs", "--device", "porch", "-o", "no.safetensors")
    assert refused.code == 2
    assert "unknown device 'porch'" in refused.err
    nothing = command("export", "ffff", "-o", "no.safetensors")
    assert nothing.code == 2
    assert "RUN must name one finished run" in nothing.err
    whose = command("export", "runs", "--island", "0", "-o", "island.safetensors")
    assert "(average of island 0)" in whose.out
    (tmp_path / "runs").rename("elsewhere")
    assert (
        "(got 'nowhere', and there is no folder runs)"
        in command("export", "nowhere", "-o", "no.safetensors").err
    )
    os.mkfifo(tmp_path / "elsewhere/models" / file.name)
    piped = command("export", "elsewhere", "-o", "no.safetensors")
    assert piped.code != 0
    assert "are damaged (a pipe, a device or a socket, not a file)" in piped.err
    assert "a pipe" in command("store", "verify", "elsewhere").out


def test_names_of_devices_that_mean_something_else_are_refused_where_they_are_ambiguous(tmp_path):
    """A device may be called average or default, but no model is taken for another's."""
    parts = {name: (np.eye(6, 3), np.arange(6) % 2) for name in ("average", "default", "c")}
    fleet = skerry.from_devices(parts)
    (lane,) = skerry.run(tiny("rounds=1", *THREE), dataset=fleet, keep_models=True)
    with pytest.raises(SkerryError, match="'average' is the mean of all devices, and here also"):
        lane.model()
    assert torch.equal(lane.state_dict(2)["bias"], lane.state_dict("c")["bias"])
    for row in (1.5, None, True):
        with pytest.raises(SkerryError, match="a row must be a whole number from 0 to 2"):
            lane.model(row)
    state = lane.state_dict(1)
    with pytest.raises(SkerryError, match="'default' in weights may be for the device of this"):
        skerry.run(tiny(*THREE), dataset=fleet, weights={"default": state})
    skerry.run(tiny(*THREE), dataset=fleet, weights=dict.fromkeys(parts, state))
    (tmp_path / "w").mkdir()
    for name in ("a b", "a%20b"):
        save_file(state, tmp_path / f"w/{name}.safetensors")
    with pytest.raises(SkerryError, match="are both for device 'a b'"):
        skerry.run(tiny(), weights=tmp_path / "w")


def test_weights_are_taken_as_modules_arrays_and_by_number():
    """A module, arrays of NumPy and numbers of devices mean what a state dict by names does."""
    module = nn.Linear(64, 10)
    state = module.state_dict()
    arrays = {name: value.numpy() for name, value in state.items()}
    common, by_name = (
        skerry.run(tiny(*DIGITS, "rounds=1"), weights=weights)[0].key
        for weights in (state, dict.fromkeys(map(str, range(6)), state))
    )
    for weights, key in (
        (module, common),
        (arrays, common),
        (dict.fromkeys(range(6), module), by_name),
        ({0: arrays, **dict.fromkeys(map(str, range(1, 6)), state)}, by_name),
    ):
        assert skerry.run(tiny(*DIGITS, "rounds=1"), weights=weights)[0].key == key
    with pytest.raises(SkerryError, match="weights names device '0' twice"):
        skerry.run(tiny(*DIGITS), weights={0: state, "0": state})
    with pytest.raises(SkerryError, match="weights takes a state dict"):
        skerry.run(tiny(*DIGITS), weights=np.zeros(3))


def test_the_store_knows_kept_models(tmp_path, monkeypatch):
    """Damaged models are found and put aside, and forgotten runs take theirs along."""
    monkeypatch.chdir(tmp_path)
    (lane,) = skerry.run(tiny(), out="runs", keep_models=True)
    (file,) = (tmp_path / "runs/models").iterdir()
    sound = file.read_bytes()
    assert command("store", "verify").code == 0
    file.write_bytes(sound[:-9] + bytes([sound[-9] ^ 1]) + sound[-8:])
    told = command("store", "verify")
    assert told.code == 1
    assert f"damaged: the models of {lane.key}: wrong checksum" in told.out
    with pytest.raises(SkerryError, match=r"are damaged \(wrong checksum"):
        _ = skerry.run(tiny(), out="runs")[0].models
    assert "put aside" in command("store", "repair", "runs").out
    assert command("store", "verify").code == 0
    file.write_bytes(sound)
    assert command("store", "forget", "runs", lane.key, "--yes").code == 0
    assert not file.exists()


def test_what_came_from_python_cannot_be_computed_again_from_a_store(tmp_path):
    """Without the model at hand, a stored run gives state dicts; export says what is missing."""
    (kept,) = skerry.run(
        tiny(*DIGITS), model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
        out=tmp_path, keep_models=True,
    )  # fmt: skip
    ((lane,),) = read_studies(tmp_path)
    assert torch.equal(lane.state_dict(1)["1.bias"], kept.state_dict(1)["1.bias"])
    with pytest.raises(SkerryError, match="given from Python"):
        lane.model()
    (tmp_path / "models" / f"{lane.key}.safetensors").unlink()
    told = command("export", tmp_path, "-o", tmp_path / "no.safetensors")
    assert told.code == 2
    assert "its model came from Python" in told.err


def test_a_module_is_not_built_from_what_has_changed_since(tmp_path):
    """Other code or other data than those of the run are refused; the state dict is still there."""
    rng = np.random.default_rng(0)
    arrays = {f"{part}_{split}": rng.normal(size=(30, 3)) if part == "x" else np.arange(30) % 2
              for part in "xy" for split in ("train", "test")}  # fmt: skip
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)
    (kept,) = skerry.run(
        tiny("data.dataset=npz", f"data.path={file}"), out=tmp_path, keep_models=True
    )
    ((lane,),) = read_studies(tmp_path)
    assert scores(lane.model(), lane) == scores(kept.model(), kept)
    np.savez(file, **{**arrays, "x_test": arrays["x_test"] + 1})
    with pytest.raises(SkerryError, match="have changed since the run"):
        lane.model()
    other = replace(lane, key="f" * 16, kept={"models": lane._models})
    assert torch.equal(other.state_dict()["bias"], lane.state_dict()["bias"])
    with pytest.raises(SkerryError, match="has changed since, or another version"):
        other.model()


# A start per device


def test_runs_start_from_the_models_that_another_run_ended_with(tmp_path, monkeypatch):
    """A folder of `skerry export --all`, and the state dicts from Python, start every device where
    it was; the store tells such runs apart."""
    monkeypatch.chdir(tmp_path)
    experiment = tiny(*DIGITS, "model.name=mlp", "evaluate.every=1")
    (first,) = skerry.run(experiment, out="runs", keep_models=True)
    assert command("export", "runs", "--all", "-o", "ends").code == 0
    states = {str(row): first.state_dict(row) for row in range(6)}
    (python,) = skerry.run(experiment, weights=states)
    (folder,) = skerry.run(experiment.with_settings("model.weights=ends"), out="runs")
    for lane in (python, folder):
        for measure in ("average_loss", "disagreement"):
            start, end = lane.history[measure][0], first.final[measure]
            assert start == pytest.approx(end, rel=1e-5), measure
    assert python.final == pytest.approx(folder.final)
    changed = {**states, "2": first.state_dict("average")}
    (other,) = skerry.run(experiment, weights=changed)
    assert len({first.key, python.key, folder.key, other.key}) == 4
    path = skerry.run(experiment, weights="ends")[0]
    assert path.key == folder.key

    (common,) = skerry.run(experiment, weights=first.state_dict("average"))
    assert common.history["average_loss"][0] == pytest.approx(first.final["average_loss"], rel=1e-5)
    assert common.history["disagreement"][0] == 0


def test_weights_by_device_need_all_devices_and_no_others(tmp_path):
    """`default` stands for all devices without weights of their own; faults get one line."""
    experiment = tiny(*DIGITS)
    (lane,) = skerry.run(experiment, keep_models=True)
    one, zero = lane.state_dict(1), {"weight": torch.zeros(10, 64), "bias": torch.zeros(10)}
    (mixed,) = skerry.run(experiment, weights={"1": one, "default": zero})
    norm = lane.models[1] / 6
    assert mixed.history["disagreement"][0] == pytest.approx(5 * (norm**2).sum(), rel=1e-4)
    for weights, line in {
        "missing": ({"1": one}, "must have weights for every device, or 'default'"),
        "unknown": ({"9": one, "default": zero}, r"names of devices, or 'default' \(got '9'\)"),
        "shape": ({"1": {**one, "bias": torch.zeros(9)}, "default": zero}, r"shape \(10,\)"),
        "kind": ({"1": 3}, r"weights\['1'\] must be a state dict or the path"),
        "nothing": ({}, "weights takes a state dict"),
        "not finite": ({"default": {**one, "bias": one["bias"] / 0}}, "must be finite"),
    }.values():
        with pytest.raises(SkerryError, match=line):
            skerry.run(experiment, weights=weights)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SkerryError, match=r"must hold a file NAME\.safetensors for"):
        skerry.run(experiment, weights=tmp_path / "empty")
    frozen = tiny(*DIGITS, "model.name=model_factories:partly_frozen")
    (lane,) = skerry.run(frozen, keep_models=True)
    states = {str(row): lane.state_dict(row) for row in range(6)}
    (warm,) = skerry.run(frozen, weights=states)
    assert warm.history["average_loss"][0] == pytest.approx(lane.final["average_loss"], rel=1e-5)
    states["4"] = {**states["4"], "shift": states["4"]["shift"] + 1}
    with pytest.raises(SkerryError, match="'shift' is frozen, so that all devices share it"):
        skerry.run(frozen, weights=states)


@pytest.mark.parametrize(
    "setting",
    [
        *(
            f"method.name={name}"
            for name in ("scaffold", "fedvarp", "mifa", "carry", "mtgc", "sd_gt")
        ),
        "network.compression=top_k",
        "server.compression=top_k",
    ],
)
def test_laws_that_assume_a_common_start_are_refused(setting):
    """What would be wrong from different starts is refused in one line."""
    experiment = tiny(*DIGITS)
    states = {str(row): {"weight": torch.full((10, 64), row / 9), "bias": torch.zeros(10)}
              for row in range(6)}  # fmt: skip
    field, _, name = setting.partition("=")
    if field == "method.name":
        experiment = skerry.runs.variants.expand(experiment, [name], 1)[0]
    else:
        experiment = experiment.with_settings(setting)
    with pytest.raises(SkerryError, match="start at the same point"):
        skerry.run(experiment, weights=states)


def test_a_file_with_whole_number_buffers_is_taken(tmp_path):
    """Exported buffers of whole numbers are read back."""
    experiment = tiny(*DIGITS, "model.name=model_factories:partly_frozen")
    (lane,) = skerry.run(experiment, keep_models=True)
    file = tmp_path / "average.safetensors"
    save_file({n: t.clone() for n, t in lane.state_dict().items()}, file)
    (warm,) = skerry.run(experiment, weights=file)
    assert warm.history["average_loss"][0] == pytest.approx(lane.final["average_loss"], rel=1e-5)
