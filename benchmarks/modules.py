"""Two modules that no chain of common layers covers: they go through vmap."""

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions with group norms, around which the input goes on."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(8, outputs) for _ in range(2))
        self.around: nn.Module = nn.Identity()
        if inputs != outputs:
            self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.around(x))


def resnet8() -> nn.Module:
    """ResNet-8 for images of 32 x 32 with GroupNorm: 78 thousand parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.GroupNorm(8, 16),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


class VisionTransformer(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(0.02 * torch.randn(64, width))
        self.layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True
                )
                for _ in range(depth)
            )
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).mT + self.places
        return self.head(self.norm(self.layers(tokens)).mean(dim=1))


def vit() -> nn.Module:
    """Patches of 4 x 4, width 64, two layers: 108 thousand parameters."""
    return VisionTransformer(64, 2)
