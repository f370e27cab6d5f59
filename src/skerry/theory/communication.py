"""Communication cost: per server round K messages up, and K (S2S) or n (S2A, blend) down."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from skerry.errors import SkerryError, unknown
from skerry.theory.operators import Numbers, check_sampled
from skerry.theory.parameters import Parameters

_PRIMITIVES = ("s2s", "s2a", "blend")


@dataclass(frozen=True)
class Prices:
    """Price of one message on each kind of link."""

    uplink: float = 1.0
    """From a device to the server."""
    downlink: float = 1.0
    """From the server to one device."""
    broadcast: float | None = None
    """From the server to all devices at once, used if cheaper; None if it is impossible."""
    d2d: float = 0.0
    """From a device to a neighbour."""

    def __post_init__(self) -> None:
        for field in fields(self):
            price = getattr(self, field.name)
            if price is not None and not price >= 0:
                raise SkerryError(f"{field.name} must be at least 0 (got {price}). Raise it.")


ONE_EACH = Prices()


def server_round_cost(
    primitive: str, n: npt.ArrayLike, K: npt.ArrayLike, prices: Prices = ONE_EACH
) -> Numbers:
    """Price of one server round with n devices, K of them sampled."""
    if primitive not in _PRIMITIVES:
        raise SkerryError(unknown("primitive", primitive, _PRIMITIVES))
    check_sampled(n, K)
    n, K = np.asarray(n, float), np.asarray(K, float)
    down = prices.downlink * (K if primitive == "s2s" else n)
    if prices.broadcast is not None:
        down = np.minimum(down, prices.broadcast)
    cost: Numbers = (prices.uplink * K + down)[()]
    return cost


def server_rounds(T: npt.ArrayLike, H: npt.ArrayLike, *, smooth: bool = False) -> Numbers:
    """Number of server rounds among 0..T-1, R = ceil(T/H); T/H if smooth, as in Figure 6."""
    count: Numbers = (np.asarray(T, float) / np.asarray(H, float))[()]
    return count if smooth else np.ceil(count)


def communication_cost(
    primitive: str, *, rounds: npt.ArrayLike, devices: npt.ArrayLike, sampled: npt.ArrayLike,
    period: npt.ArrayLike, edges: npt.ArrayLike = 0, prices: Prices = ONE_EACH,
    smooth: bool = False,
) -> Numbers:  # fmt: skip
    """Gamma: the price of all messages of a run. D2D uses every edge both ways in every round."""
    each = server_round_cost(primitive, devices, sampled, prices)
    server = each * server_rounds(rounds, period, smooth=smooth)
    if not prices.d2d:
        return server
    d2d: Numbers = (prices.d2d * 2 * np.asarray(edges, float) * np.asarray(rounds, float))[()]
    return server + d2d


def setting_cost(
    parameters: Parameters, primitive: str, rounds: npt.ArrayLike, prices: Prices, *, smooth: bool
) -> Numbers:
    """`communication_cost` of the server's messages, in the setting of a bound."""
    n, K, H = parameters.devices, parameters.sampled, parameters.period
    return communication_cost(
        primitive, rounds=rounds, devices=n, sampled=K, period=H, prices=prices, smooth=smooth
    )
