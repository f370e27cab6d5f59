"""The screen of `skerry clock show`: a clock in words, and what a message costs on each link."""

from collections.abc import Iterator

from skerry.clock.devices import check_table
from skerry.clock.settings import D2D, Clock, Downlink, Uplink
from skerry.clock.units import write_joules, write_seconds
from skerry.config.measures import BYTES_PER_PARAMETER
from skerry.files import written
from skerry.report.text import plural

_CHANNELS = {
    "parallel": "a device sends to all neighbours at once",
    "one_by_one": "a device sends to one neighbour after the other",
    "shared": "all messages of an island go over one channel, one after the other",
}


def clock_lines(clock: Clock, parameters: int) -> Iterator[str]:
    """Sentences on steps, on a message of this number of parameters, and on the server."""
    size, told = BYTES_PER_PARAMETER * parameters, plural(parameters, "parameter")
    yield f"A message of {told} has {size:,} bytes ({BYTES_PER_PARAMETER} bytes each)."
    yield f"Local step: {_step(clock)}."
    if clock.devices:
        count = plural(check_table(clock.devices), "device")
        yield f"Single devices differ from this as {written(clock.devices)} says ({count})."
    d2d = clock.d2d
    yield (
        f"Between neighbours: {_message(d2d, size)} to send and as much energy to receive; "
        f"{_CHANNELS[d2d.channel]}."
    )
    yield f"To the server: {_message(clock.uplink, size)}."
    yield f"From the server, to one device: {_message(clock.downlink, size)}."
    down = clock.downlink
    if down.broadcast is None:
        yield "From the server, to all devices: a message for each (no broadcast)."
    else:
        took = write_seconds(down.latency + size / down.broadcast)
        yield f"From the server, to all devices: {took} for one broadcast."
    ports = (("receives", clock.server.bandwidth_in), ("sends", clock.server.bandwidth_out))
    for verb, bandwidth in ports:
        if bandwidth is None:
            yield f"The server {verb} any number of messages at once."
        else:
            yield f"The server {verb} 100 messages in {write_seconds(100 * size / bandwidth)}."


def _step(clock: Clock) -> str:
    compute = clock.compute
    told = [write_seconds(compute.seconds_per_step)]
    if compute.spread:
        told.append(f"devices differ by a log-normal factor (spread {compute.spread:g})")
    if compute.slow:
        slow = ", ".join(f"{name} {factor:g} times" for name, factor in compute.slow.items())
        told.append(f"slower: {slow}")
    if compute.jitter:
        told.append(f"rounds of a device differ (jitter {compute.jitter:g})")
    told.append(f"{compute.watts:g} W while computing, {compute.idle_watts:g} W otherwise")
    return "; ".join(told)


def _message(link: D2D | Uplink | Downlink, size: int) -> str:
    took = link.latency + (0.0 if link.bandwidth is None else size / link.bandwidth)
    without = " (no limit of bandwidth)" if link.bandwidth is None else ""
    return f"{write_seconds(took)}{without}, {write_joules(link.joules_per_byte * size)}"
