"""Models: reading, scoring and writing text with the engine, without torch."""

import operator
import os
import queue
import tempfile
import threading
from typing import NamedTuple

import numpy as np

from . import _engine
from .states import State, head_statistics

_BLOCK = 512  # tokens read between two looks for Ctrl-C: what the engine computes at a time


class Generated(NamedTuple):
    """A text, and why it ended: "max_tokens", "end_of_document", "stop_text" or "cancelled"."""

    text: str
    prompt_tokens: int
    tokens: int
    ended: str


class Tokenizer:
    """Text to token ids and back. Token texts are bytes: a character may be cut.

    >>> tokenizer = Tokenizer.open("byte")
    >>> tokenizer.encode("né").tolist(), tokenizer.decode([110, 195, 169])
    ([110, 195, 169], 'né')
    """

    def __init__(self, held):
        self._held = held

    @classmethod
    def open(cls, vocabulary):
        """"byte", an RWKV World vocabulary, a tokenizer.json, a folder with one, or a GGUF file."""
        return cls(_engine.Tokenizer.open(os.fspath(vocabulary)))

    def encode(self, text):
        """The ids of a text (str or bytes), as int32."""
        return np.array(self._held.encode(_as_bytes(text)), np.int32)

    def bytes(self, ids):
        """What an id, or ids one after another, stand for."""
        return self._held.decode(_ids([ids] if np.ndim(ids) == 0 else ids))

    def decode(self, ids):
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.bytes(ids).decode("utf-8", "replace")

    @property
    def vocabulary(self):
        """One more than the largest id."""
        return self._held.vocabulary

    @property
    def end_of_document(self):
        return self._held.end_of_document


def _as_bytes(text):
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"text: expected str or bytes, found {type(text).__name__}")


def _ids(tokens):
    """A list of integers of any sequence or array; floats are refused."""
    if hasattr(tokens, "__dlpack__") and not isinstance(tokens, np.ndarray):
        tokens = np.from_dlpack(tokens)
    array = np.asarray(tokens)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"tokens: expected integers in one dimension, found {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        raise ValueError(f"tokens: expected 0 to {2**31 - 1}, found {array.min()} to {array.max()}")
    return array.tolist()


def _settings(options):
    settings = _engine.SamplingSettings()
    for name, value in options.items():
        if not hasattr(settings, name):
            names = [n for n in dir(settings) if not n.startswith("_")]
            raise TypeError(f"{name}: expected one of {', '.join(names)}")
        if name == "stop":
            value = [value] if isinstance(value, str) else list(value)
        setattr(settings, name, value)
    return settings


