"""Runs as pandas frames, and frames as CSV files that are safe in a spreadsheet."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.names import FOLDER, UNSET, Fields, flat_fields, run_label, short_names
from skerry.errors import printable
from skerry.plugins import registry
from skerry.records.parts import History, last_values
from skerry.records.store import Run

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("key", "name", "status", "seed", "label")
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
"""The fields that are always columns, and the names of those columns."""
_FORMULA = ("=", "+", "-", "@")  # a text that starts so is a formula to a spreadsheet


def of_rounds(
    runs: Sequence[Run], by_key: Mapping[str, History], known: Mapping[str, Fields]
) -> "pd.DataFrame":
    """A row for each round of each run: the run's labels and experiment, the round, the
    measures. `known` are the `fields_of_runs`, which tell versions of a user's own code."""
    import pandas as pd

    histories = [by_key[run.key] for run in runs]
    measures = _measures(histories)
    lengths = [len(history["round"]) for history in histories]
    run_of_row = np.repeat(np.arange(len(runs)), lengths)
    table = _experiments(runs, measures, known).take(run_of_row).reset_index(drop=True)
    columns = pd.DataFrame({name: _column(name, histories) for name in ("round", *measures)})
    return pd.concat([table, columns], axis="columns")


def of_runs(
    runs: Sequence[Run], by_key: Mapping[str, History], known: Mapping[str, Fields]
) -> "pd.DataFrame":
    """A row for each run: labels, experiment, rounds done, last value of each measure."""
    import pandas as pd

    histories = [by_key[run.key] for run in runs]
    measures = _measures(histories)
    rows = [last_values(history) for history in histories]
    columns = pd.DataFrame(rows, columns=measures, dtype=np.float64)
    columns.insert(0, "rounds_done", np.array([run.rounds_done for run in runs], dtype=np.int64))
    return pd.concat([_experiments(runs, measures, known), columns], axis="columns")


def csv_bytes(frame: "pd.DataFrame") -> bytes:
    """The frame as CSV; an apostrophe marks texts that a spreadsheet would compute."""
    safe = frame.copy()
    for name in frame.select_dtypes(exclude="number"):
        safe[name] = frame[name].map(_escape_formula)
    return safe.rename(columns=_escape_formula).to_csv(index=False).encode()


@cache
def summary_type() -> "type[pd.DataFrame]":
    """The class of the frame of `results.summary()`. It is created late, because pandas is slow to
    import."""
    import pandas as pd

    class Summary(pd.DataFrame):
        """A frame that shows as many of its measures as fit; pickles and copies are plain."""

        def __repr__(self) -> str:
            return str(registry.view("text_of_summary")(pd.DataFrame(self)))

        def _repr_html_(self) -> str:
            return str(registry.view("html_of_summary")(pd.DataFrame(self)))

        def __reduce__(self) -> Any:
            return pd.DataFrame(self).__reduce__()

    return Summary


def _measures(histories: Iterable[History]) -> list[str]:
    names = dict.fromkeys(name for history in histories for name in history)
    return [name for name in names if name != "round"]


def _column(name: str, histories: Sequence[History]) -> NDArray[Any]:
    start = np.empty(0, dtype=np.int64 if name == "round" else np.float64)
    return np.concatenate(
        [start, *(h[name] if name in h else np.full(len(h["round"]), np.nan) for h in histories)]
    )


def _experiments(
    runs: Sequence[Run], measures: Collection[str], known: Mapping[str, Fields]
) -> "pd.DataFrame":
    """One row for each run: its labels and its experiment."""
    import pandas as pd

    fields = [_fields(run, known[run.key]) for run in runs]
    paths = dict.fromkeys(path for one in fields for path in one)
    values = {path: [one.get(path) for one in fields] for path in (*ALWAYS, *paths)}
    others = [path for path in paths if path not in ALWAYS]
    taken = {*LABELS, *COUNTS, *ALWAYS.values(), *measures}
    names = ALWAYS | short_names(others, taken)
    labels: dict[str, list[Any]] = {
        "key": [run.key for run in runs],
        "name": [run.name for run in runs],
        "status": [run.status for run in runs],
        "seed": [run.experiment.seed for run in runs],
        "label": [run_label(run, known[run.key]) for run in runs],
    }
    shown = [path for path in values if path in ALWAYS or len(set(values[path])) > 1]
    return pd.DataFrame(labels | {names[path]: values[path] for path in shown})


def _fields(run: Run, known: Fields) -> Fields:
    """All fields of the run's experiment, None if unset, the versions of a user's own code, and
    the folder, where there are several."""
    own = {path: v for path, v in flat_fields(run.experiment).items() if path not in LABELS}
    plain = {path: None if value == UNSET else value for path, value in own.items()}
    return plain | {
        path: v for path, v in known.items() if path.endswith(".source") or path == FOLDER
    }


def _escape_formula(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    if text.startswith(_FORMULA):
        try:
            float(text)
        except ValueError:
            return f"'{text}"
    return text
