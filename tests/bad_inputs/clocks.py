"""Clocks: files with faults, and tables of devices."""

from dataclasses import replace

from bad_inputs.rows import Content, Row

UNITS = "Units are: us, µs, ms, s, min, h."


def clock(id: str, content: Content, *told: str) -> Row:
    return Row(f"clock: {id}", ("clock", "show", "c.toml"), told, {"c.toml": content})


def devices(id: str, table: Content, *told: str) -> Row:
    row = clock(id, 'devices = "d.csv"\n', *told)
    return replace(row, files={**row.files, "d.csv": table})


ROWS = [
    clock(
        "faults of all sorts",
        '[compute]\nseconds_per_step = -1\nspread = -0.1\nwatts = "a lot"\nslow = { porch = 0 }\n'
        '[d2d]\nbandwidth = 0\nlatency = "5 parsecs"\nchannel = "paralel"\n'
        '[uplink]\nbandwith = "3 MB/s"\n[uplnk]\nlatency = 1\n',
        "compute.seconds_per_step must be at least 0 (got -1).",
        "compute.spread must be at least 0 (got -0.1).",
        "compute.slow must have factors above 0 (got porch = 0). Use 1 for a usual device.",
        'compute.watts must be a number (got "a lot").',
        "d2d.bandwidth must be above 0 (got 0). Leave it out if it is no limit.",
        f"d2d.latency has the unknown unit 'parsecs'. {UNITS}",
        "d2d.channel must be one of 'parallel', 'one_by_one' or 'shared' (got \"paralel\").",
        "unknown field 'uplink.bandwith'; did you mean 'bandwidth'? [uplink] takes: bandwidth, "
        "latency, joules_per_byte.",
        "unknown field 'uplnk'; did you mean 'uplink'? A clock takes: devices, compute, d2d, "
        "uplink, downlink, server.",
    ),
    clock(
        "a unit in other letters",
        '[d2d]\nbandwidth = "20 Mb/s"\n[uplink]\nbandwidth = "3 MBps"\n',
        "d2d.bandwidth has the unknown unit 'Mb/s'; did you mean 'Mbit/s'? Units are: B/s,",
        "uplink.bandwidth has the unknown unit 'MBps'; did you mean 'MB/s'? Units are: B/s,",
    ),
    clock(
        "no duration",
        '[uplink]\nlatency = "soon"\n',
        "uplink.latency must be a duration such as '5 ms' (got 'soon').",
    ),
    clock(
        "not a number, infinite, true",
        "[uplink]\nlatency = nan\n[server]\nbandwidth_in = inf\n[downlink]\nbroadcast = true\n",
        "uplink.latency must be at least 0 (got nan).",
        "downlink.broadcast must be a bandwidth such as '20 MB/s' (got True).",
        "server.bandwidth_in must be above 0 (got inf). Leave it out if it is no limit.",
    ),
    clock(
        "a field outside of its section",
        'bandwidth = "3 MB/s"\n',
        "unknown field 'bandwidth'; did you mean 'd2d.bandwidth'?",
    ),
    clock("no section", "compute = 3\n", "compute must be a section (got 3)."),
    clock("not toml", "[compute\n", "c.toml is not valid TOML: Expected ']' at the end"),
    clock("not text", b"\xff\xfe", "c.toml is not UTF-8 text (at byte 0). Save it as UTF-8."),
    clock(
        "an experiment",
        "rounds = 3\n[network]\ndevices = 3\n",
        "c.toml is an experiment, not a clock. Make a clock: skerry clock new > clock.toml",
    ),
    clock(
        "a table of devices that is not there",
        'devices = "d.csv"\n',
        "/d.csv. Check devices.",
    ),
    Row(
        "clock: no such file",
        ("clock", "show", "my clock.toml"),
        ("no clock file my clock.toml. Make one: skerry clock new > 'my clock.toml'",),
    ),
    Row(
        "clock: no such example",
        ("clock", "show", "wifi_hom"),
        ("no clock 'wifi_hom'; did you mean 'wifi_home'? Examples are data_centre, wifi_home,",),
    ),
    Row("clock: a folder", ("clock", "show", "d"), ("no clock 'd'. Examples are",), {"d/x": ""}),
    Row(
        "clock: new example",
        ("clock", "new", "--example", "lte"),
        ("unknown clock 'lte'; did you mean 'lte_phone'? Available: data_centre, lora_sensor,",),
    ),
    Row(
        "clock: a factor of nothing",
        ("clock", "new", "--times", "3"),
        ("--times must be a factor above 0 on what --measured FILE measures (got 3 without",),
    ),
    Row(
        "clock: an example and a measurement",
        ("clock", "new", "--example", "lte_phone", "--measured", "mine.toml"),
        ("--example prints a file as it is, and --measured writes a new one (got both).",),
    ),
    Row(
        "clock: a negative factor",
        ("clock", "new", "--measured", "mine.toml", "--times", "-2"),
        ("--times must be a factor above 0 on what --measured FILE measures (got -2).",),
    ),
    Row(
        "clock: measured on no experiment",
        ("clock", "new", "--measured", "mine.toml"),
        ("no file mine.toml. Make one: skerry new > mine.toml",),
    ),
    devices("missing column", "device\n0\n", "at least one of seconds_per_step, uplink, downlink,"),
    devices(
        "unknown column",
        "device,upload\n0,1 MB/s\n",
        "d.csv has the unknown column 'upload'; did you mean 'uplink'? Columns are: device,",
    ),
    devices(
        "negative bandwidth",
        "uplink\n-1 MB/s\n",
        "d.csv: uplink must be above 0 (got '-1 MB/s'). Leave it out if it is no limit.",
    ),
    devices("no rows", "uplink\n", "d.csv must have a line of column names and a line for each"),
]
