"""Where a user's own `package.module:name` is found."""

import sys
from contextlib import suppress
from pathlib import Path


def find_plug_ins(file: Path | None = None) -> None:
    """Beside the experiment file and in the folder where one works: after all that is installed,
    or a `numpy.py` that happens to lie there would be run in the place of the library."""
    for place in [*([file.parent] if file is not None else []), Path()]:
        with suppress(OSError):  # a folder that is gone holds no plug-ins
            found = str(place.resolve())
            if found not in sys.path:
                sys.path.append(found)
