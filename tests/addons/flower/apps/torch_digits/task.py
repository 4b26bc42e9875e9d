"""A small network, and the images of digits that come with scikit-learn, split over clients."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A convolution and two linear layers, for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.hidden = nn.Linear(8 * 4 * 4, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten digits for images (n, 1, 8, 8)."""
        x = torch.max_pool2d(torch.relu(self.conv(x)), 2)
        x = torch.relu(self.hidden(x.flatten(1)))
        scores: torch.Tensor = self.out(x)
        return scores


def digits() -> TensorDataset:
    """Return all images with their digits, in a fixed random order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    images = torch.tensor(X[order] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    return TensorDataset(images, torch.tensor(y[order]))


def load_data(partition: int, partitions: int) -> tuple[DataLoader, DataLoader]:
    """Return the batches that a client trains on, and those that it tests on."""
    images, labels = (each[partition::partitions] for each in digits().tensors)
    cut = len(labels) * 4 // 5
    train = TensorDataset(images[:cut], labels[:cut])
    test = TensorDataset(images[cut:], labels[cut:])
    shuffled = torch.Generator().manual_seed(partition)
    return DataLoader(train, 32, shuffle=True, generator=shuffled), DataLoader(test, 256)


def train(net: nn.Module, batches: DataLoader, epochs: int, lr: float) -> float:
    """Train in place, and return the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (len(batches) * epochs)


def test(net: nn.Module, batches: DataLoader) -> tuple[float, float]:
    """Return the mean loss and the accuracy."""
    net.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in batches:
            scores = net(images)
            loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            right += int((scores.argmax(1) == labels).sum())
            count += len(labels)
    return loss / count, right / count
