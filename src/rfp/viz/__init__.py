"""Pictures, drawn with matplotlib (the extra ``cli``).

==========================  ==================================================================================
:func:`draw_graph`          the graph, its nodes coloured by a channel at a step
:func:`draw_scatter`        two channels at a step against each other
:func:`draw_angles`         principal angles to the dominant eigenvectors, with the predicted rate
:func:`draw_ritz_values`    Ritz values of each step, with the eigenvalues
:func:`draw_dependent`      which columns are zero because they depend on earlier ones
:func:`overview`            all of it in one figure
:func:`show`                the overview in a notebook, without widgets
==========================  ==================================================================================

Each ``draw_*`` takes a :class:`~rfp.Trajectory` and returns a matplotlib ``Axes``: a new one, or the one it is given.
"""

from rfp.viz.notebook import show
from rfp.viz.overview import overview
from rfp.viz.trajectory_plots import draw_angles, draw_dependent, draw_graph, draw_ritz_values, draw_scatter

__all__ = ["draw_angles", "draw_dependent", "draw_graph", "draw_ritz_values", "draw_scatter", "overview", "show"]
