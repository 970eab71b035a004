"""Other encodings, for comparison. Those that are the one loop with other arguments are written as calls of it.

=======================  ==========================================  ===================  ==========================
function                 features                                    normalisation        what is kept
=======================  ==========================================  ===================  ==========================
``rnf``                  random                                      none                 step 0
``nfp``                  node features                               QR                   all steps
``sgc``                  node features                               none                 last step
``sign``                 node features                               none                 all steps
``power_embed``          node features                               inverse Gram         all steps, columns rescaled
``random_walk_pe``       one-hot                                     none, S = D⁻¹A       the diagonal of each step
``eigenvectors``         a solver, not the loop
``substructure_counts``  enumeration, not the loop
=======================  ==========================================  ===================  ==========================

``fast_random_projection`` (FastRP with GDS's parameters) is the loop too: very sparse random features or projected node
features, rows of length 1 as normalisation, and what is kept is the weighted sum of the steps.
"""

from rfp.baselines.counts_as_features import substructure_counts
from rfp.baselines.fastrp import FastRP, fast_random_projection
from rfp.baselines.propagated import nfp, power_embed, rnf, sgc, sign
from rfp.baselines.random_walk import random_walk_pe
from rfp.baselines.spectral import eigenpairs, eigenvectors, flip_signs

__all__ = [
    "FastRP",
    "eigenpairs",
    "eigenvectors",
    "fast_random_projection",
    "flip_signs",
    "nfp",
    "power_embed",
    "random_walk_pe",
    "rnf",
    "sgc",
    "sign",
    "substructure_counts",
]
