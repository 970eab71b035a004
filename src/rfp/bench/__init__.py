"""Measurements: named cases, peers in the same run, correctness before speed. The command is ``rfp bench``."""
