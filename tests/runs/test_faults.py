"""What happens to a folder or a worker while runs are under way is never passed over in silence."""

import os
import shutil
import signal
import threading

import pytest

import skerry
from skerry.errors import RecordsError
from skerry.runs.executors import processes
from skerry.runs.progress import Progress


class Meddling(Progress):
    """Does something to the folder once a stack is under way."""

    def __init__(self, meddle):
        self._meddle = meddle

    def tick(self, task, tick):
        if tick.round == 2:
            self._meddle()


def remove(out):
    shutil.rmtree(out)


def rename(out):
    out.rename(out.with_name("elsewhere"))


def replace(out):
    """Another store in its place: what is recorded would go into a file without a name."""
    store = out / "skerry.sqlite"
    store.rename(out / "aside.sqlite")
    store.write_bytes(b"")


@pytest.mark.parametrize("meddle", [remove, rename, replace])
@pytest.mark.parametrize("seeds", [1, 3])  # the last world, and one with worlds ahead of it
def test_a_folder_that_goes_away_is_told(small, tmp_path, meddle, seeds):
    out = tmp_path / "out"
    watcher = Meddling(lambda: meddle(out))
    with pytest.raises(RecordsError, match="was removed, renamed or replaced while runs"):
        skerry.run(small(), seeds=seeds, out=out, progress=watcher)


@pytest.mark.slow
def test_a_worker_that_stops_answering_is_replaced(small, tmp_path, monkeypatch):
    """Stopped, not ended: only its silence tells. Two minutes of it are pretended."""
    started = []
    start = processes.Processes._start

    def stop(process):
        os.kill(process.popen.pid, signal.SIGSTOP)
        process.heard -= 2 * processes.SILENT_SECONDS

    def remembered(self):
        process = start(self)
        if not started:
            threading.Timer(0.5, stop, (process,)).start()
        started.append(process)
        return process

    monkeypatch.setattr(processes.Processes, "_start", remembered)
    found = skerry.run(small(), compare=["s2s", "s2a"], out=tmp_path, executor="processes")
    assert [lane.status for lane in found] == ["finished"] * 2
    assert len(started) > 2
