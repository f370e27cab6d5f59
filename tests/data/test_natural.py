"""The two natural data sets: as published, each person on a device."""

import json

import numpy as np
import pytest

import skerry
from skerry.config.experiment import Data, Experiment
from skerry.data.sources.catalog import list_datasets, load_dataset
from skerry.data.sources.formats import (
    SPEECH_CHARACTERS,
    SPEECH_JSON,
    SPEECH_LENGTH,
    decode_speeches,
    unpack_presidents,
)
from skerry.errors import DataError


def test_vowels():
    """Fifteen speakers, eight men first to be named; the first samples are those of the source."""
    vowels = load_dataset(Data(dataset="vowels", split="given"), 0)
    holdings = vowels.holdings
    assert holdings.islands.count("men") == 8
    assert holdings.islands.count("women") == 7
    assert set(holdings.train.sizes) == {44}
    assert set(holdings.tests.sizes) == {22}
    assert vowels.x_train[0].tolist() == pytest.approx(
        [-3.639, 0.418, -0.670, 1.779, -0.168, 1.627, -0.388, 0.529, -0.874, -0.814]
    )
    last = vowels.x_test[-1], vowels.y_test[-1]  # the last sample of the source
    assert last[1] == 10
    assert np.bincount(vowels.y_train).tolist() == [60] * 11


def test_vowels_run():
    experiment = Experiment.load("experiments/vowels.toml", ["rounds=2"])
    (lane,) = skerry.run(experiment)
    assert lane.experiment.network.sizes == (8, 7)
    assert "own_accuracy_worst_tenth" in lane.final


def address(year, name, party, text):
    told = {"year": year, "name": name, "party": party, "text": text}
    return f"{year}_{name.lower()}_x.json", json.dumps(told).encode()


def test_speeches_are_stretches_with_their_next_characters():
    text = "The state of the union is strong — “and so on”. " * 40
    files = dict([address(1900, "Later", "b", text), address(1800, "Early", "a", text * 2)])
    arrays = decode_speeches(files)
    assert unpack_presidents(arrays["presidents"]) == (("Early", "Later"), ("a", "b"))
    first = arrays["x_train"][0]
    assert (
        "".join(chr(32 + c) for c in first)
        == text.replace("—", "-").replace("“", '"').replace("”", '"')[:SPEECH_LENGTH]
    )
    assert np.array_equal(arrays["y_train"][0][:-1], first[1:])
    assert max(part.max() for part in (arrays["x_train"], arrays["y_test"])) < SPEECH_CHARACTERS
    assert len(arrays["x_test"]) == len(arrays["whose_test"]) > 0


def test_damaged_speeches_are_told():
    with pytest.raises(DataError, match=r"1900_a_x.json is damaged: it must hold year, name"):
        decode_speeches({"1900_a_x.json": b'{"year": 1900}'})
    assert SPEECH_JSON.select({"package.json": b""}) is None


def test_both_are_listed():
    rows = {row.name: row for row in list_datasets()}
    assert (rows["vowels"].train, rows["vowels"].test) == (660, 330)
    assert rows["speeches"].train + rows["speeches"].test == 167_997
