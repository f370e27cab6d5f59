"""Named random streams: every draw is a function of (seed, name, numbers) and of nothing else.

There is no random state: round 57 draws the same batches from the start or from a checkpoint, on a
CPU or on a GPU, alone or beside a thousand other lanes.
"""

import hashlib

import numpy as np


def stream(seed: int, name: str, *numbers: int) -> np.random.Generator:
    """The random generator of one purpose, such as `stream(seed, "batches", t)`."""
    return np.random.Generator(np.random.Philox(key=key_of(seed, name, *numbers)))


def torch_seed(seed: int, name: str, *numbers: int) -> int:
    """A 63-bit seed for code that draws through torch, such as a model's own initialisation."""
    return key_of(seed, name, *numbers) & (2**63 - 1)


def key_of(seed: int, name: str, *numbers: int) -> int:
    """The 128-bit key of a stream, for code that draws the same numbers without numpy."""
    text = "/".join([str(int(seed)), name, *(str(int(number)) for number in numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
