"""Whatever checks a change checks the same: `make check`, every commit, every push."""

import importlib.util
import re
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

yaml = pytest.importorskip("yaml", reason="comes with Ray, which the tests install")
ROOT = Path(__file__).parents[1]


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def steps():
    (job,) = read(".github/workflows/check.yml")["jobs"].values()
    return job, [step["run"] for step in job["steps"] if "run" in step]


def test_a_push_is_held_to_what_a_change_must_pass():
    """The workflow runs the make commands of `.ci/run`, in their order."""
    make = re.compile(r"^make \w+", re.MULTILINE)
    here = make.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert [found for command in steps()[1] for found in make.findall(command)] == here


def test_every_python_that_we_name_is_tested():
    """The workflow's versions are those of the classifiers, and make is told which."""
    job, commands = steps()
    named = [line.rpartition(" ")[2] for line in project()["classifiers"] if "Python :: 3." in line]
    assert job["strategy"]["matrix"]["python"] == named
    assert all("PYTHON=python${{ matrix.python }}" in one for one in commands if "make" in one)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "PYTHON ?= python3" in makefile
    assert "$(PYTHON) -m venv" in makefile


def test_a_commit_is_held_to_what_make_checks():
    """Every command of `make check` is a hook."""
    (local,) = read(".pre-commit-config.yaml")["repos"]
    hooks = [hook["entry"] for hook in local["hooks"]]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2]
    tools = re.findall(r"\$\(BIN\)/([\w-]+(?: format| check)?)", recipe.partition("\n\n")[0])
    assert len(tools) == 4
    for tool in tools:
        assert any(entry.startswith(f".venv/bin/{tool}") for entry in hooks), tool


def test_the_citation_is_of_this_version():
    """CITATION.cff names the project's version and licence, and the paper of the glossary."""
    citation = read("CITATION.cff")
    assert str(citation["version"]) == project()["version"]
    assert citation["license"] == project()["license"]
    (paper,) = citation["references"]
    glossary = " ".join((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split())
    assert paper["title"] in glossary
    assert paper["url"] in glossary
    assert all(author["family-names"] in glossary for author in paper["authors"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cited = readme.partition("## How to cite")[2]
    assert f"This is version {citation['version']} " in cited
    for name, value in (
        ("version", citation["version"]),
        ("title", citation["title"]),
        ("title", paper["title"]),
        ("url", paper["url"]),
        ("year", paper["year"]),
    ):
        assert f"  {name} = {{{value}}},\n" in cited
    authors = (f"{one['family-names']}, {one['given-names']}" for one in paper["authors"])
    assert f"author = {{{' and '.join(authors)}}}" in cited


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")))
def test_forms_ask_for_the_experiment(form):
    """Without the experiment nobody can repeat what happened."""
    assert "experiment" in [field["id"] for field in read(form)["body"]]


def test_a_fault_names_its_version():
    """The form for faults asks for `skerry --version`, and insists."""
    fields = {one["id"]: one for one in read(".github/ISSUE_TEMPLATE/fault.yml")["body"]}
    assert "skerry --version" in fields["version"]["attributes"]["label"]
    assert fields["version"]["validations"]["required"]


class Index(BaseHTTPRequestHandler):
    """Answers as an index of packages does, for the path /whl/torch/ only."""

    def do_HEAD(self):
        self.send_response(200 if self.path == "/whl/torch/" else 404)
        self.end_headers()

    def log_message(self, *words):
        pass


@pytest.fixture
def torch_build(monkeypatch):
    """The script of `make run`, on a Linux machine without a GPU and without torch, and the
    commands that it would give."""
    file = ROOT / ".ci" / "torch_build.py"
    spec = importlib.util.spec_from_file_location("torch_build", file)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    commands = []

    def give(command):
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(script.sys, "platform", "linux")
    monkeypatch.setattr(script.shutil, "which", lambda name: None)
    monkeypatch.setattr(script.subprocess, "run", give)
    monkeypatch.setattr(script.metadata, "version", lambda name: "1.0")
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(script, "INDEX", f"http://127.0.0.1:{server.server_port}/whl")
        yield script, commands
        server.shutdown()
        thread.join()


def test_a_machine_without_a_gpu_takes_the_small_torch(torch_build, monkeypatch, capsys):
    """The CPU build of the pinned version, where the index answers, Linux has no NVIDIA GPU and
    that version is not there yet; elsewhere nothing is installed. One line says which."""
    script, commands = torch_build
    (pinned,) = re.findall("^torch==.+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    script.main()
    (command,) = commands
    assert command[-4:] == ["--no-deps", "--index-url", script.INDEX, pinned]
    assert capsys.readouterr().out.count("\n") == 1
    for place, name, value in (
        (script.sys, "platform", "darwin"),
        (script.shutil, "which", lambda name: "/usr/bin/nvidia-smi"),
        (script.metadata, "version", lambda name: f"{pinned.partition('==')[2]}+cpu"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            script.main()
            assert capsys.readouterr().out == ""
    monkeypatch.setattr(script, "INDEX", f"{script.INDEX}/nothing")
    script.main()
    assert "the build that pip finds" in capsys.readouterr().out
    assert len(commands) == 1


def test_make_and_the_first_steps_name_one_index(torch_build):
    """`make` runs the script before it installs, and the page names the index that it asks."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("$(INSTALLED): ")[2]
    assert recipe.index(".ci/torch_build.py") < recipe.index("--editable .")
    address = re.search('INDEX = "(.*)"', (ROOT / ".ci" / "torch_build.py").read_text())[1]
    assert f"--index-url {address}\n" in (ROOT / "docs" / "first-steps.md").read_text("utf-8")
