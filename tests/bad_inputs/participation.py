"""Who is sampled, and who is awake."""

from bad_inputs.graphs import graph
from bad_inputs.rows import SMALL, Row, plugin, sets, settings


def trace(id: str, content: str, *told: str) -> Row:
    given = settings(*SMALL, "availability.awake=trace.csv")
    return Row(id, ("run", *given), told, {"trace.csv": content})


ROWS = [
    sets(
        "one_each of no multiple",
        "server.selection=one_each network.components=3 network.devices=30 server.sampled=10",
        'server.sampled must be a multiple of the number of islands for server.selection = "one_eac'
        'h" (got 10 for 3 islands). Change server.sampled, or use "per_component".',
    ),
    sets(
        "one_each of more than an island has",
        "server.selection=one_each network.components=[1,5,6] network.devices=12 server.sampled=12",
        'server.selection = "one_each" samples 4 devices of every island (got one of 1). Lower '
        'server.sampled to 3, or use "per_component".',
    ),
    graph(
        "one_each of a graph",
        "\n".join(["z z", *(f"a{i} b{i}\nb{i} c{i}\nc{i} d{i}" for i in range(99))]),
        'server.selection = "one_each" samples 2 devices of every island (got one of 1). Lower '
        'server.sampled to 100, or use "per_component".',
        also="server.selection=one_each server.sampled=200 data.inter=iid",
    ),
    plugin(
        "server.selection=strangers",
        "selection * names devices that are not in the fleet, 0 to 9 (got [10, 99]).",
    ),
    plugin(
        "server.selection=one_twice",
        "selection * must name each device once (got [0, 1, 1]). To count a device twice, "
        "double its weight.",
    ),
    plugin(
        "server.selection=table_of_devices",
        "selection * must give the numbers of the sampled devices, a list of whole numbers (got "
        "[[0, 1], [2, 3]]).",
    ),
    plugin(
        "server.selection=nothing",
        "selection * must give the numbers of the sampled devices, a list of whole numbers (got "
        "None).",
    ),
    plugin(
        "server.selection=a_weight_below_zero",
        "selection * must give weights of at least 0 (got -1). Give weights from 0 to 1 that sum",
    ),
    plugin(
        "server.selection=a_weight_that_is_none",
        "selection * must give weights of at least 0 (got nan).",
    ),
    plugin(
        "server.selection=weights_in_words",
        "selection * must give weights that are numbers (got ['a', 'b', 'c']).",
    ),
    plugin(
        "server.selection=fails_without_words",
        "selection * failed (UnspeakableError: its message cannot be read).",
    ),
    plugin(
        "server.selection=fails_in_colour",
        "selection * failed (ValueError: \\x1b[31mred\\x1b[0m).",
    ),
    plugin(
        "server.selection=weights_that_do_not_sum",
        "selection * must give a weight for each sampled device, which sum to 1 (got 3 weights for "
        "3 devices, sum 1.5).",
    ),
    plugin(
        "server.selection=a_weight_too_few",
        "selection * must give a weight for each sampled device, which sum to 1 (got 2 weights for "
        "3 devices, sum 1).",
    ),
    plugin("server.selection=raises", "selection * failed (ValueError: boom and a second line)."),
    sets(
        "one_each of fewer than islands",
        "network.components=5 server.selection=one_each",
        "server.sampled must be a multiple of the number of islands for server.selection = "
        '"one_each" (got 3 for 5 islands). Change server.sampled, or use "per_component".',
    ),
    trace(
        "trace without its header",
        "0,1,2\n",
        "the first line of trace.csv must read device,from,to (got '0,1,2'). Each further line "
        "gives the first round in which a device is awake, and the first in which it no longer is.",
    ),
    trace(
        "trace of a stranger",
        "device,from,to\nporch,0,1\n",
        "line 2 of trace.csv names the device 'porch', which is not in the fleet",
    ),
    trace(
        "trace of no rounds",
        "device,from,to\n0,dawn,dusk\n",
        "line 2 of trace.csv: from and to must be whole rounds (got 'dawn' and 'dusk').",
    ),
    sets(
        "no trace",
        "availability.awake=none.csv",
        "/none.csv. Check availability.awake.",
    ),
]
