"""Readings of many rounds and lanes become one table per lane."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.measure.observer import Reading, columns_by_key

MEASURES = ("average_loss", "bias", "disagreement")
COUNTS = ("d2d_messages", "uplink_messages")
NAN = float("nan")
values = st.sampled_from([0.0, 1.5, -2.0, NAN])


@st.composite
def series(draw):
    """Successive rounds; lanes leave, are not always due, and measures come and go."""
    keys, found = ("a", "b", "c", "d"), []
    for number in range(draw(st.integers(0, 5))):
        keys = tuple(key for key in keys if draw(st.integers(0, 5))) or keys[:1]
        due = tuple(lane for lane in range(len(keys)) if draw(st.booleans()))
        names = tuple(name for name in MEASURES if draw(st.booleans()))
        table = [[draw(values) for _ in keys] for _ in names]
        counted = {name: np.arange(len(keys)) for name in COUNTS if draw(st.booleans())}
        tensor = torch.tensor(table, dtype=torch.float64).reshape(len(names), len(keys))
        found.append(Reading(3 * number, keys, due, names, tensor, counted))
    return found


@settings(max_examples=150, deadline=None)
@given(series())
def test_columns_are_the_rows_put_together(readings):
    """A lane has a row for every reading in which it is due, and a column for what it measured."""
    rows: dict[str, list[dict[str, float]]] = {}
    for reading in readings:
        tables = (*zip(reading.names, reading.table, strict=True), *reading.counted.items())
        for lane in reading.due:
            row = {"round": reading.round} | {name: float(v[lane]) for name, v in tables}
            rows.setdefault(reading.keys[lane], []).append(row)
    found = columns_by_key(readings)
    assert found.keys() == rows.keys()
    for key, lane_rows in rows.items():
        measured = {n for row in lane_rows for n, value in row.items() if not np.isnan(value)}
        assert found[key].keys() == measured
        for name, column in found[key].items():
            expected = [row.get(name, NAN) for row in lane_rows]
            assert np.array_equal(column, expected, equal_nan=True)
