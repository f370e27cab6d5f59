"""Ctrl-C, or a signal like it, waits for the end of the round and leaves a checkpoint."""

import os
import signal
import threading
from pathlib import Path

import pytest

from conftest import small as base
from recorded_runs import assert_same, histories, lanes_of, run_world
from skerry.engine.world import build_world
from skerry.records.store import Store
from skerry.runs.process import HeldSignals
from skerry.runs.stack_run import run_lanes
from sweep_children import nursery, until


def interrupted(folder, lanes, when, number=signal.SIGINT, times=1):
    """Run with a signal at the first moment that is meant, long before the first checkpoint is
    due; gives the rounds and phases that came, and the one of the signal."""
    world = build_world(lanes[0])
    seen, struck = [], []

    def progress(moment):
        seen.append((moment.round, moment.phase))
        if when(moment) and not struck:
            struck.append(seen[-1])
            for _ in range(times):
                os.kill(os.getpid(), number)

    with Store.open(folder) as store, pytest.raises(KeyboardInterrupt):
        run_world(world, lanes, store, folder / "checkpoints", on_moment=progress)
    return seen, struck[0]


def at(round_, phase):
    return lambda moment: (moment.round, moment.phase) == (round_, phase)


def finished(folder, lanes):
    with Store.open(folder) as store:
        run_world(build_world(lanes[0]), lanes, store, folder / "checkpoints")
    return histories(folder)


@pytest.fixture
def handlers():
    """Signals act after the test as they did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    expected = dict(before)  # a test may set others
    yield expected
    for number, handler in before.items():
        found = signal.getsignal(number)
        signal.signal(number, handler)
        assert found == expected[number], "a handler was not put back"


@pytest.mark.parametrize("phase", ["before_server", "end"])
@pytest.mark.parametrize("round_", [1, 4])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on_bit_for_bit(small, tmp_path, handlers, phase, round_, number):
    """Wherever in a round the signal comes, the round is finished, recorded and saved."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    handlers[signal.SIGTERM] = signal.default_int_handler
    lanes = lanes_of(small("evaluate.every=3"))
    undisturbed = finished(tmp_path / "whole", lanes)
    seen, _ = interrupted(tmp_path / "parts", lanes, at(round_, phase), number)
    assert seen[-1] == (round_, "end")
    assert len(list((tmp_path / "parts" / "checkpoints").glob("*.safetensors"))) == 1
    resumed = []
    with Store.open(tmp_path / "parts") as store:
        run_world(
            build_world(lanes[0]),
            lanes,
            store,
            tmp_path / "parts" / "checkpoints",
            on_moment=lambda moment: resumed.append(moment.round),
        )
    assert resumed[0] == round_ + 1, "nothing is computed twice"
    assert_same(histories(tmp_path / "parts"), undisturbed)


def test_a_second_signal_does_not_wait(small, tmp_path, handlers):
    """It acts in the middle of the round, of which nothing is saved then."""
    lanes = lanes_of(small())
    undisturbed = finished(tmp_path / "whole", lanes)
    seen, _ = interrupted(tmp_path / "parts", lanes, at(4, "before_server"), times=2)
    assert seen[-1] == (4, "before_server")
    assert not list((tmp_path / "parts").glob("checkpoints/*"))
    assert_same(finished(tmp_path / "parts", lanes), undisturbed)


def test_a_signal_in_the_last_round_loses_nothing(small, tmp_path, handlers):
    lanes = lanes_of(small())
    interrupted(tmp_path / "parts", lanes, at(7, "end"))
    found = histories(tmp_path / "parts")
    assert {status for status, *_ in found.values()} == {"finished"}
    assert not list((tmp_path / "parts").glob("checkpoints/*"))


def test_a_signal_when_a_lane_diverges_saves_the_other_lanes(small, tmp_path, handlers):
    """The lane that has ended must not be in the checkpoint."""
    base = small("model.name=quadratic", "rounds=300", "evaluate.every=50")
    lanes = [base, base.with_settings("training.stepsize=50")]
    undisturbed = finished(tmp_path / "whole", lanes)
    seen, (round_, _) = interrupted(tmp_path / "parts", lanes, lambda moment: moment.diverged)
    assert seen[-1] == (round_, "end")
    found = finished(tmp_path / "parts", [lanes[0]])
    assert {k: v[:2] for k, v in found.items()} == {k: v[:2] for k, v in undisturbed.items()}


