"""Mutated files of every format through the command: no traceback, no crash, no hang, no silent difference."""
