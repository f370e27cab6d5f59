"""`python -m skerry_paper` is the command `skerry reproduce`, also where nothing is installed."""

import typer

from skerry_paper.command import reproduce

if __name__ == "__main__":
    typer.run(reproduce)
