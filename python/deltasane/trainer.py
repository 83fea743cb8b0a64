"""Training runs of the engine: the steps of `deltasane train`, in the same bits."""

import os
import warnings
from typing import NamedTuple, Optional

from . import _engine


class Step(NamedTuple):
    """One step: its number from 1, the loss and length of the gradient before the update, rate and tokens."""

    step: int
    loss: float
    gradient_length: float
    rate: float
    tokens: int


class Evaluation(NamedTuple):
    """The mean loss over the held-out text of [evaluation]; None: the run has none."""

    step: int
    loss: Optional[float]


def _setting(key, value):
    """SECTION.KEY=VALUE in TOML, which a Python value of these types is by its repr."""
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"{key}={value!r}"
    if isinstance(value, (str, os.PathLike)):
        return f"{key}={os.fspath(value)}"
    raise TypeError(f"{key}: expected a bool, a number or a text, found {type(value).__name__}")


class Trainer:
    """A training run, as `deltasane train` runs it: on a CPU the losses are the same in every bit.

    config  a TOML file (docs/training-keys.md), or its text
    set     settings that replace those of the file: {"optimizer.steps": 200}
    resume  continue from the newest checkpoint in run.folder; without it a folder that has some is refused

    What is printed, saved and when, is yours: nothing is written but by save. One process, one
    thread at a time.

    >>> trainer = Trainer("examples/one_minute.toml", set={"optimizer.steps": 3})
    >>> [step.step for step in trainer]
    [1, 2, 3]
    >>> trainer.finished, trainer.parameters()["emb.weight"].shape
    (True, (256, 64))
    """

    def __init__(self, config, *, set=None, resume=False):
        text, name = config, "config"
        if isinstance(config, os.PathLike) or (isinstance(config, str) and "\n" not in config):
            name = os.fspath(config)
            with open(name, encoding="utf-8") as file:
                text = file.read()
        if not isinstance(text, str):
            raise TypeError(f"config: expected a path or a text in TOML, found {type(config).__name__}")
        self._held = _engine.Trainer.open(text, name, [_setting(key, value) for key, value in (set or {}).items()])
        if resume:
            _, passed_over = self._held.resume(self._held.folder)
            for fault in passed_over:
                warnings.warn(f"passed over a damaged checkpoint: {fault}", stacklevel=2)
        else:
            self._held.begin()

    def step(self):
        """One step. A loss or gradient that is not finite is a StateOverflow, and nothing is updated."""
        return Step(*self._held.step())

    def __iter__(self):
        """The steps that are left."""
        while not self.finished:
            yield self.step()

    def evaluate(self):
        """The loss of held-out text, as the run's [evaluation] says."""
        return Evaluation(*self._held.evaluate())

    @property
    def finished(self):
        return self._held.finished

    @property
    def steps_done(self):
        return self._held.steps_done

    def parameters(self):
        """{name: numpy array}, copied; names as checkpoints have them."""
        return dict(self._held.parameters())

    def save(self, folder=None):
        """Writes a checkpoint below run.folder, or folder; returns its path. Model opens model.safetensors in it.

        A folder with checkpoints of another run is refused."""
        return self._held.save(self._held.folder if folder is None else os.fspath(folder))
