"""``python -m rfp`` is the command ``rfp``."""

from rfp.cli.main import main

main()
