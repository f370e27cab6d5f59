"""Data by device from files: a table with a column `device`, or a folder with a file per device.

A table is .npz (arrays x, y, device), .parquet or .csv (a column y or label; all other columns are
features). It may have a column `split` (train or test) and a column `island`. In a folder the
file's name is the device's, and a folder in it is an island.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skerry.data.by_device.gathering import Gathering
from skerry.data.by_device.holdings import named
from skerry.data.dataset import Dataset
from skerry.data.sources.formats import Array
from skerry.data.sources.npz import let_go, npz_arrays
from skerry.errors import DataError, one_line
from skerry.files import exists, user_path

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".npz", ".parquet", ".csv")
LABELS = ("y", "label")
ABOUT = ("device", "split", "island")
"""Columns that are neither features nor labels."""
COMMON = "test"
"""In a folder, the file of the test samples that all devices are measured on."""
BLOCK = 2**16
"""Rows of text or of Parquet that are read at once."""
BYTES = 2**26
"""Of an array that are read at once."""
_HOW_TO_WRITE = "Write it with np.savez(path, x=..., y=..., device=...), without objects."
_HOW_TO_WRITE_ONE = "Write it with np.savez(path, x=..., y=...), without objects."


@dataclass(frozen=True)
class Rows:
    """Some rows of a file; what it does not have is None."""

    x: Array
    y: Array
    device: Array | None = None
    """Names, or numbers of those in `names`."""
    names: Array | None = None
    is_test: NDArray[np.bool_] | None = None
    island: Array | None = None


def read_devices(path: str) -> Dataset:
    """The data set in a file or a folder."""
    place = user_path(path)
    if not path or not exists(place):
        raise DataError(
            f"data.path does not exist: {place!s:.200}. Name a table ({', '.join(ENDINGS)}) or a "
            "folder with a file per device."
        )
    files = [file for file, _ in _files(place)] if place.is_dir() else [place]
    stats = [(str(file.absolute()), file.stat()) for file in files]
    state = tuple((name, found.st_size, found.st_mtime_ns) for name, found in stats)
    return _read(path, state)


@lru_cache(maxsize=1)  # asked for the sizes of a fleet, and again for its world
def _read(path: str, state: tuple[tuple[str, int, int], ...]) -> Dataset:
    """`state` tells files from changed ones."""
    place = user_path(path)
    gathering = Gathering()
    if place.is_dir():
        _gather_folder(place, gathering)
    else:
        _gather_table(place, gathering)
    try:
        return gathering.dataset(place.stem)
    except DataError as error:
        raise DataError(*(f"{path}: {fault}" for fault in error.faults)) from None


def _gather_table(file: Path, gathering: Gathering) -> None:
    for rows in _rows(file, _HOW_TO_WRITE, []):
        if rows.device is None:
            raise DataError(
                f"{file} must say whose each sample is. Add a column 'device', or give a folder "
                "with a file per device."
            )
        gathering.add_rows(
            rows.device,
            rows.x,
            rows.y,
            where=str(file),
            names=rows.names,
            is_test=rows.is_test,
            islands=rows.island,
        )


def _gather_folder(folder: Path, gathering: Gathering) -> None:
    """Files in the folder itself, and those in its folders, which are islands."""
    seen: dict[str, Path] = {}
    features: list[str] = []
    for file, island in _files(folder):
        device = file.stem
        if (other := seen.setdefault(device, file)) != file:
            raise DataError(f"device '{device}' is there twice: {other} and {file}. Keep one.")
        for rows in _rows(file, _HOW_TO_WRITE_ONE, features):
            if device == COMMON and island is None:
                gathering.add_common(rows.x, rows.y, where=str(file))
                continue
            _check_device(file, device, rows.device)
            _add(gathering, device, rows, str(file), island)
    if not seen:
        raise DataError(
            f"{folder} holds no files that end in {', '.join(ENDINGS)}. Put a file per device in "
            "it."
        )


def _add(gathering: Gathering, device: str, rows: Rows, where: str, island: str | None) -> None:
    told = () if rows.island is None else np.unique(rows.island)
    for place in (*([island] if island else []), *told):
        gathering.place(device, place, where)
    for test in (False, True):
        some = np.full(len(rows.y), not test) if rows.is_test is None else rows.is_test == test
        x, y = (rows.x, rows.y) if some.all() else (rows.x[some], rows.y[some])
        gathering.add(device, x, y, where=where, test=test)


def _check_device(file: Path, device: str, told: Array | None) -> None:
    other = (
        [str(name) for name in np.unique(told) if str(name) != device] if told is not None else []
    )
    if other:
        raise DataError(
            f"{file} is the file of device '{device}', but holds samples of '{other[0]}'. Name the "
            "file as the device, or give one table with a column 'device'."
        )


def _files(folder: Path) -> Iterator[tuple[Path, str | None]]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            found = (one for one in sorted(entry.iterdir()) if _is_data(one))
            yield from ((file, entry.name) for file in found)
        elif _is_data(entry):
            yield entry, None


def _is_data(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file()


def _rows(file: Path, how_to_write: str, features: list[str]) -> Iterator[Rows]:
    """A file, block by block. `features` are the columns of the tables before it, which it fills
    if it is the first."""
    ending = file.suffix.lower()
    if ending == ".npz":
        yield from _npz_rows(file, how_to_write)
    elif ending in (".parquet", ".csv"):
        for frame in _frames(file):
            found = _features(file, frame)
            features += [] if features else found
            _check_columns(file, found, features)
            yield _frame_rows(file, frame, features)
    else:
        raise DataError(f"{file} must end in {', '.join(ENDINGS)}, or be a folder of such files.")


# .npz


def _npz_rows(file: Path, how_to_write: str) -> Iterator[Rows]:
    arrays = npz_arrays(file, how_to_write, mapped=True)
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
) -> Iterator[Rows]:
    """With device, split and island beside x and y, as many as there are samples."""
    about = {name: arrays[name] for name in ABOUT if name in arrays and test is None}
    for name, column in (("y", y), *about.items()):
        if column.ndim < 1 or x.ndim < 1 or len(column) != len(x):
            raise DataError(
                f"{file}: {name} must be as long as x (got shapes {column.shape} and {x.shape})."
            )
    names = arrays.get("devices")
    rows = max(1, BYTES // max(1, x.nbytes // max(1, len(x))))
    for start in range(0, len(x), rows) or (0,):
        some = slice(start, start + rows)
        told = {name: np.asarray(column[some]) for name, column in about.items()}
        is_test = None if test is None else np.full(len(y[some]), test)
        yield Rows(
            np.asarray(x[some]),
            np.asarray(y[some]),
            _devices(file, told["device"], names) if "device" in told else None,
            names,
            _is_test(file, told["split"]) if "split" in told else is_test,
            told.get("island"),
        )
        for column in (x, y, *about.values()):
            let_go(column)


def _devices(file: Path, device: Array, names: Array | None) -> Array:
    """Devices by name, or by the numbers of names."""
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


def _is_test(file: Path, values: Any) -> NDArray[np.bool_]:
    told = np.asarray(values).astype(str)
    wrong = told[~np.isin(told, ("train", "test"))]
    if wrong.size:
        raise DataError(f"{file}: split must be train or test (got '{wrong[0]:.40}').")
    return np.asarray(told == "test")


# .parquet and .csv


def _frames(file: Path) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    try:
        if file.suffix.lower() == ".csv":
            text = dict.fromkeys(ABOUT, str)
            with pd.read_csv(file, chunksize=BLOCK, dtype=text, keep_default_na=True) as chunks:
                yield from chunks
        else:
            yield from _parquet_frames(file)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged bytes lead a decoder to errors of any kind
        raise DataError(f"{file} cannot be read as a table ({one_line(error)}).") from None


def _parquet_frames(file: Path) -> Iterator["pd.DataFrame"]:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise DataError(
            f"{file}: Parquet files need the package pyarrow. Install it: pip install "
            "'skerry[parquet]'"
        ) from None
    with parquet.ParquetFile(file, memory_map=True) as table:
        for batch in table.iter_batches(BLOCK):
            yield batch.to_pandas()


def _features(file: Path, frame: "pd.DataFrame") -> list[str]:
    columns = [str(name) for name in frame.columns]
    labels = [name for name in LABELS if name in columns]
    if len(labels) != 1:
        raise DataError(
            f"{file} must have one column y or label (got {', '.join(columns)!s:.200})."
        )
    features = [name for name in columns if name not in (*labels, *ABOUT)]
    if not features:
        raise DataError(f"{file} has no columns with features beside {', '.join(columns)}.")
    return features


def _check_columns(file: Path, found: list[str], features: list[str]) -> None:
    """They may come in any order."""
    for says, names in (
        ("lacks", [name for name in features if name not in found]),
        ("has", [name for name in found if name not in features]),
    ):
        if names:
            raise DataError(
                f"{file} {says} the column {named(names)}, unlike the tables before it. All "
                "devices must have the same features."
            )


def _frame_rows(file: Path, frame: "pd.DataFrame", features: list[str]) -> Rows:
    y = next(frame[name] for name in LABELS if name in frame)
    if y.isna().any():
        row = int(np.flatnonzero(y.isna())[0])
        raise DataError(f"{file}: row {frame.index[row] + 1}{_of(frame, row)} has no label.")
    about = {name: frame[name].fillna("").astype(str) for name in ABOUT if name in frame}
    return Rows(
        _matrix(file, frame, features),
        y.to_numpy(),
        about["device"].to_numpy(str) if "device" in about else None,
        is_test=_is_test(file, about["split"]) if "split" in about else None,
        island=about["island"].to_numpy(str) if "island" in about else None,
    )


def _matrix(file: Path, frame: "pd.DataFrame", features: list[str]) -> Array:
    """The features as one array; a single column of lists is one already."""
    if len(features) == 1 and frame[features[0]].dtype == object:
        cells = frame[features[0]]
        if all(isinstance(cell, list | np.ndarray) for cell in cells):
            lengths = {len(cell) for cell in cells}
            if len(lengths) > 1:
                raise DataError(f"{file}: the lists in column '{features[0]}' differ in length.")
            return np.stack([np.asarray(cell) for cell in cells])
    for name in features:
        column = frame[name]
        if column.dtype.kind in "uif":
            continue
        row, got = _first_text(column)
        raise DataError(
            f"{file}: column '{name}' must hold numbers (got {got!r:.60} in row "
            f"{frame.index[row] + 1}{_of(frame, row)})."
        )
    return frame[features].to_numpy(np.float32)


def _first_text(column: "pd.Series[Any]") -> tuple[int, Any]:
    import pandas as pd

    bad = np.flatnonzero(pd.to_numeric(column, errors="coerce").isna())
    row = int(bad[0]) if bad.size else 0
    return row, column.iloc[row]


def _of(frame: "pd.DataFrame", row: int) -> str:
    return f", device '{frame['device'].iloc[row]}'" if "device" in frame else ""
