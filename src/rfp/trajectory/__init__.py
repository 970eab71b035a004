"""What an encoding is: trajectories of every operator, a report of what ran, and what nodes that come later need."""

from rfp.report import Report
from rfp.trajectory.stored_states import kept_steps
from rfp.trajectory.trajectory import Trajectory

__all__ = ["Report", "Trajectory", "kept_steps"]
