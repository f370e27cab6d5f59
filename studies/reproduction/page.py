"""Write docs/reproduction/ from the studies in studies/reproduction/data: `make docs`."""

from pathlib import Path

from skerry_paper.pages import write_pages
from skerry_paper.study import load_studies

DATA = Path(__file__).parent / "data"
FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"

if __name__ == "__main__":
    write_pages(FOLDER, load_studies(DATA), data="../../studies/reproduction/data")
