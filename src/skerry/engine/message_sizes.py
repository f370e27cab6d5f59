"""The bytes of one message over each kind of link: to the server, from it, between devices."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skerry.config.measures import BYTES_PER_PARAMETER as BYTES_PER_PARAMETER
from skerry.config.measures import LINKS as LINKS

if TYPE_CHECKING:
    from skerry.engine.stack import Stack

UP, DOWN, D2D = range(3)


def bytes_per_message(stack: "Stack") -> NDArray[np.int64]:
    """The bytes of one message of every lane over each kind of link, [L, links]."""
    parameters = stack.world.shared_parameters
    sizes = np.full((len(stack), len(LINKS)), BYTES_PER_PARAMETER * parameters)
    for mixing in stack.mixing:
        if mixing.compression is not None:
            sizes[mixing.lanes, D2D] = mixing.compression.compression.bytes(parameters)
    for server in stack.servers:
        if server.compression is not None:
            for link, way in ((UP, server.compression.up), (DOWN, server.compression.down)):
                if way is not None:
                    sizes[server.lanes, link] = way.bytes(parameters)
    return sizes
