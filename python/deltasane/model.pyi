from collections.abc import Generator, Iterable, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .states import State

_Out = TypeVar("_Out")
_Path = str | PathLike[str]
_Tokens = str | bytes | Sequence[int] | NDArray[np.integer[Any]]
_Message = dict[str, str] | tuple[str, str]

class Generated(NamedTuple):
    text: str
    prompt_tokens: int
    tokens: int
    ended: str

class ChatEvent(NamedTuple):
    text: str
    thought: str
    reason: str | None

class Tokenizer:
    def __init__(self, held: object) -> None: ...
    @classmethod
    def open(cls, vocabulary: _Path) -> Tokenizer: ...
    def encode(self, text: str | bytes) -> NDArray[np.int32]: ...
    def bytes(self, ids: int | Sequence[int] | NDArray[np.integer[Any]]) -> bytes: ...
    def decode(self, ids: int | Sequence[int] | NDArray[np.integer[Any]]) -> str: ...
    def chat(
        self, messages: str | Iterable[_Message], think: bool | None = None, template: str | None = None
    ) -> tuple[NDArray[np.int32], list[str], str]: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def end_of_document(self) -> int | None: ...

class Model:
    arguments: tuple[Any, ...]
    def __init__(
        self,
        path: _Path,
        *,
        device: str = "cpu",
        weights: str | None = None,
        threads: int = 0,
        sane_alpha: float | None = None,
        without_sane: bool = False,
        tokenizer: _Path | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> dict[str, Any]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def state(self) -> State: ...
    def load_state(self, path: _Path) -> State: ...
    def state_from(self, content: bytes) -> State: ...
    @overload
    def read(self, text: _Tokens, state: State, *, all: bool = False, out: None = None) -> NDArray[np.float32]: ...
    @overload
    def read(self, text: _Tokens, state: State, *, all: bool = False, out: _Out) -> _Out: ...
    def score(self, text: _Tokens, state: State | None = None) -> NDArray[np.float64]: ...
    def stream(self, prompt: str | bytes, state: State | None = None, **options: Any) -> Generator[str, None, None]: ...
    def chat(
        self,
        messages: str | Iterable[_Message],
        *,
        think: bool | None = None,
        template: str | None = None,
        **options: Any,
    ) -> Generator[ChatEvent, None, None]: ...
    def generate(self, prompts: str | Iterable[str], *, n: int = 1, **options: Any) -> list[Generated]: ...
    def watch(
        self, text: _Tokens, state: State | None = None, *, every: int = 512, tau: float | None = None
    ) -> NDArray[np.void]: ...

def shared_model(arguments: tuple[Any, ...]) -> Model: ...
