"""A checkpoint returns the very bits it was given, or says why it cannot."""

import math
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from skerry.errors import RecordsError
from skerry.records import checkpoint

FACTS = {
    "round": 57,
    "keys": ["a", "b"],
    "loss": math.inf,
    "name": "Ærø \"'\\",
    "nested": {"x": None},
}
DTYPES = {torch.float32: torch.int32, torch.float64: torch.int64, torch.int64: torch.int64}


def state():
    generator = torch.Generator().manual_seed(0)
    return {
        "X": torch.randn(4, 3, 5, generator=generator),
        "momentum": torch.randn(3, 5, generator=generator, dtype=torch.float64),
        "rounds": torch.arange(7),
    }


def identical(left, right):
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].numpy(force=True).tobytes() == right[name].numpy(force=True).tobytes()
        for name in left
    )


def refusal(act):
    with pytest.raises(RecordsError) as error:
        act()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(list(DTYPES)), st.lists(st.integers(0, 4), max_size=3))
def test_tensors_return_bit_for_bit(folder, data, dtype, shape):
    """Any bit pattern returns, NaN payloads and negative zeros too, in any shape."""
    bits = DTYPES[dtype]
    width = torch.iinfo(bits).bits - 1
    patterns = st.integers(-(2**width), 2**width - 1)
    size = math.prod(shape)
    drawn = data.draw(st.lists(patterns, min_size=size, max_size=size))
    tensors = {"X": torch.tensor(drawn, dtype=bits).view(dtype).reshape(shape)}
    checkpoint.save_checkpoint(folder / "bits", tensors, {})
    assert identical(checkpoint.load_checkpoint(folder / "bits", "cpu")[0], tensors)


def test_facts_return(tmp_path):
    """Facts are JSON and return equal."""
    checkpoint.save_checkpoint(tmp_path / "deep" / "c", state(), FACTS)
    tensors, facts = checkpoint.load_checkpoint(tmp_path / "deep" / "c", torch.device("cpu"))
    assert facts == FACTS
    assert identical(tensors, state())
    assert os.listdir(tmp_path / "deep") == ["c"]


def test_views_are_saved_as_what_they_show(tmp_path):
    """Transposed, strided, overlapping, shared, empty and graph-bound tensors are all saved."""
    X = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "whole": X,
        "again": X,
        "transposed": X.T,
        "strided": X[:, ::2],
        "head": X[:2],
        "tail": X[1:],
        "expanded": X[0].expand(3, 6),
        "empty": torch.empty(0, 3),
        "nothing": torch.empty(2, 0),
        "scalar": torch.tensor(3.0),
        "trained": torch.ones(2, requires_grad=True),
    }
    checkpoint.save_checkpoint(tmp_path / "c", tensors, {})
    assert identical(checkpoint.load_checkpoint(tmp_path / "c", "cpu")[0], tensors)


