"""Write the table of the advice study into docs/advise.md.

python studies/advice/page.py
"""

import json
import re
from pathlib import Path
from typing import Any

from fleets import HELD_OUT, STUDIED
from judge import ADVICE, RULES, counts
from procedures import markdown

ROOT = Path(__file__).parents[2]
DATA = ROOT / "studies/advice/data/fleets.json"
CONTROLS = ROOT / "studies/advice/data/controls.json"
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
    controls = json.loads(CONTROLS.read_text(encoding="utf-8"))
    seconds = [row["seconds"] for row in data["rows"]]
    clear = [row for row in data["rows"] if row["verdict"] == "clear"]
    right = sum(row["rules"][ADVICE[0]]["within_corrected"] for row in clear)
    seeds = sorted(row["seeds"] for row in data["rows"])
    parts = [
        "Twenty-four generated fleets (2 to 5 islands, 20 to 60 devices, five kinds of graphs, "
        "classification, regression and digits, linear models and networks; three goals, with and "
        "without budgets) were each given 2 minutes on two cores. Twelve of them were drawn after "
        "the procedure was finished. The truth is an exhaustive grid of 1,005 to 1,805 settings. "
        f"Of these, the best, the cheapest and all recommended ones were run on {seeds[0]} to "
        f"{seeds[-1]} further seeds. **Right** means within 0.2 points of accuracy, or 1 % of the "
        "loss, of the best setting that the budget allows. The best of so many settings is partly "
        "lucky, so the second column finds it on one half of the seeds and compares on the other. "
        "**Cheap** means at most 1.25 times the cost of the cheapest setting within half of that "
        "distance. Fixed rules take K = n/5 and H = 5, or the smallest H that the budget pays for, "
        "and the experiment's own stepsize. The older procedure tuned stepsizes first; it was "
        "asked about eight of the new fleets.",
        "\n".join(table(data)),
        "These rules use the experiment's own stepsize, so the table also shows what tuning it is "
        "worth. The next one does not: each procedure but the first has the same K and H as those "
        f"rules, and the best of seven stepsizes on {len(controls['tuning_seeds'])} seeds. All are "
        f"scored on {len(controls['scored_seeds'])} fresh seeds, beside the best setting of the "
        "grid. The rule of thumb: S2A for the average model, S2S for own labels where any data "
        "differ, and the blend of 0.5 for both. Beyond the second row, the search chooses K, H and "
        "whom to sample, and makes more runs ([What a pilot is "
        "worth](past-the-paper.md#4-what-a-pilot-is-worth)).",
        "\n".join(markdown()),
        f"It says rightly whether no server is level in {data['summary']['none_said_rightly']} "
        f"fleets. Its 95 % intervals cover the truth in {data['summary']['intervals_cover']} "
        f"statements, with the truth's own error taken into account. It calls {len(clear)} answers "
        f"clear, of which {right} are right. With a limit of 120 s it took "
        f"{min(seconds):.0f} to {max(seconds):.0f} s.",
        "```text\n$ python studies/advice/truth.py --device cuda --out truth\n"
        "$ python studies/advice/ask.py --minutes 2 --pairs 8 --out answers\n"
        "$ python studies/advice/refine.py --truth truth --answers answers,older --out refined\n"
        "$ python studies/advice/judge.py --refined refined --answers answers --older older\n"
        "$ python studies/advice/controls.py\n```",
    ]
    return "\n\n".join(parts)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    marked = re.compile("(<!-- begin study -->\n).*?(<!-- end study -->)", re.DOTALL)
    page = marked.sub(lambda found: f"{found[1]}{text()}\n{found[2]}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
