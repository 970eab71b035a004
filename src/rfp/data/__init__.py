"""Data sets: where they come from and how they are read."""

from rfp.data.collection import GraphCollection
from rfp.data.counting_generator import CountingData
from rfp.data.data_config import DataConfig
from rfp.data.datasets import DATASETS, DatasetSpec, load
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import Task

__all__ = ["DATASETS", "CountingData", "DataConfig", "DatasetSpec", "GraphCollection", "LoadedTask", "Task", "load"]
