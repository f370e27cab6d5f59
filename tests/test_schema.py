"""The schema of an experiment, for editors."""

import json

import pytest

from experiment_fields import FIELDS, SECTIONS
from skerry.config.experiment import Experiment


def test_the_schema_describes_every_field():
    """Type, description and default, and no field that the experiment does not take."""
    schema = Experiment.model_json_schema()
    assert schema["additionalProperties"] is False
    for path in FIELDS:
        section, _, name = path.rpartition(".")
        home = schema["$defs"][SECTIONS[section].__name__] if section else schema
        found = home["properties"][name]
        kind = SECTIONS[section] if section else Experiment
        default = kind.model_fields[name].default
        assert found["default"] == json.loads(json.dumps(default))
        assert found["description"]
        assert {"type", "anyOf", "enum"} & set(found)
    open_ones = {n for n, kind in SECTIONS.items() if _is_open(schema["$defs"][kind.__name__])}
    # The others take the options of the functions that they name.
    assert open_ones == set(SECTIONS) - {"evaluate", "availability", "clock"}
    primitive = schema["$defs"]["Server"]["properties"]["primitive"]
    assert primitive["examples"] == ["s2s", "s2a", "blend", "none"]


def _is_open(schema: dict) -> bool:
    return schema["additionalProperties"] is True


@pytest.mark.parametrize(
    ("path", "keyword", "bound"),
    [
        ("network.devices", "minimum", 1),
        ("network.edge_prob", "exclusiveMinimum", 0),
        ("server.beta", "maximum", 1),
        ("server.momentum", "exclusiveMaximum", 1),
    ],
)
def test_the_schema_knows_the_ranges(path, keyword, bound):
    section, name = path.split(".")
    home = Experiment.model_json_schema()["$defs"][SECTIONS[section].__name__]
    assert home["properties"][name][keyword] == bound
