"""Everything recorded as one pandas table, for analysis by hand."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skerry.experiment import Experiment, Section
from skerry.records.parts import History, last_values
from skerry.records.store import Run, Store

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("key", "name", "status", "seed")
COUNTS = ("round", "rounds_done")
ALWAYS = {
    "server.primitive": "primitive",
    "server.beta": "beta",
    "server.sampled": "sampled",
    "server.period": "period",
    "network.topology": "topology",
    "training.stepsize": "stepsize",
    "network.devices": "devices",
}


def load(path: Path | str) -> "pd.DataFrame":
    """One row for each round of each run in a store (its folder or its file).

    The columns: key, name, status and seed of the run; its experiment (the usual fields, and
    every other that differs between the runs); the round; and the measures.
    """
    import pandas as pd

    runs, histories = _read(path)
    measures = _measures(histories)
    lengths = [len(history["round"]) for history in histories]
    run_of_row = np.repeat(np.arange(len(runs)), lengths)
    table = _experiments(runs, measures).take(run_of_row).reset_index(drop=True)
    columns = pd.DataFrame({name: _column(name, histories) for name in ("round", *measures)})
    return pd.concat([table, columns], axis="columns")


def finals(path: Path | str) -> "pd.DataFrame":
    """One row for each run: as `load`, with the rounds done and the last value of each measure."""
    import pandas as pd

    runs, histories = _read(path)
    measures = _measures(histories)
    columns = pd.DataFrame(
        [last_values(history) for history in histories], columns=measures, dtype=np.float64
    )
    columns.insert(0, "rounds_done", np.array([run.rounds_done for run in runs], dtype=np.int64))
    return pd.concat([_experiments(runs, measures), columns], axis="columns")


def _read(path: Path | str) -> tuple[list[Run], list[History]]:
    with Store.read(path) as store:
        recorded = store.histories()
    return [run for run, _ in recorded], [history for _, history in recorded]


def _measures(histories: Iterable[History]) -> list[str]:
    names = dict.fromkeys(name for history in histories for name in history)
    return [name for name in names if name != "round"]


def _column(name: str, histories: Sequence[History]) -> NDArray[Any]:
    start = np.empty(0, dtype=np.int64 if name == "round" else np.float64)
    return np.concatenate(
        [start, *(h[name] if name in h else np.full(len(h["round"]), np.nan) for h in histories)]
    )


def _experiments(runs: Sequence[Run], measures: Collection[str]) -> "pd.DataFrame":
    """One row for each run: its labels and its experiment."""
    import pandas as pd

    fields = [dict(_fields(run.experiment)) for run in runs]
    paths = dict.fromkeys(path for asked in fields for path in asked)
    values = {path: [asked.get(path) for asked in fields] for path in (*ALWAYS, *paths)}
    names = ALWAYS | _short_names(paths, taken={*LABELS, *COUNTS, *ALWAYS.values(), *measures})
    labels: dict[str, list[Any]] = {
        "key": [run.key for run in runs],
        "name": [run.name for run in runs],
        "status": [run.status for run in runs],
        "seed": [run.experiment.seed for run in runs],
    }
    shown = [path for path in values if path in ALWAYS or len(set(values[path])) > 1]
    return pd.DataFrame(labels | {names[path]: values[path] for path in shown})


def _fields(experiment: Experiment) -> Iterator[tuple[str, Any]]:
    """`section.field` and its value; lists as text, which tables can group and compare."""
    for name, value in experiment:
        if isinstance(value, Section):
            for field, one in value:
                plain = json.dumps(one) if isinstance(one, list | tuple | dict) else one
                yield f"{name}.{field}", plain
        elif name not in LABELS:
            yield name, value


def _short_names(paths: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """The field's name alone where nothing else is called so, else `section.field`."""
    short = {path: path.rpartition(".")[2] for path in paths if path not in ALWAYS}
    times = Counter(short.values())
    return {
        path: name if times[name] == 1 and name not in taken else path
        for path, name in short.items()
    }
