"""`python -m skerry` is the command `skerry`."""

from skerry.cli import main

main()
