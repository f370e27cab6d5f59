"""`skerry.from_devices`: a data set from what lies on each device."""

from collections.abc import Mapping, Sequence
from typing import Any

from skerry.data.by_device.gathering import Gathering
from skerry.data.dataset import Dataset
from skerry.data.sources import huggingface
from skerry.data.sources.arrays import stacked
from skerry.data.sources.formats import Array
from skerry.errors import DataError


def from_devices(
    devices: Mapping[Any, Any] | Sequence[Any],
    test: Any = None,
    own_test: Mapping[Any, Any] | None = None,
    islands: Mapping[Any, Any] | None = None,
    name: str = "devices",
) -> Dataset:
    """A data set from the samples of each device, by its name: a pair (x, y) of arrays, a map-style
    torch data set of such pairs, or one of Hugging Face's. A list names its devices 0, 1, 2 and so
    on.

    `test` holds the samples that all devices are measured on, `own_test` those of single devices,
    by name. Without `test`, all own test samples together take its place; without either, every
    fifth sample of each device is held out as its own. `islands` names the island of every device;
    a graph says it otherwise.
    """
    gathering = Gathering()
    by_name = _by_name("devices", devices)
    for device, samples in by_name.items():
        gathering.add(device, *pair(samples, f"device '{device}'"))
    for device, samples in _by_name("own_test", own_test or {}).items():
        if device not in by_name:
            raise DataError(
                f"own_test names device '{device}', which is not among devices. Name one that is."
            )
        x, y = pair(samples, f"own_test of device '{device}'")
        gathering.add(device, x, y, where="own_test", test=True)
    if test is not None:
        gathering.add_common(*pair(test, "test"))
    if islands is not None:
        gathering.place_all(_by_name("islands", islands))
    return gathering.dataset(name)


def pair(samples: Any, who: str) -> tuple[Array, Array]:
    """x and y of what stands for samples."""
    if isinstance(samples, tuple | list):
        if len(samples) != 2:
            raise DataError(f"{who} must be a pair (x, y) (got {len(samples)} parts).")
        return samples[0], samples[1]
    if huggingface.is_huggingface(samples):
        return huggingface.pair(samples, who)
    if hasattr(samples, "__getitem__") and not isinstance(samples, Mapping | str):
        return stacked(f"data set of {who}", samples)
    raise DataError(f"{who} must be a pair (x, y) or a data set (got {type(samples).__name__}).")


def _by_name(argument: str, given: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = dict(enumerate(given))
    if not isinstance(given, Mapping):
        raise DataError(
            f"{argument} must map names of devices to what they hold (got {type(given).__name__})."
        )
    found: dict[str, Any] = {}
    for device, value in given.items():
        if str(device) in found:
            raise DataError(f"{argument} names device '{device}' twice. Give each its own name.")
        found[str(device)] = value
    return found
