"""Write the table of the advice study into docs/advise.md.

python studies/advice/page.py
"""

import json
import re
from pathlib import Path
from typing import Any

from fleets import HELD_OUT, STUDIED
from judge import ADVICE, RULES, counts

ROOT = Path(__file__).parents[2]
DATA = ROOT / "studies/advice/data/fleets.json"
PAGE = ROOT / "docs/advise.md"


def table(data: Any) -> list[str]:
    """The counts of every rule, on all fleets and on those that were never used before."""
    lines = [
        "| | right | right, luck of the best removed | at most 1.25 times the cheapest level cost "
        "| both | both, on fleets never used before |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in (*ADVICE, *RULES):
        every, held = (counts(data["rows"], name, part) for part in (STUDIED, HELD_OUT))
        cells = (every[key] for key in ("within", "within_corrected", "cheap", "both"))
        shown = " | ".join(f"{count} of {every['fleets']}" for count in cells)
        lines.append(f"| {name} | {shown} | {held['both']} of {held['fleets']} |")
    return lines


def text() -> str:
    """The section between the markers of docs/advise.md."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    seconds = [row["seconds"] for row in data["rows"]]
    clear = [row for row in data["rows"] if row["verdict"] == "clear"]
    right = sum(row["rules"][ADVICE[0]]["within_corrected"] for row in clear)
    parts = [
        "\n".join(table(data)),
        f"It says rightly whether no server is level in {data['summary']['none_said_rightly']} "
        f"fleets. Its 95 % intervals cover the truth in {data['summary']['intervals_cover']} "
        f"statements, with the truth's own error taken into account. It calls {len(clear)} answers "
        f"clear, of which {right} are right. With a limit of 120 s it took "
        f"{min(seconds):.0f} to {max(seconds):.0f} s.",
    ]
    return "\n\n".join(parts)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    marked = re.compile("(<!-- begin study -->\n).*?(<!-- end study -->)", re.DOTALL)
    page = marked.sub(lambda found: f"{found[1]}{text()}\n{found[2]}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
