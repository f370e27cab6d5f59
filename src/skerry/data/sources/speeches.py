"""State of the Union addresses as stretches of characters: one JSON file per address."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from skerry.data.sources.formats import Array, Arrays, Layout
from skerry.errors import DataError

FIRST, LAST = " ", "~"
CHARACTERS = ord(LAST) - ord(FIRST) + 1
"""Tokens: the printable characters of ASCII, from the space on."""
LENGTH = 64
EVERY = 10
"""Every tenth stretch is for testing."""
FIELDS = ("year", "name", "party", "text")
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "‑": "-"})


def decode(files: Mapping[str, bytes]) -> Arrays:
    """Stretches in the order of the years, whose each is, and the presidents with their parties."""
    numbers: dict[tuple[str, str], int] = {}
    stretches: list[Array] = []
    whose: list[int] = []
    for address in sorted((_parsed(*file) for file in files.items()), key=lambda a: a["year"]):
        number = numbers.setdefault((address["name"], address["party"]), len(numbers))
        found = _stretches(address["text"])
        stretches.append(found)
        whose += [number] * len(found)
    tokens, whose_all = np.concatenate(stretches), np.array(whose, dtype=np.uint8)
    is_test = np.arange(len(tokens)) % EVERY == EVERY - 1
    arrays: Arrays = {}
    for part, rows in (("train", ~is_test), ("test", is_test)):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = tokens[rows, :-1], tokens[rows, 1:]
        arrays[f"whose_{part}"] = whose_all[rows]
    arrays["presidents"] = np.frombuffer(json.dumps([*numbers]).encode(), np.uint8)
    return arrays


def presidents(packed: Array) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Their names and their parties."""
    names, parties = zip(*json.loads(packed.tobytes()), strict=True)
    return names, parties


def _parsed(name: str, content: bytes) -> dict[str, Any]:
    try:
        address = json.loads(content)
        return {field: address[field] for field in FIELDS}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{name} is damaged: it must hold {', '.join(FIELDS)}.") from None


def _stretches(text: str) -> Array:
    """Each with one character more than a sample, the next one; what is left at the end is not
    used. Signs that are not ASCII become plain ones, or spaces."""
    codes = np.frombuffer(text.translate(_PLAIN).encode("ascii", "replace"), np.uint8)
    inside = (codes >= ord(FIRST)) & (codes <= ord(LAST))
    tokens = np.where(inside, codes - ord(FIRST), 0).astype(np.uint8)
    starts = np.arange(0, len(tokens) - LENGTH, LENGTH)
    found: Array = tokens[starts[:, np.newaxis] + np.arange(LENGTH + 1)]
    return found


JSON_FILES = Layout(("[12]???_*.json",), decode)
