"""Processes that branch off one in which the slow imports are done: what runs in them shares nothing but that time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Reads (folder, label, code, arguments) as JSON on a line, and answers with JSON on a line. With arguments the command
# `rfp` is called with them, in place of the code.
_SERVER = """
import json, os, sys, traceback
{prelude}
replies = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    folder, label, code, arguments = json.loads(line)
    with open(os.path.join(folder, ".output"), "w") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.chdir(folder)
            status = 1
            try:
                if arguments is None:
                    sys.argv = [label]
                    exec(compile(code, label, "exec"), {{"__name__": "__main__", "__file__": label}})
                else:
                    sys.argv = ["rfp", *arguments]
                    from rfp.cli.main import main
                    main()
                status = 0
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
                if isinstance(stop.code, str):
                    print(stop.code, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    _, status, usage = os.wait4(child, 0)
    with open(os.path.join(folder, ".output"), errors="replace") as output:
        answer = {{"status": status, "seconds": usage.ru_utime + usage.ru_stime, "output": output.read()}}
    os.remove(os.path.join(folder, ".output"))
    print(json.dumps(answer), file=replies, flush=True)
"""


@dataclass(frozen=True)
class Answer:
    """How a branch ended: its status as ``wait4`` gives it (0 is success), its seconds of CPU time, what it printed."""

    status: int
    seconds: float
    output: str


class Branches:
    """Runs code and commands, one at a time.

    Args:
        prelude: Lines of Python that the process begins with: the imports.
        options: Options of the interpreter.
        environment: Its environment; this process's if not given.
    """

    def __init__(self, prelude: str, options: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, *options, "-c", _SERVER.format(prelude=prelude)]
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def run(self, folder: Path, label: str, code: str, arguments: list[str] | None = None) -> Answer:
        """Run code (or ``rfp`` with arguments) in a folder; the label stands for a file's name."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(folder), label, code, arguments]) + "\n")
        self.process.stdin.flush()
        return Answer(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self.process.communicate()
