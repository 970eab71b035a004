"""RFP in GraphGym: the registered node encoder, a config, GraphGym's own training.

Importing ``rfp.integrations.graphgym`` registers the node encoder ``RFP`` and the config group ``posenc_RFP``; the rest
is GraphGym. Needs the extras ``graphgym`` and ``train`` (Lightning). Some seconds.
"""

import logging
import warnings
from argparse import Namespace
from pathlib import Path

import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.graphgym.config import cfg, load_cfg, set_cfg
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.graphgym.register import register_loader
from torch_geometric.graphgym.train import GraphGymDataModule, train

import rfp.integrations.graphgym  # noqa: F401 - registers


@register_loader("karate")
def karate(format: str, name: str, dataset_dir: str) -> KarateClub | None:
    """Zachary's club with a split; its nodes have no features but a constant."""
    if format != "karate":
        return None
    dataset = KarateClub()
    data = dataset._data
    shuffled = torch.randperm(34, generator=torch.Generator().manual_seed(0))
    for mask, nodes in (("train_mask", shuffled[:20]), ("val_mask", shuffled[20:27]), ("test_mask", shuffled[27:])):
        data[mask] = torch.zeros(34, dtype=torch.bool).index_fill(0, nodes, True)
    data.x = torch.ones(34, 1)
    return dataset


warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
set_cfg(cfg)  # with the registered group
config = Path(__file__).parent / "configs" / "graphgym_karate.yaml"
load_cfg(cfg, Namespace(cfg_file=str(config), opts=[]))
torch.manual_seed(0)
datamodule = GraphGymDataModule()
model = create_model()
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
train(model, datamodule, logger=False, trainer_config=quiet)

data = next(iter(datamodule.test_dataloader()))
data.split = "test"
model.eval()
predicted, true = model(data)
print(f"classes found on the test nodes: {(predicted.argmax(1) == true).double().mean():.0%} of {len(true)}")
