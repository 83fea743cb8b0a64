"""The package as a program with types uses it: `mypy --strict` and `pyright` find nothing wrong in this file.

It is checked, and not run.
"""

import copy

import numpy as np
from numpy.typing import NDArray

import deltasane
from deltasane import ops


def recurrence(x: NDArray[np.float32]) -> NDArray[np.float32]:
    y, state = ops.rwkv7(x, x, x, x, x, x, tau=3.0, position=[0, 16], decay="log")
    gradients = ops.rwkv7_backward(y, x, x, x, x, x, x, dstate=state)
    truth, _ = ops.reference.rwkv7(x, x, x, x, x, x)
    print(gradients.dw.shape, truth.shape, ops.statistics(state)["norm"])
    return ops.neutralize(state, 2.0)


def engine(path: str) -> list[str]:
    model = deltasane.Model(path, device="cuda", sane_alpha=3)
    state: deltasane.State = model.state()
    logits: NDArray[np.float32] = model.read("1+1=", state)
    other = copy.copy(state)
    losses: NDArray[np.float64] = model.score([1, 2, 3], other)
    pieces: list[str] = [piece for piece in model.stream("1", state, temperature=0)]
    pieces += [event.text for event in model.chat([{"role": "user", "content": "1"}], think=True) if event.reason is None]
    texts: list[str] = [made.text for made in model.generate(["1", "2"], n=2)]
    print(logits.shape, losses.sum(), model.watch("1")["norm"], state.position + 1, model.tokenizer.encode("1").tolist())
    return pieces + texts


def training(config: str) -> float:
    trainer = deltasane.Trainer(config, set={"optimizer.steps": 3})
    return sum(step.loss for step in trainer)


try:
    deltasane.set_threads(2)
except deltasane.UsageError as error:
    print(error)
