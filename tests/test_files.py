"""Files that are there as a whole or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment
from skerry.files import remove_leftovers, replace_file
from skerry.records.store import Store


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """And nothing else is left beside it."""
    path = tmp_path / "plan.json"
    replace_file(path, b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


WRITER = """
import os, signal, sys
from pathlib import Path
from skerry import files
def killed(descriptor):
    print("writing", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
os.fsync = killed
files.replace_file(Path(sys.argv[1]), b"half of it")
"""


def test_what_a_killed_process_has_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path):
    """A lock tells them apart; it ends with its process."""
    path = tmp_path / "plan.json"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert writer.stdout.readline() == "writing\n"
    [partial] = tmp_path.iterdir()
    os.utime(partial, (0, 0))  # however old
    remove_leftovers(tmp_path)
    assert partial.exists()
    writer.communicate("go on\n")
    assert writer.returncode == -signal.SIGKILL
    assert partial.exists()
    remove_leftovers(tmp_path, "another.json")
    assert partial.exists()
    replace_file(path, b"whole")
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_just_being_made_is_not_removed(tmp_path):
    """It may not be locked yet."""
    (tmp_path / ".any.partial").touch()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / ".any.partial"]


def test_leftovers_of_folders_that_are_not_there_are_no_fault(tmp_path):
    remove_leftovers(tmp_path / "nowhere")


def test_opening_a_store_to_record_removes_leftovers(tmp_path):
    """Looking at it removes nothing."""
    left = tmp_path / ".page.html.0123456789abcdef.partial"
    left.write_bytes(b"<html>")
    os.utime(left, (0, 0))
    Store.open(tmp_path).close()
    assert not left.exists()
    left.write_bytes(b"<html>")
    os.utime(left, (0, 0))
    Store.read(tmp_path).close()
    assert left.exists()


def test_special_files_are_never_replaced(tmp_path):
    """An output that is a pipe or a device is refused, and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), Path("/dev/stdout")):
        before = path.lstat().st_mode
        with pytest.raises(OSError, match="a pipe, a device or a socket, not a file"):
            replace_file(path, b"content")
        assert path.lstat().st_mode == before
    assert [*tmp_path.iterdir()] == [pipe]
    old = pipe.rename(tmp_path / "old.partial")
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path)  # does not wait for the pipe
    assert old.exists()
