"""The models of all devices at the end of a run, with the names of their parameters.

`keep_models` writes them to `models/KEY.safetensors` in the folder of the store. The file has, for
each trained parameter, the numbers of all devices as `devices/NAME`, and frozen parameters and
buffers, which all devices share, as `fixed/NAME`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.errors import DamagedError, SkerryError, argument, did_you_mean
from skerry.files import remove_leftovers
from skerry.models.layout import Layout, count, named_tensors, parameter_mask, without_padding
from skerry.models.weights import Untrained
from skerry.plugins.context import Parameter
from skerry.records.checkpoint import load_checkpoint, save_checkpoint
from skerry.records.store import models_file

AVERAGE = "average"
DEVICES, FIXED = "devices/", "fixed/"


@dataclass(frozen=True)
class FinalModels:
    """The models of all devices of a run as flat vectors, and what turns them into state dicts."""

    X_nd: Tensor  # [devices, parameters], float32 on the CPU, without padding
    parameters: Layout
    devices: tuple[str, ...]  # the names of the rows
    islands: tuple[str, ...]  # the island of every row
    untrained: Untrained

    @classmethod
    def of_world(cls, world: World, X_nd: Tensor) -> "FinalModels":
        """The models of one lane, from rows with padding."""
        learner = world.learner
        real_d = parameter_mask(world.layout, learner.d)
        return cls(
            X_nd.detach().cpu().float()[:, real_d],
            without_padding(world.layout, learner.d),
            world.fleet.labels,
            world.islands,
            getattr(learner, "untrained", Untrained()),
        )

    def state_dict(
        self, device: str | int = AVERAGE, island: str | None = None
    ) -> dict[str, Tensor]:
        """The state dict of a device (name or row), or of the average over all or an island."""
        vector_d = self._vector(device, island)
        tensors = named_tensors(self.parameters, vector_d)
        return self.untrained.complete({name: part.clone() for name, part in tensors.items()})

    def _vector(self, device: str | int, island: str | None) -> Tensor:
        if island is not None:
            if device != AVERAGE:
                raise SkerryError(
                    f"an island has an average model, and no other (got device {device!r}). Leave "
                    "the device or the island out."
                )
            rows = [i for i, own in enumerate(self.islands) if own == str(island)]
            if not rows:
                known = dict.fromkeys(self.islands)
                raise SkerryError(_unknown("island", str(island), known))
            return self.X_nd[rows].mean(dim=0)
        if device == AVERAGE:
            if AVERAGE in self.devices:
                raise SkerryError(
                    f"{AVERAGE!r} is the mean of all devices, and here also the name of a device. "
                    "Rename the device; from Python, give its row, "
                    f"{self.devices.index(AVERAGE)}, or take lane.models.mean(0)."
                )
            return self.X_nd.mean(dim=0)
        if isinstance(device, str):
            if device not in self.devices:
                raise SkerryError(_unknown("device", device, (AVERAGE, *self.devices)))
            return self.X_nd[self.devices.index(device)]
        whole = hasattr(device, "__index__") and not isinstance(device, bool)
        if not whole or not 0 <= device < len(self.devices):
            raise SkerryError(
                f"a row must be a whole number from 0 to {len(self.devices) - 1} (got {device!r}). "
                f"Name a device, or {AVERAGE!r}."
            )
        return self.X_nd[device]

    def save(self, folder: Path, key: str) -> None:
        """Write them beside the store of a folder, atomically."""
        path = models_file(folder, key)
        remove_leftovers(path.parent)
        tensors = named_tensors(self.parameters, self.X_nd)
        save_checkpoint(
            path,
            {
                **{f"{DEVICES}{name}": tensor for name, tensor in tensors.items()},
                **{f"{FIXED}{name}": tensor for name, tensor in self.untrained.fixed.items()},
            },
            {
                "run": key,
                "devices": [*self.devices],
                "islands": [*self.islands],
                "parameters": [
                    [one.name, [*one.shape], one.start, [*one.strides]] for one in self.parameters
                ],
                "tied": dict(self.untrained.tied),
            },
        )

    @classmethod
    def load(cls, folder: Path, key: str) -> "FinalModels":
        """Read those of a run; raises DamagedError if they are not what was saved."""
        path = models_file(folder, key)
        try:
            tensors, facts = load_checkpoint(path, "cpu")
            layout = tuple(
                Parameter(name, tuple(shape), start, tuple(strides))
                for name, shape, start, strides in facts["parameters"]
            )
            X_nd = torch.zeros(len(facts["devices"]), count(layout))
            for one in layout:
                one.of(X_nd).copy_(tensors[f"{DEVICES}{one.name}"])
            fixed = {n.removeprefix(FIXED): t for n, t in tensors.items() if n.startswith(FIXED)}
            if facts["run"] != key:
                raise DamagedError("another run", reason=f"models of run {facts['run']}")
        except DamagedError as error:
            raise _damaged(path, error.reason) from error
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise _damaged(path, f"without {error}") from error
        names, islands = tuple(facts["devices"]), tuple(facts["islands"])
        return cls(X_nd, layout, names, islands, Untrained(fixed, facts["tied"]))


def _damaged(path: Path, reason: str) -> DamagedError:
    return DamagedError(
        f"the models {path} are damaged ({reason}). Delete the file, and compute the run again "
        f"with {argument('keep_models')}.",
        reason=reason,
    )


def _unknown(kind: str, got: str, known: Iterable[str]) -> str:
    names = [*known]
    first = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    return f"unknown {kind} {got!r}{did_you_mean(got, names)} There are {first}."
