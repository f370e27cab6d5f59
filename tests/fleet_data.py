"""A small fleet whose data lie on its devices: unequal sizes, one device with a single sample."""

from pathlib import Path

import numpy as np

SIZES = {"porch": 1, "shed": 30, "attic": 50, "barn": 7, "cellar": 20, "loft": 12}
ISLANDS = {name: "west" if name in ("porch", "attic", "cellar") else "east" for name in SIZES}


def samples(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(size) % 3)
    return (rng.normal(size=(size, 4)) + 2 * y[:, np.newaxis]).astype(np.float32), y


def devices() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: samples(size, seed) for seed, (name, size) in enumerate(SIZES.items())}


def own_tests() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Not everybody has some."""
    return {name: samples(5, 50 + len(name)) for name in ("shed", "attic", "porch")}


def table(split: bool = True, island: bool = True) -> dict[str, np.ndarray]:
    """The same as one table, its rows shuffled."""
    rows = [(name, "train", *pair) for name, pair in devices().items()]
    rows += [(name, "test", *pair) for name, pair in own_tests().items()] if split else []
    lengths = [len(y) for *_, y in rows]
    order = np.random.default_rng(1).permutation(sum(lengths))
    found = {
        "x": np.concatenate([x for *_, x, _ in rows])[order],
        "y": np.concatenate([y for *_, y in rows])[order],
        "device": np.repeat([name for name, *_ in rows], lengths)[order],
    }
    if split:
        found["split"] = np.repeat([part for _, part, *_ in rows], lengths)[order]
    if island:
        found["island"] = np.array([ISLANDS[name] for name in found["device"]])
    return found


def write_folder(folder: Path) -> Path:
    """A file for each device, in a folder for each island."""
    tests = own_tests()
    for name, (x, y) in devices().items():
        place = folder / ISLANDS[name]
        place.mkdir(parents=True, exist_ok=True)
        own = dict(zip(("x_test", "y_test"), tests.get(name, (x[:0], y[:0])), strict=True))
        np.savez(place / f"{name}.npz", x=x, y=y, **own)
    return folder
