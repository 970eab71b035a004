"""The picture of the demo."""

import io

import torch
from matplotlib.image import imread

from rfp.viz.demo_plot import DemoConvergence, draw_demo


def picture(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    states = torch.rand(18, 4, 2, generator=generator, dtype=torch.float64)
    data = DemoConvergence(
        edges=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        positions=torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]),
        states=states,
        eigenvectors=states[-1],
        eigenvalues=torch.tensor([1.0, 0.8, 0.5]),
        angles=torch.linspace(1.5, 0.01, 18),
        bound=torch.linspace(20, 1, 18),
        cosines=torch.rand(18, 2, generator=generator),
    )
    draw_demo(data, file := io.BytesIO())
    return torch.from_numpy(imread(io.BytesIO(file.getvalue())).copy())


def test_a_picture_that_shows_the_data() -> None:
    first, other = picture(0), picture(1)
    assert first.size(0) > 800
    assert first.size(1) > 1600
    assert not torch.equal(first, other)
    assert 0.02 < float((first[..., :3] < 0.9).any(-1).float().mean()) < 0.5  # neither blank nor a blot
