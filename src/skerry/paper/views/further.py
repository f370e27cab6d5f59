"""Studies of our own that have no view yet: what is there."""

from collections.abc import Mapping

from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.paper.views.view import View


def counted(target: Target, studies: Mapping[str, Study]) -> View:
    told = ", ".join(f"{name}: {len(study.runs):,} runs" for name, study in studies.items())
    return View(target, told)
