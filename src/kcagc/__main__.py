"""`python -m kcagc` is the command `kcagc`."""

from kcagc.cli.main import main

main()
