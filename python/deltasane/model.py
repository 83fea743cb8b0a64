"""Models: reading, scoring and writing text with the engine, without torch."""

import atexit
import operator
import os
import queue
import tempfile
import threading
import weakref
from typing import NamedTuple, Optional

import numpy as np

from . import _engine
from .errors import UsageError
from .states import State, head_statistics

_BLOCK = 512  # tokens read between two looks for Ctrl-C: what the engine computes at a time


class Generated(NamedTuple):
    """A text, and why it ended: "max_tokens", "end_of_document", "stop_text" or "cancelled"."""

    text: str
    prompt_tokens: int
    tokens: int
    ended: str


class ChatEvent(NamedTuple):
    """A piece of an answer: text and thought are what is new; reason is None until the last event.

    reason: why the answer ended, as in Generated.
    """

    text: str
    thought: str
    reason: Optional[str]


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
        """"byte", an RWKV World vocabulary, a tokenizer.json, a folder with one, or a model file or folder."""
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

    def chat(self, messages, think=None, template=None):
        """(ids, stop texts, beginning of the answer) of a conversation, as Model.chat reads it.

        >>> ids, stop, beginning = Tokenizer.open("byte").chat("Hi")
        >>> bytes(ids.tolist())
        b'User: Hi\\n\\nAssistant:'
        """
        mode = "plain" if think is None else "think" if think else "fast-think"
        ids, stop, beginning = self._held.chat(_messages(messages), mode, template or "")
        return np.array(ids, np.int32), stop, beginning

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


def _messages(given):
    """[(role, text)] of a text, which is the user's, or of messages as dicts with role and content, or as pairs."""
    if isinstance(given, str):
        return [("user", given)]
    found = []
    for message in given:
        if isinstance(message, dict):
            if set(message) != {"role", "content"}:
                raise UsageError(f"messages: expected role and content in each, found {', '.join(map(str, message))}")
            message = message["role"], message["content"]
        if not isinstance(message, (tuple, list)) or len(message) != 2 or not all(isinstance(x, str) for x in message):
            raise TypeError(f"messages: expected role and text in each, found {message!r}")
        found.append(tuple(message))
    return found


def _ids(tokens):
    """A list of integers of any sequence or array; floats are refused."""
    if hasattr(tokens, "__dlpack__") and not isinstance(tokens, np.ndarray):
        tokens = np.from_dlpack(tokens)
    array = np.asarray(tokens)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"tokens: expected integers in one dimension, found {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        raise UsageError(f"tokens: expected 0 to {2**31 - 1}, found {array.min()} to {array.max()}")
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


class _Writer:
    """A thread that writes a text, one piece whenever it is asked for the next."""

    def __init__(self, generate):
        self.made = None
        self._pieces, self._wanted, self._stopped = queue.SimpleQueue(), threading.Semaphore(0), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(generate,), name="deltasane stream", daemon=True)
        self._thread.start()
        _writers.add(self)

    def _on_text(self, piece):
        self._pieces.put((piece, None))
        self._wanted.acquire()
        return not self._stopped.is_set()

    def _run(self, generate):
        self._wanted.acquire()
        try:
            if not self._stopped.is_set():
                self.made = generate(self._on_text)
            self._pieces.put((None, None))
        except BaseException as error:  # raised again where the text is read
            self._pieces.put((None, error))

    def next(self):
        """The next piece; None: the text has ended."""
        self._wanted.release()
        piece, error = self._pieces.get()
        if error is not None:
            raise error
        return piece

    def stop(self):
        self._stopped.set()
        self._wanted.release()
        self._thread.join()


_writers = weakref.WeakSet()


@atexit.register
def _stop_writers():
    """Before Python ends: a thread that is in the middle of a text then would end the process by force."""
    for writer in list(_writers):
        writer.stop()


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
        if tokens and not (min(tokens) >= 0 and max(tokens) < vocabulary):
            wrong = next(token for token in tokens if not 0 <= token < vocabulary)
            raise UsageError(f"tokens: expected 0 to {vocabulary - 1}, found {wrong}")
        return tokens

    def read(self, text, state, *, all=False, out=None):
        """Reads a text or tokens; the logits after the last, or after each (all=True), as float32.

        out: an array of float32 on the CPU that the logits are copied into: of numpy, torch or what has __dlpack__.
        """
        tokens = self._check(self._tokens(text))
        target = None if out is None else self._writable(out, len(tokens) + (state.pending is not None), all)
        blocks = [tokens[i : i + _BLOCK] for i in range(0, len(tokens), _BLOCK)] or [tokens]
        found = [self._held.forward(block, state._held, all) for block in blocks]
        logits = np.concatenate(found) if all else found[-1]
        if out is None:
            return logits
        target[...] = logits
        return out

    def _writable(self, out, rows, all):
        """out as a numpy array, before anything is read."""
        if not hasattr(out, "__dlpack__"):
            raise TypeError(f"out: expected an array with __dlpack__, found {type(out).__name__}")
        target = out if isinstance(out, np.ndarray) else np.from_dlpack(out)
        vocabulary = self._held.description.vocabulary
        shape = (rows, vocabulary) if all else (vocabulary,)
        if target.dtype != np.float32 or target.shape != shape:
            raise UsageError(f"out: expected float32 of shape {shape}, found {target.dtype} of shape {target.shape}")
        if not target.flags.writeable:
            raise UsageError("out: expected an array that can be written, found one that is read-only")
        return target

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
        yield from self._pieces(_as_bytes(prompt), state, _settings(options))

    def chat(self, messages, *, think=None, template=None, **options):
        """Answers a conversation, from a fresh state: yields ChatEvent(text, thought, reason).

        messages  a str, or dicts with role and content; the last one is the user's
        think     True: the answer begins with thoughts; False: without; None: as the model likes
        template  "world", "chatml" or "chatml-think"; None: the model's own
        options   as for stream; stop texts are added to those of the template

        >>> import deltasane
        >>> model = deltasane.Model("models/arithmetic-sane-3.safetensors")
        >>> events = list(model.chat("37+45=?", temperature=0))
        >>> "".join(event.text for event in events), events[-1].reason
        ('82', 'stop_text')
        """
        tokens, stop, beginning = self.tokenizer.chat(messages, think, template)
        settings = _settings(options)
        settings.stop = [*stop, *settings.stop]
        reader = _engine.ThoughtReader(beginning)
        pieces = self._pieces(tokens.tolist(), self.state(), settings)
        try:
            while True:
                text, thought = reader.feed(next(pieces))
                if text or thought:
                    yield ChatEvent(text, thought, None)
        except StopIteration as end:
            made = end.value
        finally:
            pieces.close()
        yield ChatEvent(*reader.finish(), made.ended)

    def _pieces(self, prompt, state, settings):
        """Yields the pieces of a text; returns it as Generated."""
        writer = _Writer(lambda on_text: Generated(*self._held.generate(prompt, state._held, settings, on_text)))
        try:
            while (piece := writer.next()) is not None:
                yield piece
            return writer.made
        finally:
            writer.stop()

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
        if operator.index(every) < 1:
            raise UsageError(f"every: expected 1 or more tokens, found {every}")
        state = self.state() if state is None else state
        tokens = self._check(self._tokens(text))
        seen = []
        for i in range(0, len(tokens), every):
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
