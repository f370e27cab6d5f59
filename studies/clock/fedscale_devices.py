"""Turn FedScale's table of devices into a CSV file that a clock reads.

    python studies/clock/fedscale_devices.py client_device_capacity devices.csv --operations 7840

FedScale's `client_device_capacity` (SymbioticLab/FedScale, benchmark/dataset/data/device_info) has,
for each of 500,000 clients, `computation`, the milliseconds that a model takes for the inference of
one sample, and `communication`, a bandwidth in kbit/s. It is a pickle, and loading a pickle may run
any code. Skerry opens none; this script is the only place that does, and it reads numbers, texts,
lists and dicts alone: a file that asks for anything else is refused.

A clock with `devices = "devices.csv"` draws a row for every device by the seed. Its columns are

    seconds_per_step  3 x batch x milliseconds / 1000 x operations / measured operations
    uplink, downlink  the bandwidth, the same both ways (bytes per second)

The factor 3 is FedScale's own: a forward pass, and a backward pass that takes twice as long. The
table does not say which model was measured, and its times are the same for every model (FedScale's
issue 6). So they are scaled by operations, in multiply-adds for one sample: those of your model
(784 x 10 = 7840 for softmax regression on MNIST) against those of the measured one. For the latter
300 million is assumed, MobileNetV2's (Sandler et al., 2018): that is a guess, and small models are
slower than it says, because starting a step takes time too. What was assumed is written to a text
file beside the CSV file.
"""

import argparse
import csv
import io
import math
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skerry.errors import SkerryError
from skerry.files import refuse_special, replace_file

MEASURED = 300e6
"""Multiply-adds of the model that was measured, which is assumed to be MobileNetV2."""
PASSES = 3.0
"""A training step in inferences."""
FORMAT = "{client: {'computation': milliseconds, 'communication': kbit/s}}"


class PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dicts, and refuses every other object."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_capacity(path: Path) -> dict[Any, Any]:
    """The table of a pickle that holds nothing but plain values."""
    try:
        content = refuse_special(path).read_bytes()
    except OSError as error:
        raise SkerryError(f"cannot read {path} ({error.strerror}).") from None
    try:
        found = PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a broken or hostile file may raise anything
        raise SkerryError(
            f"{path} is not opened: only numbers, texts, lists and dicts are read from a pickle "
            f"({' '.join(str(error).split())[:80]}). Take the file from FedScale's repository."
        ) from None
    if not isinstance(found, dict) or not found:
        raise SkerryError(f"{path} must hold {FORMAT} (got a {type(found).__name__}).")
    return found


def speeds(path: Path, table: dict[Any, Any]) -> Iterator[tuple[float, float]]:
    """Milliseconds and kbit/s of every client whose numbers are above 0."""
    for client, row in table.items():
        try:
            found = float(row["computation"]), float(row["communication"])
        except (TypeError, KeyError, ValueError):
            raise SkerryError(
                f"client {client!r:.40} of {path} has no such row (got {row!r:.60}). The table "
                f"must hold {FORMAT}."
            ) from None
        if all(math.isfinite(one) and one > 0 for one in found):
            yield found


def convert(
    path: Path, out: Path, *, operations: float, measured: float, batch: int, rows: int, seed: int
) -> str:
    """Write the CSV file and the text beside it, and return the text."""
    table = read_capacity(path)
    found = [*speeds(path, table)]
    if not found:
        raise SkerryError(f"{path} has no client whose numbers are above 0.")
    usable = len(found)
    if 0 < rows < usable:
        chosen = np.random.default_rng(seed).choice(usable, rows, replace=False)
        found = [found[place] for place in sorted(chosen.tolist())]
    factor = PASSES * batch * operations / measured / 1000
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["seconds_per_step", "uplink", "downlink"])
    for milliseconds, kbits in found:
        bandwidth = f"{1000 * kbits / 8:.6g}"
        writer.writerow([f"{factor * milliseconds:.6g}", bandwidth, bandwidth])
    step_s = factor * np.array([one for one, _ in found])
    low, middle, high = np.percentile(step_s, [10, 50, 90])
    about = (
        f"{out.name}: {len(found):,} devices of {path.name} (FedScale), which has {len(table):,}; "
        f"{len(table) - usable:,} of them have a number that is not above 0.\n"
        f"seconds_per_step = {PASSES:g} passes x {batch} samples x milliseconds / 1000 x "
        f"{operations:g} operations of the model / {measured:g} of the one that was measured, "
        "which is assumed.\n"
        f"A step takes {middle:.3g} s (middle; {low:.3g} to {high:.3g} s for eight devices in "
        "ten).\n"
    )
    replace_file(out, lines.getvalue().encode())
    replace_file(out.with_name(f"{out.name}.txt"), about.encode())
    return about


def above_zero(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be above 0 (got {text})")
    return value


def at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1 (got {text})")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="FedScale's client_device_capacity")
    parser.add_argument("out", type=Path, help="the CSV file to write")
    parser.add_argument(
        "--operations", type=above_zero, required=True,
        help="multiply-adds of your model for the inference of one sample",
    )  # fmt: skip
    parser.add_argument(
        "--measured-operations", type=above_zero, default=MEASURED,
        help="those of the model that the table was measured with",
    )  # fmt: skip
    parser.add_argument("--batch", type=at_least_one, default=128, help="training.batch")
    parser.add_argument("--rows", type=int, default=10_000, help="devices to keep, drawn; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the devices that are kept")
    asked = parser.parse_args()
    print(
        f"{asked.table} is a pickle: it is read without running any code in it, as plain values.",
        file=sys.stderr,
    )
    try:
        about = convert(
            asked.table,
            asked.out,
            operations=asked.operations,
            measured=asked.measured_operations,
            batch=asked.batch,
            rows=asked.rows,
            seed=asked.seed,
        )
    except SkerryError as error:
        raise SystemExit(f"Error: {error}") from None
    print(about, end="")


if __name__ == "__main__":
    main()
