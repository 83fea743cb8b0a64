from . import compat as compat, errors as errors, ops as ops
from .errors import (
    DeviceError as DeviceError,
    Error as Error,
    FileError as FileError,
    StateOverflow as StateOverflow,
    UsageError as UsageError,
)
from .model import ChatEvent as ChatEvent, Generated as Generated, Model as Model, Tokenizer as Tokenizer
from .states import State as State
from .trainer import Trainer as Trainer

__version__: str

def build() -> dict[str, object]: ...
def set_threads(count: int) -> None: ...
def threads() -> int: ...
