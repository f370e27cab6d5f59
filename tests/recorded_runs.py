"""Runs that are stopped, resumed and compared: what tests of resuming share."""

import numpy as np

from skerry.engine.world import build_world
from skerry.records.store import Store
from skerry.runs.progress import Progress
from skerry.runs.stack_run import run_lanes


def run_world(world, experiments, store, folder, *, on_moment=None, **options):
    """Run and record experiments that share a world, and look at every moment."""
    progress = Progress()
    if on_moment is not None:
        progress.moment = on_moment
    for _ in run_lanes(world, experiments, store, folder, progress=progress, **options):
        pass


class PlugPulledError(Exception):
    pass


def lanes_of(base):
    return [
        base.with_settings(f"server.primitive={p}", f"server.optimizer={o}")
        for p, o in (("s2s", "fedavg"), ("s2a", "fedavgm"), ("blend", "fedavg"))
    ]


def record(folder, experiments, stop_after=None):
    """Run with a checkpoint after every round; pull the plug in the round after `stop_after`."""
    world = build_world(experiments[0])

    def progress(moment):
        if stop_after is not None and moment.phase == "before_server" and moment.round > stop_after:
            raise PlugPulledError

    with Store.open(folder) as store:
        done = store.finished([world.key(e) for e in experiments])
        waiting = [e for e in experiments if world.key(e) not in done]
        run_world(
            world, waiting, store, folder / "checkpoints", on_moment=progress, checkpoint_seconds=0
        )
    return histories(folder)


def histories(folder):
    with Store.read(folder) as store:
        return {
            run.key: (run.status, run.rounds_done, store.history(run.key)) for run in store.runs()
        }


def assert_same(ours, theirs, tolerance=0.0):
    """Lanes that ran in the same stacks are the same bit for bit; in others, up to rounding."""
    assert ours.keys() == theirs.keys()
    for key, (status, rounds, history) in ours.items():
        assert (status, rounds) == theirs[key][:2]
        assert history.keys() == theirs[key][2].keys()
        for name, values in history.items():
            np.testing.assert_allclose(
                values, theirs[key][2][name], tolerance, tolerance, equal_nan=True, err_msg=name
            )
