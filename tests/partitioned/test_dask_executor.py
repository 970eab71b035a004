"""Workers of a scheduler that is reached by its address, through the command; those that die: test_faults.py."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app
from rfp.errors import ArgumentError
from rfp.partitioned.block_tasks import draw_block
from rfp.partitioned.dask_executor import ClusterError, Dask, run_task
from rfp.partitioned.layout import StoredGraph
from rfp.partitioned.plan import Plan

SMALL = ["-k", "6", "-P", "2", "--memory", "300MB"]


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers, which are threads here and are reached over TCP."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def states(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted((folder / "states").rglob("*.npy"))}


def test_the_command_hands_its_tasks_to_a_scheduler(tmp_path: Path, scheduler: str) -> None:
    assert scheduler.startswith("tcp://127.0.0.1:")
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{i},{(i * i + 1) % 40}\n" for i in range(40)))
    for name, more in (("plain", []), ("cluster", ["--scheduler", scheduler])):
        done = CliRunner().invoke(app, ["encode", str(edges), *SMALL, *more, "-o", str(tmp_path / name)])
        assert done.exit_code == 0, (done.output, done.exception)
    assert "2 workers under Dask, dashboard at " in done.stderr
    assert "step 3 of 3 done in" in done.stderr
    assert states(tmp_path / "cluster") == states(tmp_path / "plain")


def test_a_scheduler_that_does_not_answer_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.partitioned.dask_executor._PATIENCE", 0.5)
    (tmp_path / "edges.csv").write_text("0,1\n")
    command = ["encode", str(tmp_path / "edges.csv"), *SMALL, "--scheduler", "tcp://127.0.0.1:1"]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "store")])
    assert isinstance(done.exception, ClusterError)
    assert str(done.exception).startswith("no scheduler with a worker answers at tcp://127.0.0.1:1 within 0.5 s")
    assert "dask scheduler; dask worker ADDRESS" in str(done.exception)
    assert (
        done.stderr == "rfp: by row blocks in files (as asked for)\nrfp: waiting for tcp://127.0.0.1:1 (up to 0.5 s)\n"
    )


@pytest.mark.parametrize("address", ["foo", "tcp://foo", "foo:port"])
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(ArgumentError, match=f"a scheduler has an address with a port, .* got '{address}'"):
        Dask(scheduler=address)


def test_a_scheduler_that_is_gone_is_one_clear_line_whatever_it_is_asked() -> None:
    import dask.config
    from distributed import LocalCluster

    plan = Plan("nowhere", StoredGraph(1, 0, 0, 0, False, True, (0, 1)), 1, 1, 1, "normal", 0, "float32", ())
    with (
        LocalCluster(n_workers=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None) as cluster,
        Dask(scheduler=cluster.scheduler_address) as workers,
    ):
        workers.client._timeout = 0.5  # seconds that it tries to come back, two minutes else
        cluster.close()
        # Short only now that nobody is there: a connection that is to be made takes as long as the machine needs.
        with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
            with pytest.raises(ClusterError, match=r"the scheduler at tcp://127\.0\.0\.1:\d+ is gone"):
                _ = workers.num_workers
            with pytest.raises(ClusterError, match="the same command goes on"):
                workers.map(draw_block, [(plan, "start", 0)], lambda: None)


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    graph = StoredGraph(1, 0, 0, 0, False, True, (0, 1))
    plan = Plan(str(tmp_path / "elsewhere"), graph, 1, 1, 1, "normal", 0, "float32", ())
    found = run_task(lambda plan: pytest.fail("it was run"), (plan,))
    assert isinstance(found, ClusterError)
    assert f"does not see {tmp_path / 'elsewhere'}; all workers need the folder under this name" in str(found)


@pytest.mark.slow
def test_a_script_that_its_workers_would_run_again_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from rfp.partitioned import Dask\nDask(1)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'work with Dask stands under if __name__ == "__main__":' in done.stderr
