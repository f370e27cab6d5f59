"""The section [clock]: the clock by which a run measures its seconds and joules."""

from typing import Annotated

from skerry.config.section import KeyedIfSet, Section


class ClockChoice(Section):
    """The clock of a run: how long steps and messages take on its devices, and their energy."""

    file: Annotated[str, KeyedIfSet()] = ""
    """A clock file (TOML; a relative path is as in data.path), or the name of an example such as
    wifi_home. The run then measures the group "clock": seconds and joules. Empty: none."""
