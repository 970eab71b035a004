"""Modules around the encoding: the encoder itself, learned operators, DSS layers, backbones, and the whole model."""

from rfp.nn.backbones import BACKBONES, Backbone, Edges
from rfp.nn.dss import DSS
from rfp.nn.encoder import RandomFeaturePropagation
from rfp.nn.hetero_encoder import HeteroRandomFeaturePropagation
from rfp.nn.learned_operator import LearnedMatrix, LearnedOperator
from rfp.nn.model import RFPModel
from rfp.nn.model_config import ModelConfig, RFPEncoding
from rfp.nn.molecules import CategoricalEncoder
from rfp.nn.readout import DeepSets, aggregate_trajectories, pool_nodes
from rfp.nn.trajectory_products import TrajectoryProducts

__all__ = [
    "BACKBONES",
    "DSS",
    "Backbone",
    "CategoricalEncoder",
    "DeepSets",
    "Edges",
    "HeteroRandomFeaturePropagation",
    "LearnedMatrix",
    "LearnedOperator",
    "ModelConfig",
    "RFPEncoding",
    "RFPModel",
    "RandomFeaturePropagation",
    "TrajectoryProducts",
    "aggregate_trajectories",
    "pool_nodes",
]
