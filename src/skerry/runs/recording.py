"""What came of runs, as a driver records it: what workers send of a stack, and what failed."""

from collections.abc import Mapping

from skerry.config.experiment import Experiment
from skerry.records.store import Store, versions
from skerry.runs.executors.messages import Done, Task


def record_done(store: Store, task: Task, done: Done) -> None:
    """A stack's runs in one transaction, and only those that are not finished yet."""
    experiments = dict(zip(task.keys, task.experiments, strict=True))
    with store.transaction():
        recorded = store.finished(experiments)
        for outcome in done.outcomes:
            if outcome.key in recorded:
                continue
            store.begin(
                outcome.key,
                experiments[outcome.key],
                materials=task.survey.fingerprints,
                world=task.world,
                device=outcome.device,
                versions=outcome.versions,
            )
            store.rewind([outcome.key], -1)
            store.append({outcome.key: outcome.columns()})
            if outcome.devices is not None:
                store.keep_devices({outcome.key: outcome.devices})
            store.finish(
                outcome.key,
                outcome.status,
                wall_seconds=outcome.wall_seconds,
                note=outcome.note,
            )


def record_failed(
    store: Store, by_key: Mapping[str, Experiment], fingerprints: dict[str, str], message: str
) -> None:
    """Runs of one world, with what went wrong."""
    first = next(iter(by_key.values()))
    with store.transaction():
        store.begin_all(
            by_key,
            materials=fingerprints,
            world=first.world_key(fingerprints),
            device="",
            versions=versions(),
        )
        for key in by_key:
            store.finish(key, "failed", wall_seconds=0.0, note=message)
