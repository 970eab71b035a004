"""A user's LightningModule with the encoder, trained by one process and by two; what came out, as JSON files."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

import lightning
import torch
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool

from rfp.nn import RandomFeaturePropagation


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = RandomFeaturePropagation(3, num_steps=2, num_trajectories=2, backend="sparse")
        self.head = torch.nn.Linear(9, 1)

    def training_step(self, batch: Data, index: int) -> torch.Tensor:
        of_nodes = self.head(self.encoder(batch)).tanh().mean(0)
        loss: torch.Tensor = (global_add_pool(of_nodes, batch.batch)[:, 0] - batch.y).square().mean()
        return loss

    def train_dataloader(self) -> DataLoader:
        graphs, processes = [ring(4 + i) for i in range(8)], self.trainer.world_size
        # In order, so that the processes' batches of a step are together the batch of the one.
        sampler = DistributedSampler(graphs, processes, self.global_rank, shuffle=False)
        return DataLoader(graphs, batch_size=4 // processes, sampler=sampler)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_end(self) -> None:
        # A process that is not the first has no other way to tell.
        found = {"weight": self.head.weight.flatten().tolist(), "draws": self.encoder.num_draws}
        name = f"of{self.trainer.world_size}-{self.global_rank}.json"
        Path(sys.argv[1], name).write_text(json.dumps(found))


def ring(n: int) -> Data:
    i = torch.arange(n)
    edges = torch.stack([i, (i + 1) % n])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=n, y=torch.tensor([float(n)]))


def train(processes: int) -> None:
    torch.manual_seed(0)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp_fork" if processes > 1 else "auto",  # gloo; forked, so that nothing is imported twice
        use_distributed_sampler=False,
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    train(1)
    train(2)
