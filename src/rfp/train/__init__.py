"""Training: from a config to a result file."""

from rfp.train.config import RunConfig, TrainingConfig, read_config
from rfp.train.results import Result, RunRecord, read_result, read_results
from rfp.train.runs import Place, run

__all__ = [
    "Place",
    "Result",
    "RunConfig",
    "RunRecord",
    "TrainingConfig",
    "read_config",
    "read_result",
    "read_results",
    "run",
]
