"""From a store to cells: which runs are finished, what varies between them, what they measured."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skerry.errors import RecordsError, SkerryError, unknown
from skerry.experiment import Experiment, Section
from skerry.measures import MEASURES
from skerry.records.parts import History
from skerry.records.store import Run, Store
from skerry.sweep.cells import Cell, Cells, Readings, in_order

Fields = dict[str, Any]


def read_cells(path: Path | str, measure: str | None = None, last: int | None = None) -> Cells:
    """Every finished run of a store (its folder or its file): the measure's last value, or its
    mean over the last rounds. Without a measure: the accuracy of the average model, or its loss
    where nothing is classified."""
    with Store.read(path) as store:
        recorded = store.histories()
    if not recorded:
        raise RecordsError(f"no runs are recorded in {path}. Record some: skerry run --out {path}")
    statuses: Counter[str] = Counter(run.status for run, _ in recorded)
    finished = [(run, history) for run, history in recorded if run.status == "finished"]
    if not finished:
        raise RecordsError(
            f"none of the runs in {path} is finished ({in_words(statuses)}). Running ones go on "
            "when the command that began them is given again."
        )
    measure = _known_measure(measure, path, [history for _, history in finished])
    runs = [run for run, _ in finished]
    values = [value_of(history, measure, run.experiment.rounds, last) for run, history in finished]
    unmeasured = int(np.isnan(values).sum())
    if unmeasured == len(values):
        raise RecordsError(
            f"no finished run in {path} measured {measure} in its last {last} rounds. Take more "
            "of them: a larger --last."
        )
    fields = [fields_of(run) for run in runs]
    varying = varying_fields(fields)
    return Cells(
        measure=measure,
        last=last,
        fields=tuple(varying),
        readings=in_order(readings_of(runs, fields, varying, values)),
        constants={name: value for name, value in fields[0].items() if name not in varying},
        statuses=statuses,
        unmeasured=unmeasured,
    )


def in_words(statuses: Mapping[str, int]) -> str:
    """`3 finished, 1 diverged`."""
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())


def _known_measure(asked: str | None, path: Path | str, histories: Iterable[History]) -> str:
    measured = {name for history in histories for name in history} - {"round"}
    if asked is None:
        return "average_accuracy" if "average_accuracy" in measured else "average_loss"
    if asked in measured:
        return asked
    if asked in MEASURES:
        raise RecordsError(
            f"no finished run in {path} measured {asked}. Choose from: "
            f"{', '.join(sorted(measured))}; or add it to evaluate.measures and run again."
        )
    raise SkerryError(unknown("measure", asked, measured))


def value_of(history: History, measure: str, rounds: int, last: int | None) -> float:
    """NaN if the run did not measure it then."""
    if measure not in history:
        return float("nan")
    column = history[measure]
    if last is not None:  # round 0 is the start: no round has been done
        column = column[history["round"] > max(0, rounds - last)]
    measured = column[np.isfinite(column)]
    if len(measured) == 0:
        return float("nan")
    return float(measured[-1] if last is None else measured.mean())


def flat(experiment: Experiment) -> Fields:
    """`section.field` and its value; lists as text, which can be grouped and compared."""
    fields: Fields = {}
    for name, value in experiment:
        if isinstance(value, Section):
            fields |= {f"{name}.{field}": _plain(one) for field, one in value}
        else:
            fields[name] = value
    return fields


def fields_of(run: Run) -> Fields:
    """What tells cells apart; None where it plays no part, such as the degree of a ring."""
    matters = run.experiment.canonical()
    matters["network"]["devices"] = run.experiment.network.devices
    fields = {
        name: value if _plays(name, matters) else None
        for name, value in flat(run.experiment).items()
    }
    for name in ("name", "seed", "server.primitive"):
        del fields[name]
    # Two graphs given from Python, or in files of one name, are two networks.
    fields["network.graph"] = run.materials.get("graph", "as named")[:8]
    if run.experiment.server.primitive == "blend":
        fields["server.beta"] = None  # the label says it
    return fields


def _plays(path: str, matters: dict[str, Any]) -> bool:
    section, dot, field = path.partition(".")
    return section in matters and (not dot or field in matters[section])


def _plain(value: Any) -> Any:
    if value is None:
        return "unset"
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def varying_fields(fields: Sequence[Fields]) -> list[str]:
    """What tells cells apart. Whether a field plays a part is told by other fields."""
    names = dict.fromkeys(name for each in fields for name in each)
    return [name for name in names if len({each.get(name) for each in fields} - {None}) > 1]


def readings_of(
    runs: Sequence[Run], fields: Sequence[Fields], varying: Sequence[str], values: Sequence[float]
) -> dict[Cell, list[Readings]]:
    readings: dict[Cell, Readings] = {}
    known: dict[tuple[Cell, str, int], str] = {}
    for run, each, value in zip(runs, fields, values, strict=True):
        cell, name, seed = (
            tuple(each.get(field) for field in varying),
            run.experiment.server.label,
            run.experiment.seed,
        )
        other = known.setdefault((cell, name, seed), run.key)
        if other != run.key:
            raise SkerryError(
                f"runs {other} and {run.key} differ only in a data set or model given from "
                "Python. Record such studies in folders of their own."
            )
        if np.isfinite(value):
            readings.setdefault(cell, {}).setdefault(name, {})[seed] = value
    return {cell: [part] for cell, part in _beside_servers(readings, varying).items()}


def _beside_servers(
    readings: Mapping[Cell, Readings], varying: Sequence[str]
) -> dict[Cell, Readings]:
    """Without a server there is no period: such a run stands beside every period's runs."""
    server = [name.startswith("server.") for name in varying]

    def rest(cell: Cell) -> Cell:
        return tuple(v for v, of_server in zip(cell, server, strict=True) if not of_server)

    served = {cell: dict(part) for cell, part in readings.items() if part.keys() != {"none"}}
    alike: dict[Cell, list[Cell]] = {}
    for cell in served:
        alike.setdefault(rest(cell), []).append(cell)
    for cell, part in readings.items():
        if "none" in part:
            for target in alike.get(rest(cell), [cell]):
                served.setdefault(target, {})["none"] = part["none"]
    return served
