"""Which links are missing: classical scores of pairs of nodes, estimated from trajectories or exact."""

from rfp.links.definitions import SCORES as SCORES
from rfp.links.pair_files import read_pairs as read_pairs
from rfp.links.scores import LinkScores as LinkScores
from rfp.links.scores import score_pairs as score_pairs
from rfp.links.top import top_pairs as top_pairs

__all__ = ["SCORES", "LinkScores", "read_pairs", "score_pairs", "top_pairs"]
