from collections.abc import Iterator, Mapping
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

class Step(NamedTuple):
    step: int
    loss: float
    gradient_length: float
    rate: float
    tokens: int

class Evaluation(NamedTuple):
    step: int
    loss: float | None

class Trainer:
    def __init__(
        self,
        config: str | PathLike[str],
        *,
        set: Mapping[str, bool | float | str | PathLike[str]] | None = None,
        resume: bool = False,
    ) -> None: ...
    def step(self) -> Step: ...
    def __iter__(self) -> Iterator[Step]: ...
    def evaluate(self) -> Evaluation: ...
    @property
    def finished(self) -> bool: ...
    @property
    def steps_done(self) -> int: ...
    def parameters(self) -> dict[str, NDArray[np.float32]]: ...
    def save(self, folder: str | PathLike[str] | None = None) -> str: ...
