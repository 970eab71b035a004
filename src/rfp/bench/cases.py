"""The named cases of ``rfp bench``."""

from __future__ import annotations

from rfp.bench.contender import Case
from rfp.bench.large_cases import huge, large, scaling, ten_times
from rfp.bench.link_case import links_arxiv, links_tenth
from rfp.bench.loop_case import own_loop
from rfp.bench.products_case import with_products
from rfp.bench.small_cases import many_small, one_batch
from rfp.bench.start_case import starts
from rfp.bench.training_case import training
from rfp.bench.walk_case import walks

CASES = {
    "large": Case("large", "169,343 nodes, 1,166,243 edges, k=64, P=16, Â, QR", large),
    "small": Case("small", "ZINC-12k: 12,000 graphs, k=16, P=16, Â and L̂, QR", many_small),
    "batch": Case("batch", "128 graphs of ZINC-12k, k=16, P=16, Â and L̂, QR", one_batch),
    "scaling": Case("scaling", "time against edges, k=16, P=16, Â, QR", scaling),
    "walks": Case("walks", "return probabilities of 16 steps against edges, k=64, beside PyG's", walks),
    "links": Case("links", "common neighbours of 100,000 pairs, 16,934 nodes, k=256", links_tenth),
    "links-arxiv": Case("links-arxiv", "common neighbours of 10 million pairs, 169,343 nodes, k=256", links_arxiv),
    "start": Case("start", "processor seconds of a start: the command, the import, a small encode", starts),
    "loop": Case(
        "loop", "a step of one's own PyG loop (GINE, batches of 128 molecules), with and without RFP", own_loop
    ),
    "training": Case("training", "an epoch of rfp train on ZINC-12k, and its steps alone", training),
    "products": Case(
        "products", "a step of rfp train on ZINC-12k with products, k=64, three operators, and without", with_products
    ),
    "large10": Case("large10", "1,693,430 nodes, 11,662,430 edges, k=64, P=16, Â, QR", ten_times, needs_gpu=True),
    "huge": Case("huge", "111,059,956 nodes, 1.6 billion edges, k=16, P=8, Â, QR", huge, needs_gpu=True),
}
