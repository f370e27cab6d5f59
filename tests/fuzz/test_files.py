"""Files after an accident: data, graphs, experiments and stores are read, or refused in one line
that names the file."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from command_line import skerry
from conftest import small
from fuzz.harness import check, faults_of, many
from fuzz.strategies import damaged
from skerry.config.experiment import Data, Experiment
from skerry.data.sources.catalog import load_dataset
from skerry.data.sources.formats import CIFAR10_PNG, IDX
from skerry.network.graphs import read_graphs
from skerry.records.store import FILE
from skerry.runs.run import run

LOOKS = [
    ("show", "kept"),
    ("results", "kept"),
    ("watch", "kept", "--once"),
    ("store", "verify", "kept"),
    ("store", "backup", "kept", "copy.sqlite"),
    ("store", "repair", "kept"),
    ("show", "kept", "--json"),
]


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ended(lines: list[str], name: str) -> str:
    assert all(name in line for line in lines), lines
    return "refused" if lines else "read"


def npz(compressed: bool) -> bytes:
    x, y, file = np.ones((12, 3), np.float32), np.arange(12) % 3, io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(file, x_train=x, y_train=y, x_test=x, y_test=y)
    return file.getvalue()


def idx(array: Any) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((2, 1024, 3), np.uint8), "RGB").save(file, "PNG")
    return file.getvalue()


def graphml() -> bytes:
    return "\n".join(nx.generate_graphml(nx.cycle_graph(4))).encode()


IMAGES, LABELS = np.zeros((2, 28, 28), np.uint8), np.zeros(2, np.uint8)


def damaged_npz(content: bytes) -> str:
    Path("d.npz").write_bytes(content)
    return ended(faults_of(lambda: load_dataset(Data(dataset="npz", path="d.npz"), 0)), "d.npz")


@many(40, 400)
def test_a_damaged_npz_is_told(cases, counts):
    check(cases, st.booleans().flatmap(lambda c: damaged(npz(c))), damaged_npz, counts)


def damaged_idx(content: bytes) -> str:
    """Only the first of the four files; none of the others is looked at before it."""
    files = dict(zip(IDX.files, [content, idx(LABELS), idx(IMAGES), idx(LABELS)], strict=True))
    return ended(faults_of(lambda: IDX.decode(files)), IDX.files[0])


@many(40, 200)
def test_a_damaged_idx_file_is_told(cases, counts):
    check(cases, damaged(idx(IMAGES)), damaged_idx, counts)


def damaged_png(case: tuple[bytes, bytes]) -> str:
    picture, labels = case
    *_, y_train, y_test = CIFAR10_PNG.files
    files = dict.fromkeys(CIFAR10_PNG.files, picture) | {y_train: labels, y_test: labels}
    lines = faults_of(lambda: CIFAR10_PNG.decode(files))
    assert all(line.startswith(tuple(CIFAR10_PNG.files)) for line in lines), lines
    return "refused" if lines else "read"


@many(30, 200)
def test_damaged_pictures_and_labels_are_told(cases, counts):
    labels = damaged(json.dumps([1, 2]).encode()) | st.just(b"[" * 9999)
    check(cases, st.tuples(damaged(png()), labels), damaged_png, counts)


def damaged_graph(case: tuple[str, bytes]) -> str:
    name, content = case
    Path(name).write_bytes(content)
    return ended(faults_of(lambda: read_graphs(name)), name)


@many(60, 400)
def test_a_damaged_graph_file_is_told(cases, counts):
    written = {"g.csv": b'source,target\n"a, b",c\nc,d,1.5\n', "g.graphml": graphml()}
    files = st.sampled_from(list(written)).flatmap(
        lambda name: st.tuples(st.just(name), damaged(written[name]))
    )
    lines = st.text("ab ,\"'#-><\t\n{}é", max_size=40).map(lambda text: ("g.csv", text.encode()))
    check(cases, files | lines, damaged_graph, counts)


def names_in_quotes(names: list[str]) -> str:
    """Whatever devices are called, a spreadsheet's file gives back their names, or is refused."""
    with Path("g.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerow(names)
    found: list[str] = []
    lines = faults_of(lambda: found.extend(read_graphs("g.csv")))
    if not lines:
        assert set(found) == {name.strip() for name in names}
    return ended(lines, "g.csv")


@many(60, 400)
def test_names_of_any_letters_come_back(cases, counts):
    letters = st.text(min_size=1, max_size=8).filter(lambda name: "\r" not in name)
    check(cases, st.lists(letters, min_size=2, max_size=2), names_in_quotes, counts)


def damaged_experiment(content: bytes) -> str:
    Path("mine.toml").write_bytes(content)
    lines = faults_of(lambda: Experiment.load("mine.toml"))
    return "refused" if lines else "read"


@many(40, 300)
def test_a_damaged_experiment_is_told(cases, counts):
    whole = Experiment(rounds=5).to_toml(comments=True).encode()
    check(cases, damaged(whole), damaged_experiment, counts)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The bytes of a store with a few runs."""
    folder = tmp_path_factory.mktemp("kept")
    lanes = [small("rounds=2", f"server.primitive={name}") for name in ("s2s", "s2a", "blend")]
    run(lanes, out=folder, device="cpu")
    return (folder / FILE).read_bytes()


def damaged_store(case: tuple[tuple[str, ...], bytes]) -> str:
    """Whoever looks at it is told in lines; nobody is shown a traceback."""
    command, content = case
    shutil.rmtree("kept", ignore_errors=True)
    Path("kept").mkdir()
    Path("copy.sqlite").unlink(missing_ok=True)
    (Path("kept") / FILE).write_bytes(content)
    outcome = skerry(*command)
    told = f"{command}: {outcome.err}"
    assert outcome.code in (0, 1, 2), told
    assert "Traceback" not in outcome.err, told
    assert "bug in Skerry" not in outcome.err, told
    if outcome.code == 1:
        assert command[:2] == ("store", "verify"), told
    return f"exit code {outcome.code}"


@many(30, 400)
def test_a_damaged_store_is_told(cases, counts, store):
    check(cases, st.tuples(st.sampled_from(LOOKS), damaged(store)), damaged_store, counts)
