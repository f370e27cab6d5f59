"""What ranks would hold, in a few lines."""

from typing import TYPE_CHECKING

from skerry.report import text

if TYPE_CHECKING:
    from skerry.runs.forecast import RankPlan


def tell(plan: "RankPlan") -> None:
    console = text.console()
    for line in _of_one_process(plan) if not plan.server_bytes else _of_ranks(plan):
        console.print(line, markup=False)


def _of_one_process(plan: "RankPlan") -> list[str]:
    return [f"{_runs(plan)}, in one process.", f"It takes about {_memory(plan)}."]


def _of_ranks(plan: "RankPlan") -> list[str]:
    fewest, most = min(plan.devices), max(plan.devices)
    held = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    islands = text.plural(max(plan.islands), "island")
    cut = f"{text.plural(plan.cut_islands, 'island')} cut" if plan.cut_islands else "no island cut"
    return [
        f"{_runs(plan)}, on {text.plural(len(plan.devices), 'rank')}.",
        f"A rank holds {held} devices on up to {islands}, with {cut}.",
        f"The largest takes about {_memory(plan)}.",
        f"In a server round a rank sends {_amount(plan.server_bytes)}; before each mixing it "
        f"receives {_amount(plan.border_bytes)} at most.",
    ]


def _runs(plan: "RankPlan") -> str:
    runs, lanes = text.plural(plan.runs, "run"), text.plural(plan.lanes, "lane")
    return f"{runs} of {sum(plan.devices):,} devices, up to {lanes} at once"


def _memory(plan: "RankPlan") -> str:
    need, free = text.size(plan.rank_bytes, "GB", 2), text.size(plan.free_bytes, "GB")
    return f"{need}; {free} are free here"


def _amount(count: int) -> str:
    return text.size(count) if count >= 10**6 else f"{count:,} bytes"
