"""The pages of the reproduction: a summary with all verdicts, then every table and figure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skerry.errors import skerry_command
from skerry.files import replace_file
from skerry.report.style import save_figure
from skerry.report.text import Sheet, duration, plural
from skerry_paper.compute import DATA
from skerry_paper.plans import PLANS, PlanSlice, count_plan_runs
from skerry_paper.study import Studies, StudyData
from skerry_paper.summary import detail_parts, summary_parts
from skerry_paper.targets import TARGETS, Target
from skerry_paper.views import view_of
from skerry_paper.views.formatting import regime_name
from skerry_paper.views.view import View

PICTURES = "pictures"
DPI = 110
"""Resolution of the figures: readable, and small enough for a repository."""
FEW = 5
"""Up to this many diverged runs are listed one by one."""


class Page(NamedTuple):
    """A page and the targets that it shows."""

    file: str
    title: str
    about: str
    targets: tuple[str, ...]


PAGES = (
    Page(
        "tables.md",
        "Tables 1 to 6",
        "Every printed number beside ours.",
        tuple(name for name in TARGETS if name.startswith("table")),
    ),
    Page(
        "figures.md",
        "Figures 1 to 14",
        "Our versions of the paper's figures, with the statements of its text about them.",
        tuple(name for name in TARGETS if name.startswith("fig")),
    ),
    Page(
        "protocol.md",
        "What was scored",
        "The winner depends on what is scored, which the paper does not say (only when).",
        ("conventions", "protocol"),
    ),
    Page(
        "blend.md",
        "Blends between S2S and S2A",
        "A study that the paper does not have: devices that were not sampled move by a fraction β "
        "towards the average.",
        ("blend",),
    ),
    Page(
        "checks.md",
        "What the tables depend on",
        "Studies that the paper does not have: when devices are scored, stepsizes beyond the "
        "paper's range, drops in server rounds, rounding and the size of the network.",
        ("timing", "stepsizes", "drops", "variants"),
    ),
    Page(
        "guidelines.md",
        "The paper's guidelines as a rule",
        "How often the advice of its conclusion is right, and how much accuracy it loses.",
        ("guidelines",),
    ),
)

INTRODUCTION = """\
Each table and figure of the paper, run again. Everything on these pages is computed from the
studies in [data]({data}) alone, small files with a row per run, without running anything.
"""
NOT_TO_BE_HAD = """\
- Figure 13 (CIFAR-100): the archive of the images was not to be had where these runs were made, nor
  a package that contains them; the command is ready ([Figure 13](figures.md#fig13)).
"""
NOTES = """\
## What the paper leaves open

The paper does not say which model is scored (the average model or the devices) and on which test
data, how inputs are scaled, the shape of the grid topology, how FedAvgM works under S2S and S2A,
and by which score the stepsize is tuned. It does state when the maps are scored, and so the tables
that repeat them: after T = 100 rounds. So every gap is shown for devices on labels like their own
and for the average model on all labels, at the final round and as a mean over the last 20. A
[separate page](protocol.md) compares all other ways of scoring.

## Where the paper's numbers contradict each other

- Table 1 was averaged over 15 cells (three zeros for K/n = 1), not over the 12 of its caption.
- Table 2 counts 7/5/0 for CIFAR-10, intra and inter non-IID; its cells are 6/5/1.
- The same configuration (K/n = 0.2, H = 5) has different values in the tables along K/n and along
  H, such as +0.01 and +0.46 for CIFAR-10 on the complete graph, intra non-IID, inter IID.
- The percentages in the text are larger than in its tables: S2A "in over 95 %" of the cells along H
  where all data are IID is 83.3 %, S2S "in over 90 %" along H where islands differ is 83.3 %.
- According to the text, the largest gap on MNIST along H, where islands differ, is +2 points at
  H = 5; the largest gap of Table 5 is +3.00, at H = 10, and at H = 5 it is +2.35.
- The descent and disagreement lemmas are stated under "Assumptions 1-6"; the paper has five.
- The proof for S2S uses 1 - δ (1 - γ)^H ≥ 1 - γ, which is false for slow mixing (0.20 against 0.997
  at K/n = 0.2, H = 5, ring); the next line needs 1 - δ, which is probably meant.
- The proof of Lemma 4 splits the movement of the average into the same term twice: the second term
  should end at t, not at t + 1.
- The CNN described for CIFAR-10 has 3,353,034 parameters, not 1.1 million; it is run as described.
- Where ζ intra is high and ζ inter low, the text says that S2S leads below K/n = 0.2; the bounds
  give S2A a slight lead ([Figure 1](figures.md#fig1)). The text about [Figure 6](figures.md#fig6)
  fits a different ε than its caption.
"""

COMMAND = skerry_command("reproduce", "all", "protocol", "blend", profile="full")


def write_pages(
    folder: Path, studies: Studies, command: str = COMMAND, data: str = DATA
) -> list[Path]:
    """Write README.md, the other pages and all figures; return the paths that were written.

    `command` is the command that makes the studies, `data` the folder of their files, relative to
    `folder`."""
    views = {name: view_of(target, studies) for name, target in TARGETS.items()}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in page_texts(views, studies, command, data).items():
        replace_file(folder / name, text.encode())
        written.append(folder / name)
    for one in views.values():
        for name, figure in one.figures.items():
            written.append(save_figure(figure, folder / PICTURES / f"{name}.png", DPI))
    return written


def page_texts(
    views: Mapping[str, View], studies: Studies, command: str = COMMAND, data: str = DATA
) -> dict[str, str]:
    """The Markdown of every page, by file name."""
    pages = {page.file: _page(page, views, studies, data) for page in PAGES}
    return {"README.md": _summary(views, studies, command, data), **pages}


def _summary(views: Mapping[str, View], studies: Studies, command: str, data: str) -> str:
    scored = _scored(studies)
    parts = [
        "# The paper, reproduced",
        INTRODUCTION.format(data=data).rstrip(),
        "## Do the printed tables come out again?",
        *(_markdown(part) for part in summary_parts(scored, views, studies)),
        "## Every table and figure",
        _targets_sheet(views),
        *_missing(studies),
        NOTES.rstrip(),
        "## How it was made",
        f"```text\n$ {command}\n```",
        _sources(studies.values(), data),
    ]
    return "\n\n".join(parts) + "\n"


def _scored(studies: Studies) -> dict[str, StudyData]:
    """The studies with the cells of the printed tables."""
    return {name: studies[name] for name in TARGETS["protocol"].studies if name in studies}


def _missing(studies: Studies) -> Iterator[str]:
    """A section on planned runs that these studies do not have, and on diverged runs."""
    needed: dict[str, list[PlanSlice]] = {}
    for need in (need for target in TARGETS.values() for need in target.needs):
        needed.setdefault(need.study, []).append(need)
    lines = []
    for name, needs in needed.items():
        count = len(studies[name].runs) if name in studies else 0
        planned = count_plan_runs(needs, "full")
        if name == "cifar100" and not count:
            lines.append(NOT_TO_BE_HAD.rstrip())
        elif count < planned:
            lines.append(f"- {name} ({PLANS[name].about}): {count:,} of {planned:,} runs.")
        lines += _diverged(studies[name]) if name in studies else []
    if lines:
        yield "## Missing runs"
        yield "\n".join(lines)


def _diverged(study: StudyData) -> list[str]:
    """A list item per diverged run, or one for all if there are many."""
    runs = study.diverged
    if len(runs) > FEW:
        counts = (f"{str(n).upper()} {k:,}" for n, k in runs["primitive"].value_counts().items())
        sizes = ", ".join(f"{size:g}" for size in sorted(runs["stepsize"].unique()))
        return [
            f"- {study.name}: {len(runs):,} of {len(study.runs):,} runs diverged "
            f"({', '.join(counts)}), at stepsize {sizes}."
        ]
    return [
        f"- {study.name}: {one['primitive'].upper()} diverged on the {one['topology']}, "
        f"{regime_name(one['intra'], one['inter'])}, K/n = {one['share']:g}, H = {one['period']}, "
        f"{'' if one['optimizer'] == 'fedavg' else one['optimizer'] + ', '}"
        f"stepsize {one['stepsize']:g}, seed {one['seed']}."
        for one in runs.to_dict("records")
    ]


def _markdown(part: str | Sheet) -> str:
    return part.to_markdown().rstrip() if isinstance(part, Sheet) else part


def _targets_sheet(views: Mapping[str, View]) -> str:
    rows = tuple(
        (f"[`{name}`]({page.file}#{name})", views[name].target.title, views[name].verdict)
        for page in PAGES
        for name in page.targets
    )
    table = Sheet("", ("", "what", "verdict"), rows, "lll").to_markdown()
    return table.partition("\n\n")[2].rstrip()


def _page(page: Page, views: Mapping[str, View], studies: Studies, data: str) -> str:
    parts = [f"# {page.title}", f"{page.about} [All verdicts](README.md)."]
    for name in page.targets:
        parts.append(f'<a id="{name}"></a>')
        parts.append(views[name].to_markdown(2, folder=f"{PICTURES}/").rstrip())
    if "protocol" in page.targets:
        parts += [_markdown(part) for part in detail_parts(_scored(studies), studies)]
    used = _used((TARGETS[name] for name in page.targets), studies)
    parts += ["## Runs", _sources(used, data)] if used else []
    return "\n\n".join(parts) + "\n"


def _used(targets: Iterable[Target], studies: Studies) -> Sequence[StudyData]:
    names = dict.fromkeys(name for target in targets for name in target.studies)
    return [studies[name] for name in names if name in studies]


def _sources(studies: Iterable[StudyData], data: str) -> str:
    every = list(studies)
    lines = []
    for one in every:
        others = [other.name for other in every if other is not one and _same_command(one, other)]
        text = f"{provenance(one)}{f' with {_list(others)}' if others else ''}. {_omissions(one)}"
        lines.append(f"- [{one.name}]({data}/{one.name}.json): {text}".rstrip())
    return "\n".join(lines) or "There are no studies."


def _same_command(one: StudyData, other: StudyData) -> bool:
    """Whether one command made both studies; its time is that of both."""
    made = ("command", "seconds")
    return bool(one.about.get("seconds")) and all(
        one.about.get(name) == other.about.get(name) for name in made
    )


def _list(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


PACKAGES = ("skerry", "torch")


def provenance(study: StudyData) -> str:
    """The command, profile, runs, seeds, device and versions of a study, as far as known."""
    about = study.about
    parts = [
        f"`{about['command']}`" if about.get("command") else "",
        f"{about['profile']} profile" if about.get("profile") else "",
        _settings(about.get("settings") or ()),
        _runs(about.get("runs") or {"finished": len(study.runs)}),
        plural(study.runs["seed"].nunique(), "seed"),
        str(about.get("device") or ""),
        _precision(about),
        _versions(about.get("versions") or {}),
        str(about.get("note") or ""),
        f"in {duration(about['seconds'])}" if about.get("seconds") else "",
    ]
    return ", ".join(part for part in parts if part)


def _omissions(study: StudyData) -> str:
    """A sentence on what the quick profile omits."""
    plan = PLANS.get(study.name)
    return plan.omissions if plan and study.about.get("profile") == "quick" else ""


def _precision(about: Mapping[str, Any]) -> str:
    """The precision on a GPU; on a CPU it has no effect."""
    on_gpu = about.get("precision") and about.get("device") not in ("", None, "cpu")
    return f"{about['precision']} precision" if on_gpu else ""


def _settings(settings: Any) -> str:
    return "with " + " ".join(f"`{one}`" for one in settings) if settings else ""


def _runs(statuses: Mapping[str, int]) -> str:
    """Counts of runs by status, such as `958 runs and 2 diverged`."""
    others = [f"{count:,} {status}" for status, count in statuses.items() if status != "finished"]
    return " and ".join([plural(statuses.get("finished", 0), "run"), *others])


def _versions(versions: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
