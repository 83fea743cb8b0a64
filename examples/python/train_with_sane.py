"""Trains a tiny RWKV-7-like model with SANE on sums, in a plain torch loop.

    python examples/python/train_with_sane.py --steps 200
"""

import argparse
import random

import torch
from torch import nn
from torch.nn import functional as F

from deltasane import ops

HEAD = 64  # what a GPU takes; a CPU takes any


class Block(nn.Module):
    """Time mixing by the recurrence, and a channel mix. tau comes from the last token of each chunk."""

    def __init__(self, channels, alpha):
        super().__init__()
        self.heads, self.alpha = channels // HEAD, alpha
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2))
        self.inputs = nn.Linear(channels, 5 * channels, bias=False)
        self.decay = nn.Parameter(torch.linspace(-6, -1, channels))
        self.tau = nn.Parameter(torch.zeros(channels, self.heads))
        self.output = nn.Linear(channels, channels, bias=False)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        batch, time, channels = x.shape
        mixed = self.norms[0](x)
        mixed = (mixed + F.pad(mixed, (0, 0, 1, -1))) / 2
        r, k, v, kappa, rate = self.inputs(mixed).view(batch, time, 5, self.heads, HEAD).unbind(2)
        kappa, rate = F.normalize(kappa, dim=-1), torch.sigmoid(rate)
        w = (-F.softplus(-self.decay) - 0.5).view(self.heads, HEAD).expand_as(r)  # decays above 0.545, as RWKV-7's
        tau = ops.tau(mixed[:, 15::16], self.tau, self.alpha)  # (batch, chunks, head)
        y, _ = ops.rwkv7(r, w, k, v, -kappa, kappa * rate, decay="rwkv", tau=tau)
        x = x + self.output(y.reshape(batch, time, channels))
        return x + self.down(F.relu(self.up(self.norms[1](x))).square())


def batch_of_sums(numbers, rows, time):
    def text():
        line = ""
        while len(line) <= time:
            a, b = numbers.randrange(10), numbers.randrange(10)
            line += f"{a}+{b}={a + b};"
        return list(line.encode()[: time + 1])

    return torch.tensor([text() for _ in range(rows)])


def training_losses(steps, channels, alpha, device="cpu", seed=0):
    """Trains a model, and yields the loss of each step."""
    torch.manual_seed(seed)
    blocks = (Block(channels, alpha) for _ in range(2))
    model = nn.Sequential(nn.Embedding(128, channels), *blocks, nn.LayerNorm(channels), nn.Linear(channels, 128))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    numbers = random.Random(seed)
    for _ in range(steps):
        tokens = batch_of_sums(numbers, 8, 100).to(device)  # no multiple of 16
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--alpha", type=float, default=3.0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args()
    for step, loss in enumerate(training_losses(options.steps, options.channels, options.alpha, options.device), 1):
        if step % 20 == 0 or step == 1:
            print(f"step {step:4d}   loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
