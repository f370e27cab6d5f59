"""A change that somebody else makes touches few files, and is then seen everywhere.

All six recipes of docs/architecture.md are applied to one copy of the package; one process looks at
that copy from the command line, from Python and from the generated documentation.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import TESTS, environment

ROOT = TESTS.parent
PACKAGE = ROOT / "src" / "skerry"
RECIPES = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Recipes")[2]

OWN_PLUG_IN = """\
def pull(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = (X_nld[sampled_k] + delivered_ld) / 2
    return len(sampled_k)
"""
PRIMITIVE = '''\
def halve(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, *, beta: float) -> int:
    """Every device moves halfway to the average."""
    X_nld.lerp_(delivered_ld, 0.5)
    return len(X_nld)


'''
DATASET = '''\
"""Two classes of points."""

from skerry.data.dataset import Dataset
from skerry.data.sources.synthetic import classes


def stripes(*, samples: int = 60) -> Dataset:
    """Gaussian points in two classes."""
    return classes(samples=samples, test_samples=20, features=3, classes=2)
'''
METHOD = '''\
"""Anchor: plain SGD under another name."""

from skerry.methods.method import Method


class Anchor(Method):
    """Plain SGD that takes an option."""

    name = "anchor"

    def __init__(self, *, mu: float):
        self.mu = mu
'''
COMMAND = '''\
"""`skerry greet`."""

import typer


def greet() -> None:
    """Say hello to the islands."""
    typer.echo("Hello, islands.")
'''

# By recipe, the files that it touches: a new file's text, or a line and what is put before it.
CHANGES: dict[str, dict[str, str | tuple[tuple[str, str], ...]]] = {
    "plug-in": {},
    "primitive": {
        "engine/primitives.py": (
            ("PRIMITIVES: dict[", PRIMITIVE),
            ('"none": none}', '"halve": halve, '),
        )
    },
    "data set": {
        "data/sources/stripes.py": DATASET,
        "plugins/registry.py": (
            ('    "vowels":', '    "stripes": "skerry.data.sources.stripes:stripes(samples)",\n'),
        ),
    },
    "method": {"methods/anchor.py": METHOD},
    "measure": {
        "config/measures.py": (
            (
                '        _distance("disagreement_intra"),',
                '        _distance("disagreement_root", words="root of the disagreement"),\n',
            ),
        ),
        "measure/observer.py": (
            (
                '        "disagreement": now.total_l,',
                '        "disagreement_root": now.total_l.sqrt(),\n',
            ),
        ),
    },
    "command": {
        "cli/commands/greet.py": COMMAND,
        "cli/main.py": (
            (
                "from skerry.cli.commands.figure import",
                "from skerry.cli.commands.greet import greet\n",
            ),
            ("run_command, advise_command,", "greet, "),
        ),
    },
}
MOST_FILES = {"plug-in": 0, "primitive": 1, "data set": 2, "method": 1, "measure": 2, "command": 2}

LOOK = """\
import json, runpy, sys
from command_line import skerry

import skerry.cli.commands.run as command
from skerry.config.experiment import Experiment
from skerry.engine.reference import Reference
from skerry.errors import SkerryError

small = ["rounds=2", "network.devices=6", "server.sampled=2", "server.period=1", "training.batch=2"]
run = [
    *small, "data.dataset=stripes", "method.name=anchor",
    'evaluate.measures=["average","disagreement_root"]',
]
settings = [word for one in run for word in ("--set", one)]
unknown = Experiment.parse({}, [*small, "server.primitive=halve"])
try:
    Reference.check(unknown)
    refused = ""
except SkerryError as error:
    refused = str(error)
print(json.dumps({
    "help": skerry("--help").out,
    "greeting": skerry("greet").out,
    "help of run": skerry("run", "--help").out,
    "new": skerry("new").out,
    "schema": skerry("schema").out,
    "bounds": skerry("theory", "bounds", "--primitive", "halve").err,
    "typing error": skerry("run", "--compare", "halv").err,
    "completion": command._complete_names("s2s,hal"),
    "reference": refused,
    "docs": runpy.run_path(sys.argv[1])["rendered"](),
    "run": skerry("run", "--compare", "s2s,halve,own_parts:pull", *settings, "--json").out,
    "measures": skerry("run", *settings, "--set", "evaluate.measures=x", "--out", "other").err,
}))
"""


def changed(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    for place, inserted in edits:
        assert text.count(place) == 1, f"{place!r} must be there once, to insert before it"
        text = text.replace(place, inserted + place)
    return text


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict[str, str]:
    """What is seen of a copy of the package with all changes."""
    home = tmp_path_factory.mktemp("stranger")
    copy = home / "skerry"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for files in CHANGES.values():
        for name, edit in files.items():
            file = copy / name
            if isinstance(edit, str):
                assert not file.exists()
                file.write_text(edit)
            else:
                file.write_text(changed(file.read_text(), edit))
    work = home / "work"
    work.mkdir()
    (work / "own_parts.py").write_text(OWN_PLUG_IN)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(ROOT / "docs" / "generate.py")],
        cwd=work,
        env={**environment(), "PYTHONPATH": f"{home}:{TESTS}:{work}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_touches_few_files(kind):
    """They are those that the recipe names."""
    assert len(CHANGES[kind]) <= MOST_FILES[kind]
    for file in CHANGES[kind]:
        folder, name = Path(file).parent, Path(file).name
        new = isinstance(CHANGES[kind][file], str)
        assert (f"src/skerry/{folder}/" if new else f"src/skerry/{folder}/{name}") in RECIPES


def test_an_own_plug_in_runs_beside_built_ins(seen):
    assert "own_parts:pull" in seen["run"]


def test_a_primitive_is_seen_everywhere(seen):
    assert '"halve"' in seen["run"]
    assert "halve" in seen["help of run"]
    assert "Also built in: halve." in seen["new"]
    assert '"halve"' in seen["schema"]
    assert seen["completion"] == ["s2s,halve"]
    assert "did you mean 'halve'?" in seen["typing error"]
    assert "no bound is known for the primitive 'halve'" in seen["bounds"]
    assert "halve" in seen["reference"]
    assert "`halve`" in seen["docs"]
    assert "`blend`, `halve`" in seen["docs"]  # both take beta


def test_a_data_set_is_seen_everywhere(seen):
    assert "stripes" in seen["run"]
    assert "Also built in: stripes." in seen["new"]
    assert '"stripes"' in seen["schema"]
    assert "`stripes`" in seen["docs"]


def test_a_method_is_seen_everywhere(seen):
    assert "anchor" in seen["run"]
    assert "Also built in: anchor." in seen["new"]
    assert '"anchor"' in seen["schema"]
    assert "`anchor`" in seen["docs"]


def test_a_measure_is_seen_everywhere(seen):
    assert '"disagreement_root"' in seen["run"]
    assert "disagreement_root" in seen["measures"]  # among those that could have been meant


def test_a_command_is_seen_everywhere(seen):
    assert "Say hello to the islands." in seen["help"]
    assert seen["greeting"] == "Hello, islands.\n"
