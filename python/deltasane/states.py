"""States of models as values, and statistics of their heads."""

import os
import tempfile

import numpy as np

from . import _engine


def head_statistics(memory, tau=None):
    """One record for each matrix of (..., value, key): a structured array (...).

    >>> import numpy as np
    >>> float(head_statistics(np.ones((2, 3, 4, 4), np.float32))["norm"][1, 2])
    4.0
    """
    memory = np.ascontiguousarray(memory, np.float32)
    if memory.ndim < 2:
        raise ValueError(f"state: expected (..., value, key), found shape {memory.shape}")
    heads = memory.shape[:-2]
    rows = [
        _engine.head_statistics(matrix, 0.0 if tau is None else float(tau))
        for matrix in memory.reshape(-1, *memory.shape[-2:])
    ]
    names = [name for name, _ in _engine.head_statistics(np.zeros(1, np.float32), 0.0)]
    records = np.array([tuple(value for _, value in row) for row in rows], [(name, np.float64) for name in names])
    return records.reshape(heads)


class State:
    """What a model remembers of one sequence: a value that can be copied, pickled, saved and compared.

    >>> import copy, deltasane
    >>> model = deltasane.Model("models/arithmetic-sane-3.safetensors")
    >>> state = model.state()
    >>> _ = model.read("12 + 30 =", state)
    >>> other = copy.copy(state)
    >>> other == state, state.position
    (True, 9)
    >>> _ = model.read(" 42", other)
    >>> other == state, state.position
    (False, 9)
    """

    def __init__(self, model, held):
        self._model = model
        self._held = held

    @property
    def position(self):
        """Tokens that the model has read."""
        return self._held.position

    @property
    def pending(self):
        """A token of the sequence that the model has not read yet, or None: the next call reads it first."""
        return self._held.pending

    def parts(self):
        """[(name, kind, layer, numpy array)]: all numbers, copied. A memory is (head, value, key)."""
        return self._held.parts()

    @property
    def memory(self):
        """(layer, head, value, key) of all layers with a memory, which have the same shape; a copy."""
        return np.stack([numbers for _, kind, _, numbers in self.parts() if kind == "memory"])

    def statistics(self, tau=None):
        """Of each head: a structured array (layer, head), as deltasane.ops.statistics."""
        return head_statistics(self.memory, tau)

    def norms(self):
        """The Frobenius norm of each head, (layer, head)."""
        return np.sqrt(np.square(self.memory, dtype=np.float64).sum((2, 3)))

    def save(self, path):
        """A state file, which `deltasane generate` and Model.load_state continue from."""
        self._held.save(os.fspath(path))

    def __bytes__(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    def __copy__(self):
        return State(self._model, self._held.copy())

    copy = __copy__

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __eq__(self, other):
        if not isinstance(other, State):
            return NotImplemented
        if (self.position, self.pending) != (other.position, other.pending):
            return False
        pairs = list(zip(self.parts(), other.parts()))
        return len(pairs) == len(self.parts()) == len(other.parts()) and all(
            x[:3] == y[:3] and x[3].tobytes() == y[3].tobytes() for x, y in pairs
        )

    __hash__ = None

    def __reduce__(self):
        return _restored, (self._model.arguments, bytes(self))

    def __repr__(self):
        return f"<deltasane.State of {self._model.name!r} at position {self.position}>"


def _restored(arguments, content):
    """Of a pickle: the model is opened again, or shared with other states that were restored."""
    from .model import shared_model

    return shared_model(arguments).state_from(content)
