"""Who takes part, and in which jobs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    name: str
    folder: str
    """Where its `job.py` is; with a `requirements.txt` beside it, it has its own environment."""
    variant: str
    jobs: tuple[str, ...] = ("linear", "cnn")
    lanes: int = 1
    """Runs that are stepped at once: each of them counts."""
    mixing: str = "average"
    """Devices average through the server, or with their neighbours on a ring."""


def skerry(lanes: int, jobs: tuple[str, ...], mixing: str = "average") -> Contestant:
    words = f"Skerry, {lanes} lane{'s' if lanes > 1 else ''}"
    return Contestant(
        name=words if mixing == "average" else f"{words}, {mixing}",
        folder="skerry",
        variant=f"{lanes} {mixing}",
        jobs=jobs,
        lanes=lanes,
        mixing=mixing,
    )


PLAIN = Contestant("plain PyTorch loop", "plain", "average")
PLAIN_RING = Contestant("plain PyTorch loop, ring", "plain", "ring", ("linear",), mixing="ring")
REFERENCES = {"average": PLAIN, "ring": PLAIN_RING}
"""The loop that does the same by hand: its loss is what the others must reach."""

CONTESTANTS = (
    PLAIN,
    Contestant("FedJAX", "fedjax", "jit"),
    Contestant("pfl, 2 processes", "pfl", "2"),
    Contestant("fluke", "fluke", "fedavg"),
    Contestant("Flower", "flower", "ray"),
    skerry(1, ("linear", "cnn")),
    skerry(4, ("cnn",)),
    skerry(24, ("linear",)),
    skerry(96, ("linear",)),
    skerry(480, ("linear",)),
    PLAIN_RING,
    skerry(1, ("linear",), mixing="ring"),
)

PEERS = tuple(dict.fromkeys(contestant.folder for contestant in CONTESTANTS))
"""What `--peers` takes."""
