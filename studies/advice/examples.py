"""Write the example outputs of docs/advise.md and docs/four-sites.md, each from the real command.

    python studies/advice/examples.py [states] [power] [islands] [seconds]

The files of both pages (script, experiments and clock) are taken from the pages themselves. Every
command has its two minutes, on one thread (OMP_NUM_THREADS=1): leave that core alone meanwhile. The
output replaces what lies between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
SITES, ADVICE = ROOT / "docs" / "four-sites.md", ROOT / "docs" / "advise.md"
COMMANDS = {
    "states": (SITES, "skerry advise sites.toml --budget-uploads 200 --minutes 2 --out advice"),
    "power": (SITES, "skerry advise power.toml --budget-uploads 200 --minutes 2 --out power-out"),
    "islands": (ADVICE, "skerry advise experiments/three_islands.toml --minutes 2"),
    "seconds": (ADVICE, "skerry advise experiments/three_islands.toml --clock cottage.toml "
                "--goal '90% soonest' --minutes 2"),
}  # fmt: skip
WIDTH = 116


def make_sites(folder: Path) -> None:
    """Write the files of the pages and run the script."""
    for page in (SITES, ADVICE):
        for name, text in re.findall(
            r"^```\w+[^\n]*\n# (\w+\.\w+)\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            re.MULTILINE | re.DOTALL,
        ):
            (folder / name).write_text(text, encoding="utf-8")
    (folder / "experiments").symlink_to(ROOT / "experiments")
    subprocess.run([sys.executable, "make_sites.py"], cwd=folder, check=True)


def output_of(command: str, folder: Path) -> str:
    """What a command prints, wrapped, after a line with the command and its seconds."""
    began = time.monotonic()
    words = [sys.executable, "-m", *shlex.split(command)]
    one = os.environ | {"OMP_NUM_THREADS": "1"}  # small models gain little from more
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True, env=one)
    seconds = time.monotonic() - began
    lines = []
    for line in done.stdout.splitlines():
        keep = line.startswith(" ") or len(line) <= WIDTH  # rows of a table stay whole
        wrapped = textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        lines += [line.rstrip()] if keep else wrapped
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    return f"It took {seconds:.0f} seconds and printed:\n\n```text\n$ {command}\n{text}\n```"


def main() -> None:
    with TemporaryDirectory() as folder:
        make_sites(Path(folder))
        for name in sys.argv[1:] or COMMANDS:
            page, command = COMMANDS[name]
            shown = output_of(command, Path(folder))
            marks = f"<!-- begin {name} -->", f"<!-- end {name} -->"
            before, _, rest = page.read_text(encoding="utf-8").partition(marks[0])
            after = rest.partition(marks[1])[2]
            text = f"{before}{marks[0]}\n{shown}\n{marks[1]}{after}"
            page.write_text(text, encoding="utf-8")
            print(f"{name}: {shown.splitlines()[0]}")


if __name__ == "__main__":
    main()
