"""What the pages name exists: files, headings, commands, options, fields, measures, layers."""

import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import skerry
from docs_pages import PAGES, ROOT, blocks, code_spans, name_of, prose
from skerry.cli.main import app
from skerry.config.experiment import Experiment, Section
from skerry.config.measures import MEASURES
from skerry.plugins import registry

DOCS = ROOT / "docs"
BESIDE = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
LINKED = sorted({*BESIDE, *DOCS.rglob("*.md")})

LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FIELD = re.compile(r"(\w+)\.(\w+)(?:\s*=.*)?")
IMPORTS = re.compile(r"^ *(?:from|import) (skerry[.\w]*)(?: import ([\w, ]+))?$", re.MULTILINE)
MODULES = ("figures", "page", "theory")
FIRST_COLUMN = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links(page: Path) -> None:
    """Every relative link leads to a file, and to a heading where it names one."""
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{name_of(page)} links to {link}, which does not exist"
        assert not anchor or anchor in anchors(target), f"{name_of(page)}: no heading for {link}"


def test_every_page_is_in_the_site() -> None:
    """Once, in its contents; and every file that a page links to comes along."""
    site = runpy.run_path(str(DOCS / "site.py"))
    contents = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]

    def paths(entry: Any) -> Iterator[str]:
        for inner in entry if isinstance(entry, list) else entry.values():
            yield from [inner] if isinstance(inner, str) else paths(inner)

    assert sorted(paths(contents)) == sorted(str(site["place"](page)) for page in LINKED)


def test_links_lead_to_the_same_in_the_site(tmp_path: Path) -> None:
    site = runpy.run_path(str(DOCS / "site.py"))
    site["gather"](tmp_path)
    for page in tmp_path.rglob("*.md"):
        for link in LINK.findall(prose(page)):
            path = link.partition("#")[0]
            assert not path or (page.parent / path).is_file(), f"{page.name} links to {link}"


def test_the_site_finds_its_broken_links(tmp_path: Path) -> None:
    """Links to files and to places in them, from any folder; links to other sites are not asked."""
    (tmp_path / "in").mkdir()
    (tmp_path / "b c.txt").touch()
    good = '<a href="../a.html#here"></a><a href="../b%20c.txt"></a><a href="https://x.org/y">'
    (tmp_path / "in" / "index.html").write_text(good)
    bad = '<h1 id="here"></h1><a href="in/#no"></a><img src="c.png"><a href="#here"></a>'
    (tmp_path / "a.html").write_text(bad + '<a href="in"></a><a href="#nowhere"></a>')
    site = runpy.run_path(str(DOCS / "site.py"))
    assert site["broken_links"](tmp_path) == [
        f"a.html: {n}" for n in ("in/#no", "c.png", "#nowhere")
    ]


