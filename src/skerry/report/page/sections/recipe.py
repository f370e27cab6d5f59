"""The experiment itself, to run again."""

import shlex
from collections.abc import Sequence
from math import prod
from typing import Any

from skerry.experiment import Experiment
from skerry.labels import BLEND, typed
from skerry.report.page.blocks import Block, Section, code, note, text
from skerry.report.page.study import Study
from skerry.report.words import plural
from skerry.sections import Server
from skerry.tables import toml_key, toml_value


def to_repeat(study: Study) -> Section:
    blocks = _sweep(study) if study.grid.axes else _single(study)
    return Section("recipe", "Run it again", [*blocks, *_outside(study)])


def _single(study: Study) -> list[Block]:
    seeds = study.grid.seeds
    command = ["skerry", "run", "experiment.toml", "--compare", _compared(study)]
    if len(seeds) > 1:
        command += ["--seeds", str(seeds[-1] - seeds[0] + 1)]
    first = min(study.experiments, key=lambda one: one.seed)
    return [
        text("Save this as experiment.toml:"),
        code("The experiment", first.to_toml()),
        text("and run it:"),
        code("The command", shlex.join([*command, "--out", "again"])),
    ]


def _compared(study: Study) -> str:
    servers = dict.fromkeys(_dial(one.server) for one in study.experiments)
    return ",".join(typed(*server) for server in servers)


def _dial(server: Server) -> tuple[str, float]:
    """A primitive and its beta, which plays a part in blend alone."""
    return server.primitive, server.beta if server.primitive == BLEND else 0.5


def _sweep(study: Study) -> list[Block]:
    axes = {name: values for name in study.grid.axes if (values := _values(study, name))}
    dials = [list(dial) for dial in dict.fromkeys(_dial(one.server) for one in study.experiments)]
    axes["server.primitive, server.beta"] = dials
    seeds = study.grid.seeds
    lines = [
        study.experiments[0].to_toml(),
        "[sweep]",
        f"seeds = {toml_value(seeds)}",
        "",
        "[sweep.axes]",
        *(f"{toml_key(name)} = {toml_value(values)}" for name, values in axes.items()),
    ]
    return [
        text("All cells as one sweep. Save this as sweep.toml:"),
        code("The sweep", "\n".join(lines) + "\n"),
        text("and run it (without --dry-run):"),
        code("The command", "skerry sweep sweep.toml --out again --dry-run"),
        *_completeness(study, prod(map(len, axes.values())) * len(seeds)),
    ]


def _values(study: Study, field: str) -> list[Any]:
    """Every value of a field, as an experiment holds it; none if it is not a field of a file."""
    section, _, name = field.partition(".")
    if not _is_field(study.experiments[0], section, name):
        return []
    found = [getattr(one, section) for one in study.experiments]
    values = [getattr(one, name) if name else one for one in found]
    return list({repr(value): value for value in values if value is not None}.values())


def _is_field(experiment: Experiment, section: str, name: str) -> bool:
    holder = getattr(experiment, section, None)
    return holder is not None and (not name or hasattr(holder, name))


def _completeness(study: Study, planned: int) -> Sequence[Block]:
    if planned == len(study.runs):
        return []
    return [
        note(
            f"This grid has {plural(planned, 'run')}; {len(study.runs):,} are recorded here. "
            "[sweep] can exclude the others."
        )
    ]


def _outside(study: Study) -> list[Block]:
    """What a file cannot hold."""
    given = sorted({name for run in study.runs for name in run.materials})
    if not given:
        return []
    return [
        note(
            f"Not in the text: the {', '.join(given)} that these runs were given from Python or "
            "from files. Give the same again; their fingerprints are in the records."
        )
    ]
