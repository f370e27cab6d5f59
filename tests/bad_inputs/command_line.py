"""Arguments of commands other than settings."""

from bad_inputs.rows import Row, run

ROWS = [
    Row(
        "an unknown example",
        ("new", "three_island"),
        ("unknown example 'three_island'; did you mean 'three_islands'? Available: carry, ",),
    ),
    Row(
        "an example that would be overwritten",
        ("new", "vowels"),
        (
            "vowels.toml would be overwritten. Move it, or choose another folder: skerry new "
            "vowels --out vowels",
        ),
        {"vowels.toml": b"# mine"},
    ),
    Row(
        "file with a long name",
        ("run", f"{'n' * 3000}.toml"),
        ("(File name too long). Give an experiment file (TOML).",),
    ),
    Row(
        "folder with a long name", ("show", "n" * 3000), ("a path is too long (File name too long",)
    ),
    run(
        "comparison unknown",
        ["--compare", "s2s,s3s"],
        "unknown primitive 's3s'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
    ),
    run(
        "every comparison wrong",
        ["--compare", "s2b,s2s:0.5,blend:2,blend:x,nope:f"],
        "unknown primitive 's2b'; did you mean 's2s'? Available: blend, none, s2a, s2s.",
        "only blend takes a beta (got 's2s:0.5'). Example: blend:0.25",
        "a blend's beta lies from 0, which is s2s, to 1, which is s2a (got 'blend:2'). Example:",
        "a blend's beta lies from 0, which is s2s, to 1, which is s2a (got 'blend:x'). Example:",
        "primitive 'nope:f' cannot be imported (ModuleNotFoundError: No module named 'nope').",
    ),
    run(
        "device unknown",
        ["--device", "gpu"],
        "unknown device 'gpu'; did you mean 'cuda'? Available: auto, cpu, cuda",
    ),
    run(
        "device of torch",
        ["--device", "meta"],
        "unknown device 'meta'. Available: auto, cpu, cuda",
    ),
    run(
        "device not here",
        ["--device", "cuda:99"],
        "no device 'cuda:99': ",
    ),
    Row(
        "fetch unknown",
        ("data", "fetch", "minst"),
        (
            "unknown published data set 'minst'; did you mean 'mnist'? Available: cifar10, "
            "cifar100, fashion_mnist, mnist, speeches.",
        ),
    ),
    Row(
        "fetch from nowhere",
        ("data", "fetch", "mnist", "--path", "nope"),
        ("/nope. Give the folder or archive of mnist, or leave data.path empty to fetch it.",),
    ),
    Row(
        "devices of nothing",
        ("results", "d", "--devices"),
        ("no store at d. Give a folder that holds a skerry.sqlite.",),
    ),
    Row(
        "devices by a measure",
        ("results", "--devices", "--measure", "bias"),
        (
            "--devices shows final scores of single devices and does not use --measure. "
            "Leave one out.",
        ),
    ),
]