def test_contexts_may_end_in_any_order(handlers):
    """A run that is left in the middle ends when its generator is collected, perhaps within
    another: afterwards Ctrl-C does what it did before."""
    first, second = HeldSignals(), HeldSignals()
    first.__enter__()
    second.__enter__()
    first.__exit__()
    second.__exit__()
    assert signal.getsignal(signal.SIGINT) == handlers[signal.SIGINT]


def test_a_context_that_ends_in_a_thread_takes_no_signal(handlers):
    held = HeldSignals()
    held.__enter__()
    thread = threading.Thread(target=held.__exit__)
    thread.start()
    thread.join()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == handlers[signal.SIGINT]
    signal.signal(signal.SIGTERM, handlers[signal.SIGTERM])


def test_handlers_of_a_program_are_asked_afterwards(handlers):
    """One that returns lets all go on, and signals are held again."""
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    handlers[signal.SIGTERM] = signal.getsignal(signal.SIGTERM)
    with HeldSignals() as held:
        for times in (1, 2):
            signal.raise_signal(signal.SIGTERM)
            assert held.is_stop_requested
            assert len(heard) == times - 1
            held.act()
            assert heard == [signal.SIGTERM] * times
            assert not held.is_stop_requested


def test_what_is_ignored_stays_ignored(handlers):
    """As under nohup."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handlers[signal.SIGTERM] = signal.SIG_IGN
    with HeldSignals() as held:
        signal.raise_signal(signal.SIGTERM)
        assert not held.is_stop_requested


def test_a_thread_holds_nothing(small, tmp_path, handlers):
    """Python hears signals in the main thread alone; a run in another one runs all the same."""
    lanes = lanes_of(small())
    results = []
    thread = threading.Thread(target=lambda: results.append(finished(tmp_path, lanes)))
    thread.start()
    thread.join(600)
    assert len(results) == 1


def test_a_run_that_is_left_lets_signals_act(small, tmp_path, handlers):
    """A caller that stops asking for ticks gets its Ctrl-C back."""
    lanes = lanes_of(small())
    with Store.open(tmp_path) as store:
        ticks = run_lanes(build_world(lanes[0]), lanes, store, tmp_path / "checkpoints")
        next(ticks)
        assert signal.getsignal(signal.SIGINT) != handlers[signal.SIGINT]
        ticks.close()
    assert signal.getsignal(signal.SIGINT) == handlers[signal.SIGINT]


# Whole sweeps


@pytest.fixture(scope="module")
def children():
    with nursery() as found:
        yield found


def sweep_file(folder):
    """Two worlds that take seconds each: a signal reaches both on a busy machine, too."""
    file = folder / "sweep.toml"
    file.write_text(
        base("rounds=1000").to_toml()
        + '[sweep]\nseeds = 2\n[sweep.axes]\n"server.primitive" = ["s2s", "s2a"]\n'
    )
    return file


def holds_signals(pid):
    """Whether a process has a handler for SIGTERM: whether it is within a stack's rounds."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << signal.SIGTERM - 1)


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("workers", "number"), [(1, signal.SIGINT), (1, signal.SIGTERM), (2, signal.SIGINT)]
)
def test_a_stopped_sweep_leaves_checkpoints(children, tmp_path, workers, number):
    """Before any was due: here, and in other processes, which their driver asks to save."""
    file, out = sweep_file(tmp_path), tmp_path / "stopped"
    assert children.start(file, tmp_path / "whole", workers=workers).wait() == 0
    child = children.start(file, out, workers=workers, checkpoint_seconds=1000)
    places = (lambda: children_of(child.pid)) if workers > 1 else (lambda: [child.pid])
    until(lambda: sum(map(holds_signals, places())) == workers)
    child.kill(number)
    assert child.wait() == (130 if number == signal.SIGINT else None)
    saved = "workers/*/checkpoints" if workers > 1 else "checkpoints"
    assert len(list(out.glob(f"{saved}/*.safetensors"))) == workers
    assert children.start(file, out, workers=workers).wait() == 0
    assert_same(histories(out), histories(tmp_path / "whole"))
