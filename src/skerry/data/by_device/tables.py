"""Data by device from files: a table with a column `device`, or a folder with a file per device.

A table is .npz (arrays x, y, device), .parquet or .csv (a column y or label; all other columns are
features). It may have a column `split` (train or test) and a column `island`. In a folder, the name
of a file is that of its device, and the name of a subfolder that of an island.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skerry.data.by_device.grouping import DeviceRows, dataset_from_rows
from skerry.data.dataset import Array, Dataset
from skerry.data.holdings import quote_names
from skerry.data.sources.formats import decoding, load_npz, refuse_bomb, release_pages
from skerry.errors import DataError
from skerry.files import exists, user_path, what_is_wrong

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".npz", ".parquet", ".csv")
LABELS = ("y", "label")
NOT_FEATURES = ("device", "split", "island")
"""Columns that are neither features nor labels."""
NO_VALUE = ("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?", "-")
"""Words for a missing number, in small letters."""
LARGEST_WHOLE = 2**63
COMMON_TESTS = "test"
"""Name of the file in a folder whose test samples all devices are scored on."""
BLOCK_ROWS = 2**16
"""Rows of text or of Parquet that are read at once."""
BLOCK_BYTES = 2**26
"""Bytes of an array that are read at once."""
_HOW_TO_WRITE = "Write it with np.savez(path, x=..., y=..., device=...), without objects."
_HOW_TO_WRITE_ONE = "Write it with np.savez(path, x=..., y=...), without objects."


def read_devices(path: str) -> Dataset:
    """Read the data set in a table or a folder."""
    place = user_path(path)
    if not path or not exists(place):
        raise DataError(
            f"data.path {what_is_wrong(path)}. Name a table "
            f"({', '.join(ENDINGS)}) or a folder with a file per device."
        )
    files = [file for file, _ in _files(place)] if place.is_dir() else [place]
    stats = [(str(file.absolute()), file.stat()) for file in files]
    return _read(path, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


@lru_cache(maxsize=1)  # read for the sizes of a fleet, and again for its world
def _read(path: str, state: tuple[tuple[str, int, int], ...]) -> Dataset:
    """`state` makes a changed file another key of the cache."""
    place = user_path(path)
    blocks = _folder_rows(place) if place.is_dir() else _table_rows(place)
    return dataset_from_rows(blocks, place.stem, where=path)


def _table_rows(file: Path) -> Iterator[DeviceRows]:
    for rows in _file_rows(file, _HOW_TO_WRITE, []):
        if rows.device is None:
            raise DataError(
                f"{file} must name the device of every sample. Add a column 'device', or give a "
                "folder with a file per device."
            )
        yield rows


def _folder_rows(folder: Path) -> Iterator[DeviceRows]:
    """The samples in the files of a folder, and in its subfolders, which are islands."""
    file_of: dict[str, Path] = {}
    features: list[str] = []
    for file, island in _files(folder):
        device = file.stem
        if (other := file_of.setdefault(device, file)) != file:
            raise DataError(f"device '{device}' appears twice: {other} and {file}. Keep one.")
        for rows in _file_rows(file, _HOW_TO_WRITE_ONE, features):
            if device == COMMON_TESTS and island is None:
                yield DeviceRows(rows.x, rows.y, None, str(file), is_test=True)
                continue
            names = [] if rows.device is None else map(str, np.unique(rows.device))
            if others := [name for name in names if name != device]:
                raise DataError(
                    f"{file} is the file of device '{device}', but holds samples of '{others[0]}'. "
                    "Name the file as the device, or give one table with a column 'device'."
                )
            islands = [] if rows.island is None else np.unique(rows.island).tolist()
            islands += [island] if island else []
            yield replace(rows, device=device, names=None, island=islands or None)
    if not file_of:
        raise DataError(
            f"{folder} holds no files that end in {', '.join(ENDINGS)}. Put a file per device in "
            "it."
        )


def _files(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """The data files of a folder, each with the subfolder it lies in."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            yield from ((file, entry.name) for file in sorted(entry.iterdir()) if _is_data(file))
        elif _is_data(entry):
            yield entry, None


