"""What ranks would hold, in a few lines."""

from typing import TYPE_CHECKING

from skerry.report import text

if TYPE_CHECKING:
    from skerry.runs.rank_plan import RankPlan


def tell(plan: "RankPlan") -> None:
    ranks, most = len(plan.devices), max(plan.devices)
    held = f"{most:,}" if min(plan.devices) == most else f"{min(plan.devices):,} to {most:,}"
    islands = max(plan.islands)
    need, free = text.size(plan.rank_bytes, "GB", 2), text.size(plan.free_bytes, "GB")
    cut = f"{text.plural(plan.cut_islands, 'island')} cut" if plan.cut_islands else "no island cut"
    lines = [
        f"{text.plural(plan.runs, 'run')} of {sum(plan.devices):,} devices, up to "
        f"{text.plural(plan.lanes, 'lane')} at once, on {text.plural(ranks, 'rank')}.",
        f"A rank holds {held} devices on up to {text.plural(islands, 'island')}, with {cut}.",
        f"The largest takes about {need}; {free} are free here.",
        f"In a server round a rank sends {_amount(plan.server_bytes)}; before each mixing it "
        f"receives {_amount(plan.border_bytes)} at most.",
    ]
    console = text.console()
    for line in lines:
        console.print(line, markup=False)


def _amount(count: int) -> str:
    return text.size(count) if count >= 10**6 else f"{count:,} bytes"
