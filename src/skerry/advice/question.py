"""What is asked: for which goal, among which primitives, at what price, in how much time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from skerry.errors import SkerryError, unknown
from skerry.theory.communication import ONE_EACH, Prices

Goal: TypeAlias = Literal["global", "own", "both"]
GOALS: tuple[Goal, ...] = get_args(Goal)
KINDS = ("s2s", "s2a", "blend")
BETAS = (0.25, 0.5, 0.75)
SEEDS = 20
MINUTES = 5.0

_LINKS = {"up": "uplink", "down": "downlink", "broadcast": "broadcast", "d2d": "d2d"}


@dataclass(frozen=True)
class Question:
    goal: Goal = "both"
    among: tuple[tuple[str, float | None], ...] = ()
    """Primitives that may be recommended, with the share that a blend moves."""
    prices: Prices = ONE_EACH
    priced: bool = False
    """Whether prices were given: then K and H are a choice, at equal money."""
    messages: float | None = None
    """The most that may be spent, in messages at their prices."""
    bytes: float | None = None
    """The same in bytes."""
    stepsizes: tuple[float, ...] | None = None
    """None: a grid around the experiment's own, widened where its edge is best."""
    seeds: int = SEEDS
    """The most seeds that are tried."""
    minutes: float = MINUTES

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise SkerryError(unknown("goal", self.goal, GOALS))
        if self.messages is not None and self.bytes is not None:
            raise SkerryError("give a budget in messages or in bytes, not in both.")
        for name in ("messages", "bytes", "minutes", "seeds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise SkerryError(f"{_WORDS[name]} must be above 0 (got {value:g}). Raise it.")
        if self.stepsizes is not None and not all(0 < eta < float("inf") for eta in self.stepsizes):
            raise SkerryError("stepsizes must be above 0. Give numbers such as 0.01,0.1.")

    @property
    def has_budget(self) -> bool:
        return self.messages is not None or self.bytes is not None

    @property
    def chooses_server(self) -> bool:
        """Whether K and H are part of the choice."""
        return self.priced or self.has_budget


_WORDS = {
    "messages": "a budget of messages",
    "bytes": "a budget of bytes",
    "minutes": "minutes",
    "seeds": "the number of seeds",
}


def read_among(names: str | Sequence[str] | None) -> tuple[tuple[str, float | None], ...]:
    """`s2s,s2a,blend:0.3`; blend without a share stands for several of them."""
    given = names.split(",") if isinstance(names, str) else list(names or KINDS)
    found: dict[tuple[str, float | None], None] = {}
    for name in (part.strip() for part in given):
        kind, colon, share = name.partition(":")
        if kind not in KINDS or (colon and kind != "blend"):
            raise SkerryError(unknown("primitive", name, (*KINDS, "blend:0.5")))
        if kind != "blend":
            found[kind, None] = None
        elif not colon:
            found |= dict.fromkeys((kind, beta) for beta in BETAS)
        else:
            found[kind, _share(share)] = None
    return tuple(found)


def read_goal(goal: str) -> Goal:
    if goal not in GOALS:
        raise SkerryError(unknown("goal", goal, GOALS))
    return goal


def read_prices(text: str | None) -> Prices:
    """`up=1,down=.2,broadcast=3,d2d=.01`; what is not named keeps its usual price."""
    given: dict[str, float] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        link, _, price = (word.strip() for word in part.partition("="))
        if link not in _LINKS:
            raise SkerryError(unknown("link", link, _LINKS))
        try:
            given[_LINKS[link]] = float(price)
        except ValueError:
            raise SkerryError(
                f"the price of {link} must be a number (got '{price}'). Example: --price "
                "up=1,down=0.2"
            ) from None
        if not 0 <= given[_LINKS[link]] < float("inf"):
            raise SkerryError(f"the price of {link} must be at least 0 (got {price}). Raise it.")
    return Prices(**given)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise SkerryError(
            f"a blend's share must lie between 0 and 1 (got '{text}'); 0 is s2s and 1 is s2a. "
            "Example: blend:0.25"
        )
    return share
