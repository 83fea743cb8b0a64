"""What the engine raises. Each is a deltasane.Error, and an exception of Python of the same kind."""


class Error(Exception):
    """Of a model, a state, a tokenizer or their files. Most read "thing: expected X, found Y"."""


class UsageError(Error, ValueError):
    """A wrong value: a token outside of the vocabulary, a state of another model, an unknown setting."""


class FileError(Error, OSError):
    """A file is missing, damaged or of another kind."""


class DeviceError(Error, RuntimeError):
    """No such device, or too little memory on it."""


class StateOverflow(Error, ArithmeticError):
    """Numbers of a state left the finite range; the text names position, layer and head."""
