"""Where a study comes from, in one line."""

from collections.abc import Mapping
from typing import Any

from skerry.paper.plans import PLANS
from skerry.paper.study import Study
from skerry.report.words import duration, plural

PACKAGES = ("skerry", "torch")


def provenance(study: Study) -> str:
    """The command, profile, runs, seeds, device and versions; what is not known is left out."""
    about = study.about
    told = [
        f"`{about['command']}`" if about.get("command") else "",
        f"{about['profile']} profile" if about.get("profile") else "",
        _settings(about.get("settings") or ()),
        _runs(about.get("runs") or {"finished": len(study.runs)}),
        plural(study.runs["seed"].nunique(), "seed"),
        str(about.get("device") or ""),
        _precision(about),
        _versions(about.get("versions") or {}),
        f"in {duration(about['seconds'])}" if about.get("seconds") else "",
        str(about.get("note") or ""),
    ]
    return ", ".join(part for part in told if part)


def left_out(study: Study) -> str:
    """What its profile leaves out, in words."""
    plan = PLANS.get(study.name)
    return plan.left_out if plan and study.about.get("profile") == "quick" else ""


def _precision(about: Mapping[str, Any]) -> str:
    """It changes nothing on a CPU."""
    on_gpu = about.get("precision") and about.get("device") not in ("", None, "cpu")
    return f"{about['precision']} precision" if on_gpu else ""


def _settings(settings: Any) -> str:
    return "with " + " ".join(f"`{one}`" for one in settings) if settings else ""


def _runs(statuses: Mapping[str, int]) -> str:
    """`960 runs`, `958 runs and 2 diverged`."""
    others = [f"{count:,} {status}" for status, count in statuses.items() if status != "finished"]
    return " and ".join([plural(statuses.get("finished", 0), "run"), *others])


def _versions(versions: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
