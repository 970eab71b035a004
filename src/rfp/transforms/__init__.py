"""PyG transforms for the encoding and for every baseline, one class each. They hold arguments and call the library."""

from rfp.transforms.baselines import (
    AddEigenvectorPE,
    AddNodeFeaturePropagationPE,
    AddPowerEmbedPE,
    AddRandomNodeFeatures,
    AddRandomWalkReturnPE,
    AddSGCFeatures,
    AddSIGNFeatures,
    AddSubstructureCounts,
)
from rfp.transforms.estimated_random_walk import AddEstimatedRandomWalkPE
from rfp.transforms.hetero_encoding import AddHeteroRandomFeaturePropagationPE
from rfp.transforms.node_encoding import NodeEncodingTransform
from rfp.transforms.random_feature_propagation import AddRandomFeaturePropagationPE

# The name of each baseline in a model's config and on the command line.
BASELINES: dict[str, type[NodeEncodingTransform]] = {
    "rnf": AddRandomNodeFeatures,
    "eigenvectors": AddEigenvectorPE,
    "random_walk": AddRandomWalkReturnPE,
    "estimated_random_walk": AddEstimatedRandomWalkPE,
    "nfp": AddNodeFeaturePropagationPE,
    "sign": AddSIGNFeatures,
    "sgc": AddSGCFeatures,
    "power_embed": AddPowerEmbedPE,
    "substructures": AddSubstructureCounts,
}

__all__ = [
    "BASELINES",
    "AddEigenvectorPE",
    "AddEstimatedRandomWalkPE",
    "AddHeteroRandomFeaturePropagationPE",
    "AddNodeFeaturePropagationPE",
    "AddPowerEmbedPE",
    "AddRandomFeaturePropagationPE",
    "AddRandomNodeFeatures",
    "AddRandomWalkReturnPE",
    "AddSGCFeatures",
    "AddSIGNFeatures",
    "AddSubstructureCounts",
    "NodeEncodingTransform",
]
