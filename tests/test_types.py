"""What a type checker says of a user's code: mistakes are found, sound code passes."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import skerry
from skerry.config import fields as sections

SOURCES = Path(skerry.__file__).parents[1]

SOUND = """
from typing import Any

import skerry
from torch import Tensor


def halfway(X: Tensor, sampled: Tensor, delivered: Tensor) -> int:
    X.lerp_(delivered, 0.5)
    return len(X)


def farthest(models: Tensor, context: skerry.Context) -> float:
    return float(models.norm(dim=1).max())


experiment = skerry.Experiment(
    rounds=4,
    network=skerry.Network(devices=12, components=[4, 8], topology="ring"),
    model=skerry.Model(name="mlp", hidden=32),
    server={"sampled": 4},
    evaluate=skerry.Evaluate(own=[farthest]),
)
topology: str = experiment.network.topology
components: int | tuple[int, ...] = experiment.network.components
server: skerry.Server = experiment.server
by_hand = skerry.Server(primitive=halfway, period=3)
results = skerry.run(experiment, compare=["s2s", halfway], seeds=2, progress=False)
first: skerry.Lane = results[0]
some: tuple[skerry.Lane, ...] = results[1:]
accuracy: float = first.final["average_accuracy"]
results.plot("curves", measure="own_accuracy").save("curves.pdf")
sweep = skerry.Sweep(experiment=experiment, axes={"server.period": [1, 2]}, seeds=[0, 1])


class Quiet(skerry.Progress):
    def failed(self, experiments: Any, message: str) -> None:
        pass


skerry.run(sweep, progress=Quiet(), out="runs")
"""

MISTAKES = {
    "skerry.Network(device=3)": 'Unexpected keyword argument "device" for "Network"',
    'skerry.Network(devices="three")': 'Argument "devices" to "Network" has incompatible type',
    "skerry.Server(primitive=3)": 'Argument "primitive" to "Server" has incompatible type',
    'skerry.Training(order="sideways")': 'Argument "order" to "Training" has incompatible type',
    "skerry.Experiment(round=5)": 'Unexpected keyword argument "round" for "Experiment"',
    "skerry.Experiment(server=skerry.Network())": 'Argument "server" to "Experiment"',
    "skerry.run()": 'Missing positional argument "experiment"',
    'skerry.run(skerry.Experiment(), seeds="two")': 'Argument "seeds" to "run"',
    "skerry.run(skerry.Experiment())[0].finals": '"Lane" has no attribute "finals"',
    'skerry.run(skerry.Experiment()).plt("curves")': '"Results" has no attribute "plt"',
}


def checked(folder: Path, *command: str, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    names = [f"{name}.py" for name in files]
    found = subprocess.run(
        [sys.executable, "-m", *command, *names],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(SOURCES), "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return found.stdout + found.stderr


def of(said: str, name: str) -> list[str]:
    """The lines about one file; those about our own sources are for the project's own checks."""
    return [
        line for line in said.splitlines() if line.startswith(f"{name}.py:") and "error" in line
    ]


MISTAKEN = "import skerry\n\n" + "\n".join(MISTAKES) + "\n"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_mypy_finds_mistakes_and_nothing_else(tmp_path):
    strict = ("mypy", "--strict", "--config-file=", "--follow-imports=silent")
    said = checked(tmp_path, *strict, sound=SOUND, mistaken=MISTAKEN)
    assert of(said, "sound") == [], said
    lines = of(said, "mistaken")
    assert len({line.split(":")[1] for line in lines}) == len(MISTAKES), said
    for number, told in enumerate(MISTAKES.values(), start=3):
        assert any(line.startswith(f"mistaken.py:{number}:") and told in line for line in lines), (
            told,
            lines,
        )


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright")
def test_pyright_finds_mistakes_and_nothing_else(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{SOURCES}"]}}')
    said = checked(tmp_path, "pyright", sound=SOUND, mistaken=MISTAKEN)
    assert "sound.py:" not in said, said
    for number in range(3, 3 + len(MISTAKES)):
        assert f"mistaken.py:{number}:" in said, said


def test_what_is_called_sound_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(SOUND, "sound.py", "exec"), space)
    assert (tmp_path / "curves.pdf").exists()


def test_signatures_written_for_type_checkers_are_those_of_the_fields():
    """Sections that take options of others have one: the same names with the same defaults."""
    files = Path(sections.__file__).parent.glob("*.py")
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    written = {
        outer.name: inner.args
        for tree in trees
        for outer in tree.body
        if isinstance(outer, ast.ClassDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"
    }
    assert {"Data", "Model"} <= written.keys()
    for name, arguments in written.items():
        fields = getattr(sections, name).model_fields
        defaults = [ast.literal_eval(value) for value in arguments.kw_defaults if value]
        told = dict(zip([one.arg for one in arguments.kwonlyargs], defaults, strict=True))
        assert told == {field: info.default for field, info in fields.items()}
