"""The last evaluation of every device of a run, as it lies in a store: compressed JSON.

It lies in a table of its own that older versions overlook, with a checksum beside it.
"""

import json
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

TABLE = "devices"
SCHEMA = (
    f"""CREATE TABLE {TABLE} (
        run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
        content BLOB NOT NULL,
        crc32 INTEGER NOT NULL
    )""",
)
NONE = f"CREATE TEMP TABLE {TABLE} (run, content, crc32)"
"""For a store without any, which may only be read."""


def to_blob(table: "DeviceTable") -> bytes:
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def from_blob(content: bytes, crc32: int) -> "DeviceTable":
    """ValueError where it is damaged."""
    if zlib.crc32(content) != crc32:
        raise ValueError("wrong checksum of its devices")
    try:
        table: DeviceTable = json.loads(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not isinstance(table, dict) or len({len(column) for column in table.values()}) > 1:
        raise ValueError("a table of devices whose columns differ in length")
    return table
