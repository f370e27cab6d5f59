"""An experiment from the text that is recorded with a run, without importing what it names."""

import json
from typing import Any

from skerry.config.experiment import Experiment, Section
from skerry.config.toml import current_names


def restored(text: str) -> Experiment:
    """The experiment as it was checked when it ran. It is not checked again: that would import
    the user's modules that it names, which may not be here, nor be welcome. Raises ValueError,
    TypeError or AttributeError where the text is none of an experiment."""
    table = current_names(json.loads(text))
    for name, field in Experiment.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section) and name in table:
            table[name] = kind.model_construct(**_tuples(kind, table[name]))
    return Experiment.model_construct(**table)


def _tuples(section: type[Section], table: dict[str, Any]) -> dict[str, Any]:
    """Lists are tuples in a section's own fields (they are frozen); JSON knows only lists."""
    return {
        name: tuple(value) if isinstance(value, list) and name in section.model_fields else value
        for name, value in table.items()
    }
