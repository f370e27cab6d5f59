"""Write docs/reproduction/ from the studies kept in docs/reproduction/data: `make docs`."""

from pathlib import Path

from skerry.paper.reproduce import kept_studies
from skerry.report.paper import write_pages

FOLDER = Path(__file__).parent / "reproduction"

if __name__ == "__main__":
    write_pages(FOLDER, kept_studies(FOLDER / "data"))
