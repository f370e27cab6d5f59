"""One family of exceptions. A message says what is wrong, the rule, what was got, and the fix."""

from collections.abc import Iterable
from difflib import get_close_matches


class SkerryError(Exception):
    """Anything a user can put right. The command line prints it as one line and exits with 2."""


class ExperimentError(SkerryError):
    """An experiment that cannot be run; `faults` holds every reason, one line each."""

    def __init__(self, faults: Iterable[str]):
        self.faults = list(faults)
        super().__init__("\n".join(self.faults))


class NetworkError(SkerryError):
    """A graph or a mixing matrix that breaks the rules of D2D communication."""


class DataError(SkerryError):
    """A data set that is missing, damaged, or cannot be split as asked."""


class ModelError(SkerryError):
    """A model that cannot be trained as one of many in a stack."""


class RecordsError(SkerryError):
    """A store or checkpoint that cannot be read or written."""


def unknown(kind: str, got: str, available: Iterable[str]) -> str:
    """`unknown topology 'rign'; did you mean 'ring'? Available: complete, grid, ring.`"""
    names = sorted(available)
    close = get_close_matches(got, names, n=1, cutoff=0.5)
    hint = f" did you mean '{close[0]}'?" if close else ""
    return f"unknown {kind} '{got}';{hint} Available: {', '.join(names)}."