def _is_data(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file()


def _file_rows(file: Path, how_to_write: str, features: list[str]) -> Iterator[DeviceRows]:
    """Read a file block by block. `features` are the columns of the tables before it; the first
    table fills the list."""
    ending = file.suffix.lower()
    if ending == ".npz":
        yield from _npz_rows(file, how_to_write)
    elif ending in ENDINGS:
        for frame in _read_frames(file):
            if frame.empty:
                raise DataError(f"{file} has a header, but no rows. Add samples, or delete it.")
            columns = _feature_columns(file, frame)
            features += [] if features else columns
            _check_columns(file, columns, features)
            yield _frame_rows(file, frame, features)
    else:
        raise DataError(f"{file} must end in {', '.join(ENDINGS)}, or be a folder of such files.")


# .npz


def _npz_rows(file: Path, how_to_write: str) -> Iterator[DeviceRows]:
    arrays = load_npz(file, how_to_write, mapped=True)
    for x, y, test in (("x", "y", None), ("x_train", "y_train", False), ("x_test", "y_test", True)):
        if (x in arrays) != (y in arrays):
            there, missing = (x, y) if x in arrays else (y, x)
            raise DataError(f"{file} has {there}, but no {missing}. {how_to_write}")
        if x in arrays:
            yield from _npz_blocks(file, arrays, arrays[x], arrays[y], test)
    if not arrays.keys() & {"x", "x_train", "x_test"}:
        raise DataError(
            f"{file} must hold x and y (got {', '.join(sorted(arrays)) or 'nothing'}). "
            f"{how_to_write}"
        )


def _npz_blocks(
    file: Path, arrays: dict[str, Array], x: Array, y: Array, test: bool | None
) -> Iterator[DeviceRows]:
    """Blocks of x and y with the columns device, split and island; `test` is None for x and y that
    are not yet split."""
    columns = {name: arrays[name] for name in NOT_FEATURES if name in arrays and test is None}
    for name, column in (("y", y), *columns.items()):
        if column.ndim < 1 or x.ndim < 1 or len(column) != len(x):
            raise DataError(
                f"{file}: {name} must be as long as x (got shapes {column.shape} and {x.shape})."
            )
    names = arrays.get("devices")
    rows = max(1, BLOCK_BYTES // max(1, x.nbytes // max(1, len(x))))
    for start in range(0, len(x), rows) or (0,):
        some = slice(start, start + rows)
        block = {name: np.asarray(column[some]) for name, column in columns.items()}
        yield _rows(file, np.asarray(x[some]), np.asarray(y[some]), block, bool(test), names)
        for column in (x, y, *columns.values()):
            release_pages(column)


def _rows(
    file: Path,
    x: Array,
    y: Array,
    columns: dict[str, Array],
    is_test: bool | NDArray[np.bool_] = False,
    names: Array | None = None,
) -> DeviceRows:
    """A block of samples with its columns device, split and island, as far as there are any."""
    device = _device_names(file, columns["device"], names) if "device" in columns else None
    if "split" in columns:
        split = columns["split"].astype(str)
        wrong = split[~np.isin(split, ("train", "test"))]
        if wrong.size:
            raise DataError(f"{file}: split must be train or test (got '{wrong[0]:.40}').")
        is_test = np.asarray(split == "test")
    return DeviceRows(x, y, device, str(file), names, is_test, columns.get("island"))


def _device_names(file: Path, device: Array, names: Array | None) -> Array:
    """The column device: names, or indices of `names`."""
    if device.dtype.kind not in "uiUS" or device.ndim != 1:
        raise DataError(
            f"{file}: device must hold names or whole numbers (got {device.dtype} of shape "
            f"{device.shape})."
        )
    if device.dtype.kind == "S":
        return np.char.decode(device, "utf-8")
    if names is None or not len(device):
        return device
    if device.dtype.kind == "U" or not 0 <= device.min() <= device.max() < len(names):
        raise DataError(
            f"{file}: device must number the names in devices, 0 to {len(names) - 1} (got "
            f"{device.min()} to {device.max()})."
        )
    return device


# .parquet and .csv


def _read_frames(file: Path) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    with decoding(f"{file} cannot be read as a table"):
        if file.suffix.lower() != ".csv":
            yield from _parquet_frames(file)
            return
        _check_cells(file)
        text = dict.fromkeys(NOT_FEATURES, str)
        # Only an empty cell is missing: "NA", "None" and "nan" are names of devices or labels.
        missing: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
        with pd.read_csv(file, chunksize=BLOCK_ROWS, dtype=text, **missing) as chunks:
            yield from chunks


def _check_cells(file: Path) -> None:
    """Raise DataError unless all rows have as many cells as the header, which pandas would take for
    another index or fill up. Reading the file twice costs as much time as pandas needs."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines)
        header = next((row for row in rows if row), [])
        for row in rows:
            if row and len(row) != len(header):
                raise DataError(
                    f"{file}: line {rows.line_num} must have as many cells as the header, "
                    f"{len(header)} (got {len(row)}). Separate cells by commas, and quote text "
                    "that has one."
                )
    _refuse_duplicates(file, header)


def _refuse_duplicates(file: Path, columns: list[str]) -> None:
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise DataError(f"{file} has the column {quote_names(twice)} twice. Keep one of each.")


def _parquet_frames(file: Path) -> Iterator["pd.DataFrame"]:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise DataError(
            f"{file}: Parquet files need the package pyarrow. Install it: pip install "
            "'skerry[parquet]'"
        ) from None
    with parquet.ParquetFile(file, memory_map=True) as table:
        groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
        columns = (group.column(i) for group in groups for i in range(group.num_columns))
        # A column may repeat one value a billion times in a few bytes.
        refuse_bomb(file, sum(max(c.total_uncompressed_size, 4 * c.num_values) for c in columns))
        for batch in table.iter_batches(BLOCK_ROWS):
            yield batch.to_pandas()


def _feature_columns(file: Path, frame: "pd.DataFrame") -> list[str]:
    columns = [str(name) for name in frame.columns]
    _refuse_duplicates(file, columns)
    labels = [name for name in LABELS if name in columns]
    if len(labels) != 1:
        raise DataError(
            f"{file} must have one column y or label (got {', '.join(columns)!s:.200})."
        )
    features = [name for name in columns if name not in (*labels, *NOT_FEATURES)]
    if not features:
        raise DataError(f"{file} has no columns with features beside {', '.join(columns)}.")
    return features


def _check_columns(file: Path, columns: list[str], features: list[str]) -> None:
    """Raise DataError unless the columns are the features, in any order."""
    for verb, names in (
        ("lacks", [name for name in features if name not in columns]),
        ("has", [name for name in columns if name not in features]),
    ):
        if names:
            raise DataError(
                f"{file} {verb} the column {quote_names(names)}, unlike the tables before it. All "
                "devices must have the same features."
            )


def _frame_rows(file: Path, frame: "pd.DataFrame", features: list[str]) -> DeviceRows:
    y = next(frame[name] for name in LABELS if name in frame)
    if y.isna().any():
        row = int(np.flatnonzero(y.isna())[0])
        raise DataError(f"{file}: {_row(frame, row)} has no label.")
    _check_label_texts(file, frame, y)
    columns = {
        name: frame[name].fillna("").astype(str).to_numpy(str)
        for name in NOT_FEATURES
        if name in frame
    }
    return _rows(file, _feature_matrix(file, frame, features), y.to_numpy(), columns)


def _check_label_texts(file: Path, frame: "pd.DataFrame", y: "pd.Series[Any]") -> None:
    """Raise DataError if numbers were read as text because of a few cells: a regression would
    become a classification, or get another class."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(y) or not all(isinstance(cell, str | int) for cell in y):
        return
    numbers = pd.to_numeric(y, errors="coerce").astype(float)
    others = y[numbers.isna()]
    if len(others) and 2 * len(others) < len(y) and others.str.lower().isin(NO_VALUE).all():
        row = int(np.flatnonzero(numbers.isna())[0])
        raise DataError(
            f"{file}: {y.name} is numeric except {y.iloc[row]!r} in {_row(frame, row)}. Drop or "
            "fill such rows; for classes with names, name all of them by words."
        )
    huge = np.flatnonzero(numbers.abs() >= LARGEST_WHOLE)
    if huge.size and not len(others) and file.suffix.lower() == ".csv":
        raise DataError(
            f"{file}: {y.name} must hold whole numbers below 2**63 (got {y.iloc[huge[0]]} in "
            f"{_row(frame, int(huge[0]))}). For a regression, write real numbers, such as 1.5e20."
        )


def _feature_matrix(file: Path, frame: "pd.DataFrame", features: list[str]) -> Array:
    """The features as one array; a single column may hold lists."""
    import pandas as pd

    if len(features) == 1 and frame[features[0]].dtype == object:
        cells = frame[features[0]]
        if all(isinstance(cell, list | np.ndarray) for cell in cells):
            if len({len(cell) for cell in cells}) > 1:
                raise DataError(f"{file}: the lists in column '{features[0]}' differ in length.")
            return np.stack([np.asarray(cell) for cell in cells])
    for name in features:
        column = frame[name]
        if column.dtype.kind not in "uif":
            bad = np.flatnonzero(pd.to_numeric(column, errors="coerce").isna())
            row = int(bad[0]) if bad.size else 0
            raise DataError(
                f"{file}: column '{name}' must hold numbers (got {column.iloc[row]!r:.60} in "
                f"{_row(frame, row)})."
            )
    return frame[features].to_numpy(np.float64)


def _row(frame: "pd.DataFrame", row: int) -> str:
    device = f", device '{frame['device'].iloc[row]}'" if "device" in frame else ""
    return f"row {frame.index[row] + 1}{device}"
