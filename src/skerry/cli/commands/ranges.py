"""Options that take a number, a range or a list: 20, 1:50, 1:50:5, 0.1,0.5,1."""

from collections.abc import Iterator

from skerry.errors import SkerryError

POINTS = 10
MOST = 10_000


def numbers(option: str, text: str, *, whole: bool) -> list[float]:
    """The numbers that an option names. Ranges include their end; without a step, whole numbers
    go one by one and others in ten points."""
    try:
        found = [number for part in text.split(",") for number in _part(part, whole)]
    except ValueError:
        raise SkerryError(
            f"--{option} must be a {'whole ' if whole else ''}number, a range such as 1:50 or "
            f"1:50:5, or a list such as 5,10,20 (got '{text}'). Write it like one of these."
        ) from None
    if len(found) > MOST:
        raise SkerryError(
            f"--{option} must name at most {MOST:,} numbers (got {len(found):,}). "
            "Take larger steps."
        )
    return found


def _part(text: str, whole: bool) -> Iterator[float]:
    read = int if whole else float
    ends = [read(number) for number in text.split(":")]
    if len(ends) == 1:
        yield ends[0]
        return
    first, last, *step = ends
    if len(step) > 1 or last < first or (step and step[0] <= 0):
        raise ValueError
    each = step[0] if step else 1 if whole else (last - first) / (POINTS - 1)
    count = int((last - first) / each + 1e-9) + 1 if each else 1
    if count > MOST:
        raise SkerryError(
            f"a range must have at most {MOST:,} numbers (got {count:,} in {text}). "
            "Take larger steps."
        )
    # Rounded: 0.1 + 2 * 0.1 should read 0.3.
    yield from (read(round(first + i * each, 12)) for i in range(count))
