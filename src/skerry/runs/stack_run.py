"""Run the lanes of a world to their end: observe, record, checkpoint, resume."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import Moment, simulate
from skerry.engine.stack import Stack
from skerry.engine.world import World
from skerry.errors import RecordsError
from skerry.measure.device_scores import DeviceTable
from skerry.measure.observer import Observer, Reading, columns_by_key
from skerry.records import checkpoint
from skerry.records.store import Store, versions
from skerry.runs.determinism import circumstances
from skerry.runs.interruption import HeldSignals
from skerry.runs.resume import Standing, save, standings, tell

CHECKPOINT_SECONDS = 60.0
"""From one checkpoint to the next; 0 is after every round."""
FIRST_SECONDS = 2.0
"""Until the first checkpoint. The times between them double from there."""
SAVING_SHARE = 0.05
"""At most this part of the time goes into saving: gigabytes of models are saved less often."""
SAVING_SPEED = 5e8
"""Bytes per second, before any were saved: of a disk that is neither fast nor slow."""

GO_ON, SAVE, STOP = range(3)
"""What a rank may wish when a round is over."""

Progress = Callable[[Moment], None]


def run_world(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    *,
    progress: Progress | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> None:
    """Run and record experiments that share a world; lanes with a checkpoint go on from it."""
    for moment in follow_world(world, experiments, store, folder, checkpoint_seconds):
        if progress is not None:
            progress(moment)


def follow_world(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    deterministic: bool = False,
) -> Iterator[Moment]:
    """As `run_world`, moment by moment. Whoever asks for `deterministic` runs hands them over one
    by one, with torch set up for them (runs/determinism.py)."""
    _begin(world, experiments, store, circumstances(len(experiments), deterministic, world.ranks))
    for standing in standings(world, experiments, store, folder, deterministic):
        if len(standing.stack) < len(experiments):
            told = circumstances(len(standing.stack), deterministic, world.ranks)
            _begin(world, standing.stack.experiments, store, told)
        world.ranks.broadcast(
            do="run",
            lanes=standing.stack.keys,
            file=str(standing.file.absolute()),
            resumed=standing.state is not None,
            checkpoint_seconds=checkpoint_seconds,
        )
        yield from run_stack(standing, store, checkpoint_seconds)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def run_stack(
    standing: Standing, store: Store | None, checkpoint_seconds: float
) -> Iterator[Moment]:
    """Rows reach the store before the checkpoint that counts them: a kill in between leaves rows
    that the next start rewinds, so nothing beyond the checkpoint is lost or recorded twice.

    A signal that ends the process acts between rounds, after a checkpoint. Of several ranks the
    first alone has a store; all save when one of them wishes to.
    """
    ranks = standing.stack.world.ranks
    observer = Observer(standing.stack, standing.ledger)
    waiting: list[Reading] = []
    rows = Counter(standing.rows)
    began = saved = time.monotonic()
    pause = _first_pause(standing.stack, checkpoint_seconds)
    with HeldSignals() as held:
        for moment in simulate(standing.stack, standing.state):
            reading = observer.read(moment)
            if reading and store is not None:
                waiting.append(reading)
            yield moment
            if moment.phase != "end":
                continue
            now = time.monotonic()
            seconds = standing.seconds + now - began
            over = moment.round == standing.stack.world.rounds
            wish = STOP if held.one_has_come else SAVE if now - saved >= pause else GO_ON
            wish = ranks.maximum(wish)
            # Lanes that have diverged are still in the state: a checkpoint waits for a round.
            due = wish != GO_ON and not moment.diverged
            if (over or due or moment.diverged) and store is not None:
                columns = columns_by_key(waiting)
                with store.transaction():  # lanes that ran together are finished together
                    store.append(columns)
                    store.keep_devices(_of_the_last_round(observer, moment))
                    _finish_lanes(store, moment, seconds, over)
                rows.update({key: len(table["round"]) for key, table in columns.items()})
                waiting = []
            if due and not over:
                with _kept_going(wish == STOP):
                    save(standing.file, moment, observer.ledger, seconds, rows)
                held.act()
                if wish == STOP and ranks.count > 1:
                    raise KeyboardInterrupt  # the signal came to another rank
                saved = time.monotonic()
                pause = _next_pause(pause, checkpoint_seconds, saved - now)
        if store is not None:
            checkpoint.remove(standing.file)
        held.act()


@contextmanager
def _kept_going(stopping: bool) -> Iterator[None]:
    """A checkpoint that cannot be saved is left out: hours of computing do not hang on it. Where
    nothing can be written any more, the store says so."""
    try:
        yield
    except RecordsError as error:
        if stopping:
            tell(f"{error} The runs will go on from there, or start anew.")
        else:
            tell(
                f"{error} The runs go on; if they are stopped, they go on from the checkpoint "
                "before, or start anew."
            )


def _first_pause(stack: Stack, checkpoint_seconds: float) -> float:
    """Seconds until the first checkpoint: few, unless there is much to save."""
    size = stack.world.held * len(stack) * stack.world.learner.parameters * 4
    saving = size / SAVING_SPEED
    return min(checkpoint_seconds, max(FIRST_SECONDS, saving / SAVING_SHARE))


def _next_pause(pause: float, checkpoint_seconds: float, saving: float) -> float:
    """Seconds until the next checkpoint, after one that took so long to save."""
    if not checkpoint_seconds:
        return 0.0
    return max(min(2 * pause, checkpoint_seconds), saving / SAVING_SHARE)


def _begin(
    world: World, experiments: Sequence[Experiment], store: Store, how: Mapping[str, str]
) -> None:
    store.begin_all(
        {world.key(experiment): experiment for experiment in experiments},
        materials=world.fingerprints,
        world=world.experiment.world_key(world.fingerprints),
        device=device_name(world.device),
        versions={**versions(), **how},
    )


def _of_the_last_round(observer: Observer, moment: Moment) -> dict[str, DeviceTable]:
    """By key, what the devices of lanes scored that are over now and sound."""
    broken = {moment.stack.keys[lane] for lane in moment.diverged}
    return {key: table for key, table in observer.device_tables.items() if key not in broken}


def _finish_lanes(store: Store, moment: Moment, seconds: float, over: bool) -> None:
    for lane, key in enumerate(moment.stack.keys):
        if lane in moment.diverged:
            note = f"no longer finite after round {moment.round}"
            store.finish(key, "diverged", wall_seconds=seconds, note=note)
        elif over:
            store.finish(key, "finished", wall_seconds=seconds)