def test_the_first_page_of_the_site_names_version_and_citation(tmp_path: Path) -> None:
    site = runpy.run_path(str(DOCS / "site.py"))
    site["gather"](tmp_path)
    title, _, line, *_ = (tmp_path / "index.md").read_text(encoding="utf-8").splitlines()
    assert title == "# Skerry"
    assert line == f"Version {skerry.__version__}. [How to cite](#how-to-cite)"


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as code hosts make them."""
    bare = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    named = re.findall(r'<a (?:id|name)="([^"]+)"', prose(page))
    return {heading.strip().replace(" ", "-") for heading in bare} | set(named)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands(page: Path) -> None:
    """Every skerry command in a page exists and takes the options it is given."""
    for words in mentioned(page):
        fault = command_fault(words)
        assert fault is None, f"{name_of(page)}: skerry {' '.join(words)}: {fault}"


def mentioned(page: Path) -> Iterator[list[str]]:
    """The words after `skerry`, of commands to run, to read, and in running text."""
    to_run = [c for b in blocks(page) if b.language == "console" for c in b.commands()]
    to_read = [line for b in blocks(page) if b.language == "text" for line in b.text.splitlines()]
    for text in [*to_run, *(line.removeprefix("$ ") for line in to_read), *code_spans(page)]:
        for command in re.split(r"[|;&>]+|\s#", text):
            if command.strip().startswith("skerry "):
                yield shlex.split(command.replace("\\\n", " "))[1:]


def command_fault(words: list[str]) -> str | None:
    command: Any = typer.main.get_command(app)
    options = option_names(command)
    for word in words:
        if word.startswith("-"):
            if word.partition("=")[0] not in options:
                return f"no option {word}"
        elif commands := getattr(command, "commands", {}):
            if word not in commands:
                return f"no command {word}"
            command = commands[word]
            options |= option_names(command)
    return None


def option_names(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fields(page: Path) -> None:
    """Every `section.field` in a page is a field of an experiment or an option of a built-in."""
    fields = known_fields()
    for span in code_spans(page):
        if (named := FIELD.fullmatch(span)) and named[1] in fields:
            assert named[2] in fields[named[1]], f"{name_of(page)}: no field {span}"


def known_fields() -> dict[str, set[str]]:
    """By section; the options of built-in data sets and models count as fields."""
    fields = {
        name: set(type(value).model_fields)
        for name, value in Experiment()
        if isinstance(value, Section)
    }
    for section, kind in (("data", "dataset"), ("model", "model")):
        for name in registry.KINDS[kind]:
            fields[section] |= set(registry.resolve(kind, name).__kwdefaults__ or ())
    return fields


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files(page: Path) -> None:
    """Every Python file that a page names is in the project, or is made by the page."""
    made = {block.file for block in blocks(page)}
    for span in code_spans(page):
        if re.fullmatch(r"[\w/]+\.py", span) and span not in made:
            assert any(ROOT.glob(f"src/**/{span}")) or (ROOT / span).exists(), (
                f"{name_of(page)}: no file {span}"
            )


def test_experiment_page() -> None:
    """docs/experiment.md says what the code says."""
    rendered = runpy.run_path(str(DOCS / "generate.py"))["rendered"]
    page = DOCS / "experiment.md"
    assert page.read_text(encoding="utf-8") == rendered(), (
        "docs/experiment.md is out of date. Run: python docs/generate.py"
    )


def test_reference_page() -> None:
    """docs/reference.md says what the docstrings say, of everything public, with an example."""
    reference = runpy.run_path(str(DOCS / "reference.py"))
    page = DOCS / "reference.md"
    assert page.read_text(encoding="utf-8") == reference["rendered"](), (
        "docs/reference.md is out of date. Run: python docs/generate.py"
    )
    told = [name for names in reference["PARTS"].values() for name in names]
    assert sorted(told) == sorted(skerry.__all__)
    for name in skerry.__all__:
        assert getattr(skerry, name).__doc__, f"skerry.{name} has no docstring"
        assert reference["EXAMPLES"][name]


def test_measures_page() -> None:
    """docs/measures.md has a line for every measure, and for nothing else."""
    described = FIRST_COLUMN.findall((DOCS / "measures.md").read_text(encoding="utf-8"))
    assert described == list(MEASURES)


def test_architecture_page() -> None:
    """docs/architecture.md lists the layers of the import contract, in its order."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer.replace("skerry.", "") for layer in contract["contracts"][0]["layers"]]
    described = FIRST_COLUMN.findall((DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert described[: len(layers)] == layers


def test_plug_ins_page() -> None:
    """The table of docs/plug-ins.md leads to an example of every kind that can be plugged in."""
    rows = re.findall(r"^\| \[([^]]+)\]\([^)]*#", prose(DOCS / "plug-ins.md"), re.MULTILINE)
    listed = {kind for row in rows for kind in row.split(", ")}
    assert registry.KINDS.keys() <= listed
    assert len((DOCS / "plug-ins.md").read_text(encoding="utf-8").splitlines()) <= 500


def test_pages_import_public_names_only() -> None:
    """Users need nothing but `skerry` and its public modules."""
    pages = [page for page in PAGES if page.name != "architecture.md"]
    sources = {name_of(page): "".join(b.text for b in blocks(page)) for page in pages}
    for notebook in DOCS.glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources[name_of(notebook)] = "\n".join("".join(cell["source"]) for cell in cells)
    public = {"skerry": skerry} | {f"skerry.{name}": getattr(skerry, name) for name in MODULES}
    for page, source in sources.items():
        for module, names in IMPORTS.findall(source):
            assert module in public, f"{page} imports {module}, which is not public"
            for name in filter(None, names.replace(" ", "").split(",")):
                known = [*public[module].__all__, *(MODULES if module == "skerry" else ())]
                assert name in known, f"{page}: {name} is not public in {module}"