def test_loaded_tensors_are_independent_of_the_file(tmp_path):
    """Changing what was loaded changes no file, and removing the file changes no tensor."""
    checkpoint.save_checkpoint(tmp_path / "c", state(), FACTS)
    content = (tmp_path / "c").read_bytes()
    tensors, _ = checkpoint.load_checkpoint(tmp_path / "c", "cpu")
    tensors["X"].zero_()
    assert (tmp_path / "c").read_bytes() == content
    tensors, _ = checkpoint.load_checkpoint(tmp_path / "c", "cpu")
    (tmp_path / "c").write_bytes(bytes(len(content)))
    assert identical(tensors, state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_tensors_travel_through_the_cpu(tmp_path):
    """What was on a GPU returns there, bit for bit."""
    tensors = {name: tensor.cuda() for name, tensor in state().items()}
    checkpoint.save_checkpoint(tmp_path / "c", tensors, {})
    loaded, _ = checkpoint.load_checkpoint(tmp_path / "c", "cuda")
    assert all(tensor.is_cuda for tensor in loaded.values())
    assert identical(loaded, tensors)


def test_a_truncated_checkpoint_is_explained(tmp_path):
    """A file cut at any length is refused in a line that names it and the way out."""
    path = tmp_path / "c"
    checkpoint.save_checkpoint(path, state(), FACTS)
    content = path.read_bytes()
    for size in [*range(16), *range(16, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:size])
        line = refusal(lambda: checkpoint.load_checkpoint(path, "cpu"))
        assert str(path) in line
        assert "Deleting it restarts the run" in line


def test_a_flipped_bit_is_never_taken_for_state(tmp_path):
    """Damage anywhere is found, also where the file still has its proper form."""
    path = tmp_path / "c"
    checkpoint.save_checkpoint(path, state(), FACTS)
    content = path.read_bytes()
    for position in range(0, len(content), 5):
        spoiled = bytearray(content)
        spoiled[position] ^= 0x01
        path.write_bytes(spoiled)
        try:
            tensors, _ = checkpoint.load_checkpoint(path, "cpu")
        except RecordsError:
            continue
        assert all(identical({"": t}, {"": state().get(n, t)}) for n, t in tensors.items())


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\xff" * 100, b"\x80\x04K\x01."])
def test_a_foreign_file_is_explained(tmp_path, content):
    """What is no checkpoint is refused in a line."""
    (tmp_path / "c").write_bytes(content)
    assert "no checkpoint of skerry" in refusal(
        lambda: checkpoint.load_checkpoint(tmp_path / "c", "cpu")
    )


def test_safetensors_of_another_program_are_explained(tmp_path):
    """A safetensors file without the facts of a run is no checkpoint."""
    for notes in (None, {"format": "pt"}, {"skerry": "{", "crc32": "{}"}):
        save_file(state(), tmp_path / "c", notes)
        assert "no checkpoint of skerry" in refusal(
            lambda: checkpoint.load_checkpoint(tmp_path / "c", "cpu")
        )


def test_a_missing_checkpoint_is_explained(tmp_path):
    """A missing file, or a folder in its place, is told in a line."""
    assert "no checkpoint" in refusal(lambda: checkpoint.load_checkpoint(tmp_path / "c", "cpu"))
    assert str(tmp_path) in refusal(lambda: checkpoint.load_checkpoint(tmp_path, "cpu"))


def test_a_place_that_cannot_be_written_is_explained(tmp_path):
    """A file where the folder should be, or a folder where the file should be, is told."""
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    for path in (tmp_path / "file" / "c", tmp_path / "folder", tmp_path / ("x" * 300)):
        assert "cannot write" in refusal(
            lambda path=path: checkpoint.save_checkpoint(path, state(), {})
        )
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


SAVING = """
import resource, sys, torch
from skerry.errors import RecordsError
from skerry.records import checkpoint
path, limit = sys.argv[1], int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
value = 0
while True:
    value += 1
    try:
        tensors = {"X": torch.full((200_000,), float(value))}
        checkpoint.save_checkpoint(path, tensors, {"value": value})
    except RecordsError as error:
        print(error, flush=True)
        break
    print(value, flush=True)
"""


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    """When a save fails for want of space, the old checkpoint stays and no rest is left."""
    checkpoint.save_checkpoint(tmp_path / "c", state(), FACTS)
    done = subprocess.run(
        [sys.executable, "-c", SAVING, str(tmp_path / "c"), "100000"],
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = done.stdout.splitlines()
    assert line.startswith(f"cannot write the checkpoint {tmp_path / 'c'}")
    assert os.listdir(tmp_path) == ["c"]
    assert identical(checkpoint.load_checkpoint(tmp_path / "c", "cpu")[0], state())


def test_a_checkpoint_does_not_fill_the_disk(tmp_path, monkeypatch):
    """Without room for it nothing is written, and the one before stays."""
    checkpoint.save_checkpoint(tmp_path / "c", state(), FACTS)
    usage = shutil.disk_usage(tmp_path)._replace(free=checkpoint.ROOM)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_: pytest.fail("written"))
    line = refusal(lambda: checkpoint.save_checkpoint(tmp_path / "c", state(), FACTS))
    assert line.startswith(f"cannot write the checkpoint {tmp_path / 'c'}")
    assert "0.0 GB, which are not free" in line
    assert identical(checkpoint.load_checkpoint(tmp_path / "c", "cpu")[0], state())


def test_a_killed_save_leaves_a_whole_checkpoint(tmp_path):
    """After kill -9 amid saves there is one whole checkpoint; removing it removes every rest."""
    path = tmp_path / "c[1]*"
    writer = subprocess.Popen(
        [sys.executable, "-c", SAVING, str(path), "0"], stdout=subprocess.PIPE, text=True
    )
    told = [int(writer.stdout.readline()) for _ in range(5)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    tensors, facts = checkpoint.load_checkpoint(path, "cpu")
    assert facts["value"] >= told[-1]
    assert torch.all(tensors["X"] == facts["value"])
    for name in (path.name, "c1x"):
        (tmp_path / f"{name}.123.partial").mkdir()
        (tmp_path / f"{name}.123.partial" / "fresh").touch()
    checkpoint.remove_checkpoint(path)
    checkpoint.remove_checkpoint(path)
    assert os.listdir(tmp_path) == ["c1x.123.partial"]
