"""Damage: what a disk, a copy or a bad cable did to records. It is told apart from what is only
out of reach, because the way out is another one."""

from skerry.errors import RecordsError


class DamagedError(RecordsError):
    """A run or a checkpoint that is there but is not what was written."""

    def __init__(self, message: str, *, reason: str):
        super().__init__(sayable(message))
        self.reason = sayable(reason)


def sayable(text: str) -> str:
    """Text as it can be printed: what was no text in a damaged file is shown as its bytes."""
    return text.encode("utf-8", "backslashreplace").decode()
