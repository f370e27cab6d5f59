"""Random draws of a world: minibatches, noise keys and the order of the devices.

Each is a function of (seed, round). Numbers are numpy's. On a GPU, kernels draw the same numbers to
the bit, because a large fleet would otherwise wait for its host. Draws that numpy makes one after
the other (permutations: the order of the devices, shuffled epochs) stay on the host.
"""

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.data.batches import LocalEpochs, WithReplacement
from skerry.data.partition import Partition
from skerry.errors import DataError
from skerry.kernels import fused
from skerry.plugins import registry
from skerry.plugins.context import Context, read_only
from skerry.plugins.options import bind
from skerry.seeds import key_of, stream

if TYPE_CHECKING:
    from skerry.kernels.draws import IndexSampler


class MinibatchDraws:
    """Draws minibatches, noise keys and server orders from a seed and the round."""

    def __init__(
        self,
        experiment: Experiment,
        partition: Partition,
        samples: int,
        device: torch.device,
        devices: slice = slice(None),
        context: Context | None = None,
    ):
        """Draw for all devices, or for the consecutive ones in `devices`; `context` is for a user's
        own sampling."""
        self._devices = devices
        self._training, self._seed = experiment.training, experiment.seed
        self._partition, self._samples, self._device = partition, samples, device
        self._n = len(partition.sizes)
        self._by_kernels = fused.draws_on(device)
        self.server_order = lru_cache(maxsize=1)(self._order)
        """A permutation of the devices, as a function of the round."""
        self._context = context or Context("a sampling is built", seed=experiment.seed)

    def batch_indices(self, t: int, step: int) -> Tensor:
        """Training indices [n, B] of every device's minibatch in a local step."""
        if self._kernel is not None:
            return self._kernel(key_of(self._seed, WithReplacement.stream, t, step))
        name, steps = self._training.sampling, self._training.local_steps
        if registry.is_builtin("sampling", name):
            return self._to_device(self._sampling.indices(t, step, steps, self._devices))
        with registry.users_own("sampling", name, DataError):
            call = bind("sampling", self._sampling.indices)
            facts = {"round": t, "step": t * steps + step, "_is_kept": False}
            indices = call(t, step, steps, context=self._context.with_facts(**facts))
        self._check(indices)
        return self._to_device(indices[self._devices])

    def epoch_orders(self, t: int) -> Tensor:
        """[E, samples]: training indices of the devices in the order of each local epoch."""
        assert self.local_epochs is not None
        return self._to_device(self.local_epochs.orders(t, self._devices))

    @cached_property
    def local_epochs(self) -> LocalEpochs | None:
        """The draws of `training.local_epochs`; None where all devices take as many steps."""
        batch, epochs = self._training.batch, self._training.local_epochs
        if epochs is None:
            return None
        return LocalEpochs(self._partition, batch, epochs, self._seed)

    @cached_property
    def batch(self) -> int:
        """The number of samples in the largest minibatch."""
        batch, largest = self._training.batch, int(self._partition.sizes.max())
        return batch if self.local_epochs is None else min(batch, largest)

    def noise_keys(self, t: int, step: int) -> Tensor:
        """One integer per device, for models that draw noise of their own."""
        return self.keys("noise", t, step)[self._devices]

    def keys(self, name: str, *numbers: int) -> Tensor:
        """One integer for every device of the fleet, the key of further draws."""
        if self._by_kernels:
            from skerry.kernels.draws import draw_keys

            return draw_keys(key_of(self._seed, name, *numbers), self._n, self._device)
        return self._to_device(stream(self._seed, name, *numbers).integers(0, 2**62, self._n))

    def _order(self, t: int) -> Tensor:
        return self._to_device(stream(self._seed, "sampled", t).permutation(self._n))

    @cached_property
    def _sampling(self) -> Any:
        training = self._training
        with registry.users_own("sampling", training.sampling, DataError):
            sampling = registry.resolve("sampling", training.sampling)
            call = bind("sampling", sampling, training.options_for("sampling"))
            names = ("order", "offsets", "label_counts")
            lent = {name: read_only(getattr(self._partition, name)) for name in names}
            partition = replace(self._partition, **lent)
            return call(partition, self.batch, context=self._context)

    @cached_property
    def _kernel(self) -> "IndexSampler | None":
        """The kernel that draws minibatches on a GPU; None where the host draws."""
        if not (self._by_kernels and type(self._sampling) is WithReplacement):
            return None
        from skerry.kernels.draws import IndexSampler

        order, offsets = self._partition.order, self._partition.offsets
        return IndexSampler(order, offsets, self.batch, self._device, self._devices)

    def _check(self, indices: Any) -> None:
        """Raise a DataError for a user's own sampling that breaks the contract."""
        name, samples = self._training.sampling, self._samples
        shape = (self._n, self._training.batch)
        if not (
            isinstance(indices, np.ndarray)
            and indices.shape == shape
            and indices.dtype == np.int64
            and 0 <= indices.min() <= indices.max() < samples
        ):
            raise DataError(
                f"sampling '{name}': indices(t, step, steps) must give training "
                f"indices 0 to {samples - 1} as an int64 array of shape {shape}, a row per device "
                f"(got {_describe(indices)})."
            )
        foreign = self._owner[indices] != np.arange(self._n)[:, None]
        if foreign.any():
            i, place = np.argwhere(foreign)[0]
            raise DataError(
                f"sampling '{name}': row i of indices must be samples that device i holds (got "
                f"sample {indices[i, place]} for device {i}). Draw from partition.indices(i)."
            )

    @cached_property
    def _owner(self) -> NDArray[np.int64]:
        """The device that holds each sample."""
        owner = np.full(self._samples, -1)
        owner[self._partition.order] = np.repeat(np.arange(self._n), self._partition.sizes)
        return owner

    def _to_device(self, drawn: Any) -> Tensor:
        """Copy what the host drew to the compute device, without making a GPU wait."""
        tensor = torch.from_numpy(drawn)
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)


def _describe(value: Any) -> str:
    """A value in a message: an array by its type and range, anything else by its type."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    span = f" from {value.min()} to {value.max()}" if value.size else ""
    return f"{value.dtype} of shape {value.shape}{span}"
