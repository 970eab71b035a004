"""The tasks under Dask (extra ``cluster``): processes of this machine, or a cluster that shares a file system.

Dask decides who works when, notices workers that die and gives their tasks to others. What is computed lies in files,
so a worker takes nothing with it; through the scheduler go the arguments and the k x k matrices that tasks return.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rfp.errors import ArgumentError, MissingExtraError, RFPError

# How often a task is tried again after an error that is not of our making: a stale handle of a network file system.
_RETRIES = 3
# Seconds to wait for a scheduler, and for its first worker.
_PATIENCE = 120

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class ClusterError(RFPError):
    """The cluster cannot go on: the scheduler is gone, or workers die whatever they do. What is finished is kept."""


class Dask:
    """Runs the tasks on the workers of ``dask.distributed``; closed at the end of a ``with`` block.

    Args:
        num_workers: Processes of a cluster on this machine; as many as it has cores by default.
        scheduler: Address of a running scheduler, ``"tcp://host:8786"``, instead. Its workers need this package and
            the folder of the encoding under the same name.
        say: Gets a line before a scheduler is waited for, and the address of the dashboard.

    Example:
        >>> import networkx, tempfile
        >>> from rfp.partitioned import Dask, encode
        >>> with Dask(2) as workers, tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     done = encode(networkx.path_graph(9), folder, num_channels=2, num_steps=1, executor=workers)
        ...     done.complete
        True
    """

    def __init__(
        self,
        num_workers: int | None = None,
        *,
        scheduler: str | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        try:
            import distributed
        except ImportError as error:
            raise MissingExtraError("dask.distributed", "cluster", "work by several processes") from error
        self._cluster: Any = None
        # Distributed would look for such an address for minutes.
        if scheduler is not None and not re.fullmatch(r"inproc://.+|(\w+://)?.+:\d+", scheduler):
            raise ArgumentError(f"a scheduler has an address with a port, such as tcp://node:8786, got {scheduler!r}")
        if scheduler is None:
            try:
                self._cluster = _local_cluster(num_workers or os.cpu_count() or 1)
            except RuntimeError as error:  # Dask's own words are that a nanny failed to start
                raise ClusterError(
                    f"no worker could be started ({error}). Workers import the script that starts them: in a script, "
                    'work with Dask stands under if __name__ == "__main__":'
                ) from error
        if scheduler is not None:
            say(f"waiting for {scheduler} (up to {_PATIENCE} s)")
        try:
            self.client = distributed.Client(self._cluster or scheduler, timeout=_PATIENCE, set_as_default=False)
            self.client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, TimeoutError, ValueError) as error:
            self.close()
            raise ClusterError(
                f"no scheduler with a worker answers at {scheduler or 'this machine'} within {_PATIENCE} s ({error}); "
                "start them with: dask scheduler; dask worker ADDRESS"
            ) from error
        self._address = self.client.scheduler.address
        say(f"{self.num_workers} workers under Dask, dashboard at {self.client.dashboard_link}")

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the scheduler; ends the processes that were started here."""
        for one in (getattr(self, "client", None), self._cluster):
            if one is not None:
                with suppress(OSError):  # of a scheduler that is gone already
                    one.close()

    @property
    def num_workers(self) -> int:
        """How many tasks run at a time, now: workers come and go.

        Raises:
            ClusterError: The scheduler is gone.
        """
        with self._asked():
            return max(1, sum(int(threads) for threads in self.client.nthreads().values()))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Ask the scheduler something; that it does not answer is said in our words."""
        from concurrent.futures import CancelledError

        try:
            yield
        # Dask says it in many ways: a closed connection, none in time, a client that has given up.
        except (OSError, CancelledError, RuntimeError, ValueError) as error:
            raise self._gone() from error

    def _gone(self) -> ClusterError:
        return ClusterError(
            f"the scheduler at {self._address} is gone. Finished steps are kept: start it again, and the same command "
            "goes on"
        )

    def map(
        self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], tick: Callable[[], None]
    ) -> list[Any]:
        """The results in the order of the arguments. After an error the tasks under way are waited for.

        Raises:
            RFPError: What a task raised.
            ClusterError: The scheduler is gone, or a task killed several workers.
        """
        from distributed import as_completed

        with self._asked():
            # A task may have to be run twice, and files are not among its arguments: nothing may be taken for known.
            futures = self.client.map(
                run_task, [task] * len(arguments), arguments, pure=False, retries=_RETRIES, batch_size=1000
            )
        if self.client.status in ("closing", "closed"):  # it gave the scheduler up before: nobody would answer
            raise self._gone()
        try:
            for future in as_completed(futures, loop=self.client.loop):
                if future.status == "finished":
                    tick()
            results = [self._result(future) for future in futures]
        except BaseException:
            with suppress(ClusterError), self._asked():  # of two errors the first is the one to tell
                self.client.cancel(futures, force=True)
            raise
        for result in results:
            if isinstance(result, RFPError):
                raise result
        return results

    def _result(self, future: Any) -> Any:
        from concurrent.futures import CancelledError

        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            return future.result(timeout=_PATIENCE)
        except KilledWorker as error:
            raise ClusterError(
                "several workers died over one task; are they short of memory? Allow less with --memory, or use fewer "
                "workers. Finished steps are kept: the same command goes on"
            ) from error
        except (CancelledError, CommClosedError, TimeoutError) as error:
            raise self._gone() from error


def _local_cluster(num_workers: int) -> Any:
    """Workers on this machine, forked from one process that has loaded what they need.

    PyTorch takes seconds to load, which each worker would spend anew: two of them as much as several steps of a graph
    of ten million edges (:mod:`rfp.partitioned.worker_start`).
    """
    import dask.config
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        # Dask also sets MALLOC_TRIM_THRESHOLD_, after which the C library maps and clears every larger array anew:
        # twice the time of a step. Blocks are given back by tasks that need the room.
        "distributed.nanny.pre-spawn-environ": dict.fromkeys(_ONE_THREAD, "1"),
        # Dask looks at every process a hundred times a second to say where its time goes: a tenth of a core for two
        # workers and the scheduler that do nothing.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "2s",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(["rfp.partitioned.worker_start"])
        # Dask would stop workers by their memory; here the size of the blocks keeps them within theirs.
        return LocalCluster(
            n_workers=num_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        )


def run_task(task: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Run a task on a worker; an error of ours is a result, for it would come again."""
    folder = Path(arguments[0].folder)
    if not folder.is_dir():
        import socket

        return ClusterError(
            f"a worker on {socket.gethostname()} does not see {folder}; all workers need the folder under this name"
        )
    try:
        return task(*arguments)
    except RFPError as error:
        return error