class Model:
    """A language model of any supported format, ready to run.

    path        .pth, .safetensors, .gguf, rwkv.cpp's .bin, or a model folder
    device      "cpu", "cuda" or "cuda:N"
    weights     compute with f32, f16, bf16 or q8; None: as in the file
    threads     0: all processors
    sane_alpha  SANE for a model that was trained without: tau = alpha ln 2 + 1
    tokenizer   as for Tokenizer.open; None: the model's own

    Threads may share a model, whose calls wait for each other; a state is for one thread at a time.
    After a fork a model must be opened again.

    >>> import deltasane
    >>> model = deltasane.Model("models/arithmetic-sane-3.safetensors")
    >>> model.generate("12 + 30 =", max_tokens=3, temperature=0)[0].text
    ' 42'
    """

    def __init__(self, path, *, device="cpu", weights=None, threads=0, sane_alpha=None, without_sane=False, tokenizer=None):
        self.arguments = (
            os.fspath(path), device, weights or "", operator.index(threads),
            None if sane_alpha is None else float(sane_alpha), bool(without_sane),
            "" if tokenizer is None else os.fspath(tokenizer),
        )  # fmt: skip
        self._held = _engine.Model.open(*self.arguments)

    @property
    def name(self):
        return self._held.description.name

    @property
    def description(self):
        """Architecture, sizes, weight type, device and SANE of the model, as a dict."""
        found = self._held.description
        return {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}

    @property
    def tokenizer(self):
        return Tokenizer(self._held.tokenizer())

    def __repr__(self):
        d = self.description
        return f"<deltasane.Model {d['name']!r}: {d['architecture']}, {d['parameters']} parameters, {d['device']}, {d['sane']}>"

    def state(self):
        """A fresh state."""
        return State(self, self._held.fresh_state())

    def load_state(self, path):
        """The state of a state file, which must be of this model."""
        return State(self, self._held.load_state(os.fspath(path)))

    def state_from(self, content):
        """The state of a state file's bytes: the inverse of bytes(state)."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            with open(path, "wb") as file:
                file.write(content)
            return self.load_state(path)

    def _tokens(self, text):
        if isinstance(text, (str, bytes)):
            return self._held.tokenizer().encode(_as_bytes(text))
        return _ids(text)

    def _check(self, tokens):
        vocabulary = self._held.description.vocabulary
        for token in tokens:
            if not 0 <= token < vocabulary:
                raise ValueError(f"tokens: expected 0 to {vocabulary - 1}, found {token}")
        return tokens

    def read(self, text, state, *, all=False, out=None):
        """Reads a text or tokens; the logits after the last, or after each (all=True), as float32.

        out: an array that the logits are copied into; anything that numpy can write to.
        """
        tokens = self._check(self._tokens(text))
        blocks = [tokens[i : i + _BLOCK] for i in range(0, len(tokens), _BLOCK)] or [tokens]
        found = [self._held.forward(block, state._held, all) for block in blocks]
        logits = np.concatenate(found) if all else found[-1]
        if out is None:
            return logits
        np.from_dlpack(out)[...] = logits
        return out

    def score(self, text, state=None):
        """The loss -ln p(token) of each token of a text, as float64. A fresh state's first has none."""
        state = self.state() if state is None else state
        tokens = self._check(self._tokens(text))
        first = _BLOCK if state.pending is not None else _BLOCK + 1
        blocks = [tokens[:first]] + [tokens[i : i + _BLOCK] for i in range(first, len(tokens), _BLOCK)]
        return np.concatenate([self._held.score(block, state._held) for block in blocks])

    def stream(self, prompt, state=None, **options):
        """Samples a text and yields it piece by piece. The next token is computed when it is asked for.

        options: max_tokens, stop, temperature, top_p, top_k, presence_penalty, frequency_penalty,
        penalty_decay, seed. The state, where one is given, continues after the text.

        >>> import deltasane
        >>> model = deltasane.Model("models/arithmetic-sane-3.safetensors")
        >>> "".join(model.stream("12 + 30 =", max_tokens=3, temperature=0))
        ' 42'
        """
        state = self.state() if state is None else state
        pieces, wanted, stopped = queue.SimpleQueue(), threading.Semaphore(0), threading.Event()
        settings, text = _settings(options), _as_bytes(prompt)

        def on_text(piece):
            pieces.put((piece, None))
            wanted.acquire()
            return not stopped.is_set()

        def run():
            wanted.acquire()
            try:
                if not stopped.is_set():
                    self._held.generate(text, state._held, settings, on_text)
                pieces.put((None, None))
            except BaseException as error:  # raised again where the text is read
                pieces.put((None, error))

        thread = threading.Thread(target=run, name="deltasane stream", daemon=True)
        thread.start()
        try:
            while True:
                wanted.release()
                piece, error = pieces.get()
                if error is not None:
                    raise error
                if piece is None:
                    return
                yield piece
        finally:
            stopped.set()
            wanted.release()
            thread.join()

    def generate(self, prompts, *, n=1, **options):
        """Samples n texts of each prompt, many at a time. On a CPU a text does not depend on the others.

        prompts: a str, or several. Returns a list of Generated: those of the first prompt, then those
        of the next. options: as for stream.
        """
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        for prompt in prompts:
            if not isinstance(prompt, str):
                raise TypeError(f"prompts: expected str, found {type(prompt).__name__}")
        made = self._held.generate_texts(prompts, operator.index(n), _settings(options))
        return [Generated(*one) for one in made]

    def watch(self, text, state=None, *, every=512, tau=None):
        """Reads a text and looks at the state after every so many tokens: a structured array of heads.

        Its fields are position, layer, head and those of deltasane.ops.statistics;
        pandas.DataFrame(model.watch(text)) is a table.

        >>> import deltasane
        >>> model = deltasane.Model("models/arithmetic-sane-3.safetensors")
        >>> seen = model.watch("12 + 30 = 42. " * 4, every=16)
        >>> len(set(seen["position"])), bool((seen["norm"] > 0).all())
        (4, True)
        """
        state = self.state() if state is None else state
        tokens = self._check(self._tokens(text))
        seen = []
        for i in range(0, len(tokens), operator.index(every)):
            self.read(tokens[i : i + every], state)
            found = head_statistics(state.memory, tau)
            layer, head = np.indices(found.shape)
            rows = np.empty(found.shape, [("position", np.int64), ("layer", np.int32), ("head", np.int32), *found.dtype.descr])
            rows["position"], rows["layer"], rows["head"] = state.position, layer, head
            for name in found.dtype.names:
                rows[name] = found[name]
            seen.append(rows.reshape(-1))
        return np.concatenate(seen) if seen else np.empty(0)


_shared = {}


def shared_model(arguments):
    """The model that was opened with these arguments, for states that are restored from a pickle."""
    if arguments not in _shared:
        path, device, weights, threads, alpha, without, tokenizer = arguments
        _shared[arguments] = Model(
            path, device=device, weights=weights, threads=threads, sane_alpha=alpha, without_sane=without,
            tokenizer=tokenizer or None,
        )  # fmt: skip
    return _shared[arguments]
