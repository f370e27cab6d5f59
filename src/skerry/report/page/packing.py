"""Data inside a page: JSON that is safe in a script tag, and arrays as compressed text.

Arrays are stored as base64 of gzip of one line of JSON (name, type and length of each array)
followed by their bytes, little-endian. Sixteen-bit numbers are stored as differences, high bytes
before low bytes: curves are smooth, so that most high bytes are zero.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FINE, COARSE = 65535, 8191  # levels of a mean: 16 bits, or a hundredth of a percent
HALF_LEVELS = 120  # of half an interval
NO_HALF = 255

Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


def json_text(value: Any) -> str:
    """JSON for a script tag. `<`, `>` and `&` are escaped, so that no text can end the tag or start
    another one, and so are the two line ends that only JavaScript knows."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # A lone surrogate, from a damaged name, has no UTF-8 form.
    return text.encode("utf-8", "replace").decode()


def gzip_base64(content: bytes) -> str:
    """Base64 of gzip. The same bytes give the same text."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def pack_arrays(arrays: Arrays) -> str:
    """Arrays as text, in the format that the head of this module describes."""
    # The type without its byte order, such as f8.
    header = [[name, array.dtype.str[1:], len(array)] for name, array in arrays.items()]
    body = b"".join(map(_bytes, arrays.values()))
    return gzip_base64(json.dumps(header).encode() + b"\n" + body)


def _bytes(array: NDArray[Any]) -> bytes:
    if array.dtype != np.uint16:
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    steps = np.diff(array, prepend=np.uint16(0))  # wraps around; summing up wraps back
    return (steps >> 8).astype(np.uint8).tobytes() + (steps & 255).astype(np.uint8).tobytes()


def quantize_means(
    values: Array, lengths: NDArray[np.int64], logarithmic: bool = False, finest: int = FINE
) -> dict[str, NDArray[Any]]:
    """Round the values of several concatenated series to whole levels between the ends of each
    series. On a logarithmic scale, level 0 means "not above zero", and levels from 1 are
    logarithms."""
    first = 1 if logarithmic else 0
    positive = values > 0 if logarithmic else np.ones(len(values), dtype=bool)
    scaled = np.log10(np.where(positive, values, 1.0)) if logarithmic else values
    starts = np.cumsum(lengths) - lengths
    low = np.minimum.reduceat(np.where(positive, scaled, np.inf), starts)
    high = np.maximum.reduceat(np.where(positive, scaled, -np.inf), starts)
    nothing = low > high  # no value above zero
    low, high = np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)
    span = np.where(high > low, high - low, 1.0)
    share = (scaled - np.repeat(low, lengths)) / np.repeat(span, lengths)
    codes = first + np.rint(share * (finest - first))
    return {
        "levels": np.array([finest], dtype=np.uint32),
        "low": low,
        "high": high,
        "mean": np.where(positive, codes, 0).astype(np.uint16),
    }


def quantize_halves(halves: Array, lengths: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Round half intervals to levels relative to the largest of each series, finer near zero."""
    starts = np.cumsum(lengths) - lengths
    known = np.isfinite(halves)
    top = np.maximum.reduceat(np.where(known, halves, 0.0), starts)
    share = np.where(known, halves, 0.0) / np.repeat(np.where(top > 0, top, 1.0), lengths)
    codes = np.rint(HALF_LEVELS * np.sqrt(share))
    return {"top": top, "half": np.where(known, codes, NO_HALF).astype(np.uint8)}
