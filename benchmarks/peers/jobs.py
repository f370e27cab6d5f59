"""The jobs: their numbers, their synthetic data, and the loss that shows the work was done."""

from pathlib import Path

import numpy as np
import torch
from networks import NETWORKS, as_arrays
from peer_job import Job, Model

TESTS = 2_000
PATCHES = 4  # along a side of an image

JOBS = {
    "linear": Job(
        name="linear",
        words="softmax regression 784 -> 10 (7,850 parameters)",
        devices=100,
        samples=600,
        shape=(784,),
        classes=10,
        batch=128,
        stepsize=0.1,
        rounds=30,
        signal=0.1,
    ),
    "cnn": Job(
        name="cnn",
        words="CNN of two convolutions and two full layers (3,353,034 parameters)",
        devices=10,
        samples=600,
        shape=(3, 32, 32),
        classes=10,
        batch=128,
        stepsize=0.03,
        rounds=5,
        signal=1.0,
    ),
}


def write_job(job: Job, folder: Path) -> None:
    """Gaussian classes dealt to the devices at random, and the model that all start from."""
    rng = np.random.default_rng(0)
    centres = job.signal * patterns(job, rng)

    def samples(*counts: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, job.classes, counts)
        return centres[y] + rng.standard_normal((*counts, *job.shape), dtype=np.float32), y

    job.save(folder)
    for suffix, counts in (("", (job.devices, job.samples)), ("_test", (TESTS,))):
        x, y = samples(*counts)
        np.save(folder / f"x{suffix}.npy", x)
        np.save(folder / f"y{suffix}.npy", y)
    np.savez(folder / "initial.npz", **initial(job.name))


def patterns(job: Job, rng: np.random.Generator) -> np.ndarray:
    """A random pattern for every class: of single numbers, or of patches in an image."""
    if len(job.shape) == 1:
        return rng.standard_normal((job.classes, *job.shape), dtype=np.float32)
    channels, side, _ = job.shape
    patches = rng.standard_normal((job.classes, channels, PATCHES, PATCHES), dtype=np.float32)
    return patches.repeat(side // PATCHES, axis=2).repeat(side // PATCHES, axis=3)


def initial(name: str) -> Model:
    """Softmax regression starts from zero, the CNN from PyTorch's own random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        arrays = as_arrays(NETWORKS[name]())
    return {key: 0 * array for key, array in arrays.items()} if name == "linear" else arrays


def loss_of(folder: Path, model: Path) -> float:
    """Mean cross-entropy of a model's file on the job's test data."""
    network = NETWORKS[Job.load(folder).name]()
    with np.load(model) as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    x, y = (torch.from_numpy(np.load(folder / f"{kind}_test.npy")) for kind in "xy")
    with torch.no_grad():
        losses = [
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="sum")
            for rows in torch.arange(len(y)).split(500)
        ]
    return float(sum(losses) / len(y))
