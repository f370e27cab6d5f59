"""Tables and summary sentences of the advice study, for docs/advise.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""The results of one cell of the study."""


def summary(rows: Sequence[Row]) -> list[str]:
    """Sentences on how often the advice, and the theory, named the winner, by goal."""
    lines = []
    for goal in rows[0]["goals"]:
        told = [row["goals"][goal] for row in rows]
        decided = [g for g in told if abs(g["gap"]) > 2 * g["standard_error"]]
        level = [g for g in told if abs(g["gap"]) <= g["standard_error"]]
        right = sum(g["advice"]["primitive"] == g["winner"] for g in decided)
        unclear = sum(g["advice"]["verdict"] == "unclear" for g in level)
        lines.append(
            f"{goal}: the winner is named in {right} of the {len(decided)} cells whose gap exceeds "
            f"two standard errors ({right / max(1, len(decided)):.0%}); 'no clear winner' in "
            f"{unclear} of {len(level)} within one.{_with_blends(told)}{_whom(told)}"
        )
    known = [row for row in rows if row.get("theory")]
    if not known:
        return lines
    agree = sum(row["theory"] == row["goals"]["global"]["winner"] for row in known)
    lines.append(
        f"theory: the bounds prefer one of the two in {len(known)} of {len(rows)} cells, and it is "
        f"the measured winner of the average model in {agree} of them."
    )
    return lines


def _with_blends(told: Sequence[Row]) -> str:
    free = [goal["free"] for goal in told if "free" in goal]
    if not free:
        return ""
    good = sum(one["lead"] >= -one["standard_error"] for one in free)
    ahead = sum(one["lead"] > 2 * one["standard_error"] for one in free)
    return (
        " With blends among the candidates, the advice is at least as good as both (within one "
        f"standard error) in {good} of {len(free)}, and clearly better in {ahead}."
    )


def _whom(told: Sequence[Row]) -> str:
    found = [goal["selection"] for goal in told if "selection" in goal]
    if not found:
        return ""
    decided = [one for one in found if abs(one["gap"]) > 2 * one["standard_error"]]
    right = sum(one["advice"] == one["winner"] for one in decided)
    wrong = sum(one["advice"] != one["winner"] and one["verdict"] == "clear" for one in decided)
    return (
        f" The better rule of selection is named in {right} of the {len(decided)} cells where it "
        f"is better by two standard errors ({right / max(1, len(decided)):.0%}), and the other "
        f"one clearly in {wrong}."
    )


def table(rows: Sequence[Row]) -> list[str]:
    """The lines of a Markdown table with a row per cell."""
    blends = "free" in rows[0]["goals"]["global"]
    whom = "selection" in rows[0]["goals"]["global"]
    heads = ["across / within", "topology", "K/n", "H"]
    sides = ["---", "---", "---:", "---:"]
    for name in ("average model", "own labels"):
        heads += [f"{name}: S2A − S2S", "advice", *(["among all"] if blends else [])]
        sides += ["---:", "---", *(["---"] if blends else [])]
        heads += ["selection's gain", "advice"] if whom else []
        sides += ["---:", "---"] if whom else []
    lines = [f"| {' | '.join(part)} |" for part in (heads, sides)]
    for row in rows:
        cells = [f"{row['inter']} / {row['intra']}", row["topology"], row["share"], row["period"]]
        for found in row["goals"].values():
            advice = found["advice"]
            decided = abs(found["gap"]) > 2 * found["standard_error"]
            wrong = decided and advice["primitive"] != found["winner"]
            unclear = advice["verdict"] == "unclear"
            cells += [
                f"{found['gap']:+.2f} ± {found['standard_error']:.2f}",
                f"{advice['primitive']}{', unclear' if unclear else ''}{' ✗' if wrong else ''}",
            ]
            if free := found.get("free"):
                cells.append(f"{free['label']} ({free['lead']:+.2f})")
            if rule := found.get("selection"):
                decided = abs(rule["gap"]) > 2 * rule["standard_error"]
                wrong = decided and rule["advice"] != rule["winner"]
                unclear = ", unclear" if rule["verdict"] == "unclear" else ""
                cells += [
                    f"{rule['gap']:+.2f} ± {rule['standard_error']:.2f}",
                    f"{rule['advice']}{unclear}{' ✗' if wrong else ''}",
                ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def render(result: Row, page: Path) -> None:
    """Write the table between the markers of the page."""
    name = f"study {result.get('name', result['dataset'])}"
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, _, rest = text.partition(first)
    _, _, after = rest.partition(last)
    if not after:
        print(f"{page} has no markers {first} ... {last}, so the table is not written")
        return
    about = (
        f"`{result['dataset']}`, {result['devices']} devices on two islands; truth from "
        f"{result['truth_seeds']} seeds, advice from at most {result['pilot_seeds']} others."
    )
    if "command" in result:
        about += f" `{result['command']}`"
    points = [f"- {line}" for line in summary(result["rows"])]
    body = "\n".join([first, about, "", *points, "", *table(result["rows"]), last])
    page.write_text(before + body + after, encoding="utf-8")
