"""Training: from a config to a result file."""

from rfp.train.results import Result, RunRecord, read_result, read_results
from rfp.train.run_config import RunConfig, TrainingConfig, read_config
from rfp.train.runs import run
from rfp.train.workspace import OutOfTime, Workspace

__all__ = [
    "OutOfTime",
    "Result",
    "RunConfig",
    "RunRecord",
    "TrainingConfig",
    "Workspace",
    "read_config",
    "read_result",
    "read_results",
    "run",
]
