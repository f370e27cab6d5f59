"""Write docs/reproduction/ from the studies kept in docs/reproduction/data: `make docs`."""

from pathlib import Path

from skerry_paper.pages import write_pages
from skerry_paper.study import kept_studies

FOLDER = Path(__file__).parent / "reproduction"

if __name__ == "__main__":
    write_pages(FOLDER, kept_studies(FOLDER / "data"))
