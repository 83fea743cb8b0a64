"""deltasane.Model and State: what the engine gives, and that states are values."""

import copy
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import deltasane

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
PATH = os.path.join(MODELS, "arithmetic-sane-3.safetensors")
QUESTION = "User: 37+45=?\n\nAssistant:"


@pytest.fixture(scope="module")
def model():
    return deltasane.Model(PATH, threads=1)


def test_description(model):
    assert model.description["architecture"] == "rwkv7" and model.description["vocabulary"] == 256
    assert "rwkv7" in repr(model) and model.name == "arithmetic-sane-3.safetensors"
    assert deltasane.build()["version"] == deltasane.__version__


def test_tokenizer(model):
    assert model.tokenizer.encode("1+2").tolist() == [49, 43, 50]
    assert model.tokenizer.bytes(255) == b"\xff" and model.tokenizer.decode([255]) == "\ufffd"
    for name in ("byte", PATH):
        assert deltasane.Tokenizer.open(name).vocabulary == 256
    with pytest.raises(OSError, match="gone.txt"):
        deltasane.Tokenizer.open("gone.txt")


def test_reads_in_parts_as_at_once(model):
    text = np.arange(600) % 256
    whole, parts = model.state(), model.state()
    logits = model.read(text, whole)
    model.read(text[:512].astype(np.int64), parts)
    assert np.array_equal(model.read(text[512:].tolist(), parts), logits) and parts == whole
    assert logits.dtype == np.float32 and logits.shape == (256,) and whole.position == 600
    every = model.read(text[:20], model.state(), all=True)
    assert every.shape == (20, 256)
    out = np.empty((20, 256), np.float32)
    assert model.read(text[:20], model.state(), all=True, out=out) is out and np.array_equal(out, every)


def test_scores(model):
    text = bytes(range(32, 127)) * 12
    losses = model.score(text)
    assert losses.shape == (len(text) - 1,)
    state = model.state()
    pieces = [model.score(text[:513], state), model.score(text[513:], state)]
    assert np.array_equal(np.concatenate(pieces), losses)
    at_once = model.state()
    assert np.array_equal(model._held.score(list(text), at_once._held), losses), "blocks do not show"
    logits = model.read(text[:512], model.state(), all=True).astype(float)
    expected = np.log(np.exp(logits).sum(-1)) - logits[np.arange(512), list(text[1:513])]
    units = 4 * np.finfo(np.float32).eps * np.abs(logits).max()
    assert np.abs(losses[:512] - expected).max() <= units


def streams():
    return [thread for thread in threading.enumerate() if thread.name == "deltasane stream"]


def test_streams_what_it_generates(model):
    one = model.generate(QUESTION, max_tokens=8, stop="\n\n", temperature=0)[0]
    assert one.text == " 82" and one.ended == "stop_text"
    assert "".join(model.stream(QUESTION, max_tokens=8, stop=["\n\n"], temperature=0)) == " 82"


def test_a_stream_can_be_left_and_continued(model):
    whole = "".join(model.stream(QUESTION, max_tokens=12, temperature=0))
    state = model.state()
    stream = model.stream(QUESTION, state, max_tokens=12, temperature=0)
    first = next(stream)
    stream.close()
    rest = "".join(model.stream("", state, max_tokens=11, temperature=0))
    assert first + rest == whole
    unused = model.stream(QUESTION, state)
    unused.close()
    assert not streams()


def test_a_program_may_end_in_the_middle_of_a_stream():
    text = f"""
import deltasane
model = deltasane.Model({PATH!r}, threads=1)
stream, unused, chat = model.stream("User: 1", max_tokens=50), model.stream("User: 1"), model.chat("1")
next(stream), next(chat)
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_answers_a_conversation(model):
    events = list(model.chat([{"role": "user", "content": "37+45=?"}], max_tokens=20, temperature=0))
    assert "".join(event.text for event in events) == "82" and events[-1].reason == "stop_text"
    assert all(event.reason is None for event in events[:-1])
    ids, stop, beginning = model.tokenizer.chat([("user", "37+45=?")])
    assert model.tokenizer.decode(ids) == QUESTION and stop and beginning == ""
    as_text = model.generate(QUESTION, max_tokens=20, stop=stop, temperature=0)[0].text
    assert as_text.strip() == "82"
    cut = list(model.chat("37+45=?", max_tokens=8, temperature=0, stop="2"))
    assert "".join(event.text for event in cut) == "8"
    left = model.chat("37+45=?", max_tokens=8)
    next(left)
    left.close()
    assert not streams()


def test_thoughts_are_told_from_the_answer(model):
    _, _, beginning = model.tokenizer.chat("1", think=True)
    reader = deltasane._engine.ThoughtReader(beginning)
    assert reader.feed(">so 1</thi") == ("", "so 1") and reader.feed("nk>\n\n2") == ("2", "")
    assert list(model.chat("37+45=?", think=True, max_tokens=5, temperature=0))[-1].reason == "max_tokens"


def test_texts_do_not_depend_on_each_other(model):
    prompts = [QUESTION, "User: 8+5=?\n\nAssistant:"]
    texts = model.generate(prompts, n=2, max_tokens=6, seed=3)
    assert len(texts) == 4
    assert model.generate(prompts[1], max_tokens=6, seed=3)[0].text == texts[2].text


def test_states_are_values(model, tmp_path):
    state = model.state()
    model.read(QUESTION, state)
    state.save(tmp_path / "sum.state")
    for other in (copy.copy(state), copy.deepcopy(state), model.load_state(tmp_path / "sum.state"),
                  model.state_from(bytes(state)), pickle.loads(pickle.dumps(state))):  # fmt: skip
        assert other == state and other is not state
    other = copy.copy(state)
    model.read([1], other)
    assert other != state and state.position == len(QUESTION)
    another = model.state()
    model.read(QUESTION.replace("37", "38"), another)
    assert another != state and another.position == state.position
    assert state.memory.shape == (6, 4, 64, 64)
    difference = np.abs(state.norms() - state.statistics()["norm"])
    assert (difference <= 64 * 64 * np.finfo(float).eps * state.norms()).all(), "sums of as many squares, in two orders"
    assert {kind for _, kind, _, _ in state.parts()} == {"memory", "shift"}


def test_watch(model):
    seen = model.watch("What is 5 plus 6? " * 4, every=16)
    assert seen["position"].tolist() == sorted(seen["position"].tolist())
    assert seen.shape == (5 * 24,) and seen["position"][-1] == 72 and (seen["largest"] <= seen["norm"]).all()


def refuses(error, text, call):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)
    return found.value


def test_misuse(model, tmp_path):
    state = model.state()
    assert isinstance(refuses(OSError, "gone.pth", lambda: deltasane.Model("gone.pth")), deltasane.Error)
    refuses(ValueError, "device: expected", lambda: deltasane.Model(PATH, device="tpu"))
    for call in (model.read, model.score, model.watch):
        wrong = refuses(ValueError, "tokens: expected 0 to 255, found 300", lambda call=call: call([1, 2, 300], state))
        assert isinstance(wrong, deltasane.UsageError)
    refuses(deltasane.UsageError, "every: expected 1 or more tokens, found 0", lambda: model.watch("abc", every=0))
    refuses(TypeError, "tokens: expected integers", lambda: model.read([1.5], state))
    refuses(ValueError, "tokens: expected at least one", lambda: model.read([], state))
    refuses(ValueError, "tokens: expected 0 to 2147483647, found -1", lambda: model.read([-1], state))
    refuses(TypeError, "tokens: expected integers in one dimension", lambda: model.read([[1, 2]], state))
    locked = np.zeros(256, np.float32)
    locked.flags.writeable = False
    refuses(ValueError, "out: expected an array that can be written", lambda: model.read([1], state, out=locked))
    wrong = np.zeros(256), np.zeros((1, 256), np.float32), np.zeros(255, np.float32)
    for out in wrong:
        refuses(ValueError, "out: expected float32 of shape (256,)", lambda out=out: model.read([1], state, out=out))
    refuses(ValueError, "out: expected float32 of shape (2, 256)", lambda: model.read([1, 2], state, all=True, out=wrong[1]))
    refuses(TypeError, "out: expected an array with __dlpack__, found list", lambda: model.read([1], state, out=[0.0] * 256))
    refuses(TypeError, "temprature: expected one of", lambda: model.generate("1", temprature=0))
    refuses(TypeError, "prompts: expected str, found int", lambda: model.generate([1]))
    refuses(TypeError, "text: expected str or bytes", lambda: next(model.stream(3)))
    refuses(ValueError, "state: expected one of this model", lambda: deltasane.Model(PATH).read([1], state))
    refuses(ValueError, "messages: expected the user's as the last one", lambda: list(model.chat([("system", "1")])))
    refuses(ValueError, "role: expected system, user or assistant, found 'tool'", lambda: list(model.chat([("tool", "1")])))
    refuses(TypeError, "messages: expected role and text in each", lambda: list(model.chat([3])))
    refuses(ValueError, "messages: expected role and content", lambda: list(model.chat([{"role": "user"}])))
    refuses(ValueError, "world, chatml or chatml-think", lambda: list(model.chat("1", template="llama")))
    (tmp_path / "empty").write_bytes(b"")
    refuses(OSError, "empty", lambda: model.load_state(tmp_path / "empty"))
    baseline = deltasane.Model(os.path.join(MODELS, "arithmetic-baseline.safetensors"))
    refuses(deltasane.Error, "", lambda: baseline.state_from(bytes(state)))
    assert state.position == 0


def test_without_a_gpu_the_cpu_works_and_cuda_says_why():
    text = f"""
import deltasane
print(len(deltasane.Model({PATH!r}).score("1+1=2")))
try:
    deltasane.Model({PATH!r}, device="cuda")
except deltasane.Error as error:
    print(error)
"""
    hidden = dict(os.environ, CUDA_VISIBLE_DEVICES="")
    found = subprocess.run([sys.executable, "-c", text], env=hidden, capture_output=True, text=True, check=True)
    count, reason = found.stdout.splitlines()
    has_cuda = deltasane.build()["cuda"]
    assert int(count) > 0 and ("expected one of 0 CUDA devices" if has_cuda else "this build has no CUDA") in reason


def test_a_fork_must_open_its_own_model(model):
    state = model.state()
    child = os.fork()
    if child == 0:
        try:
            model.read([1], state)
        except deltasane.Error as error:
            os._exit(0 if "a fork of it" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_state_outlives_its_model():
    state = deltasane.Model(PATH, threads=1).state()
    gc.collect()
    assert state.position == 0 and state.memory.shape == (6, 4, 64, 64) and copy.copy(state) == state


def test_files_of_other_versions(model):
    content = bytes(model.state())
    assert content[8:12] == b"\2\0\0\0"
    later = content[:8] + b"\3" + content[9:]
    refuses(OSError, "version", lambda: model.state_from(later))
    pickled = pickle.dumps(model.state()).replace(content[:12], later[:12])
    refuses(OSError, "version", lambda: pickle.loads(pickled))
    for damaged in (content[:40], content[:-1], content[:200] + bytes([content[200] ^ 1]) + content[201:]):
        refuses(OSError, "", lambda damaged=damaged: model.state_from(damaged))


def test_ctrl_c_ends_a_read_after_a_block(model):
    state = model.state()

    def interrupt():
        while state.position == 0:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        model.read(np.zeros(1 << 20, np.int32), state)
    assert 0 < state.position < 1 << 20 and state.position % 512 == 0
    assert np.isfinite(model.read([1], state)).all()


def test_a_state_is_for_one_thread_at_a_time(model):
    state, errors = model.state(), []

    def read():
        try:
            model.read(np.zeros(1024, np.int32), state)
        except deltasane.UsageError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and "one thread at a time" in errors[0] and state.position <= 2048


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_models_that_are_dropped_leave_nothing():
    deltasane.Model(PATH, threads=2).state()
    gc.collect()
    files, threads = open_files(), len(os.listdir("/proc/self/task"))
    with open("/proc/self/statm", encoding="ascii") as file:
        before = int(file.read().split()[1])
    for _ in range(100):
        deltasane.Model(PATH, threads=2).state()
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        more = (int(file.read().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE")
    assert (open_files(), len(os.listdir("/proc/self/task"))) == (files, threads)
    assert more < 10 * os.path.getsize(PATH), "less than a tenth of what 100 models take"


def test_imported_under_two_names(tmp_path):
    shutil.copytree(os.path.dirname(deltasane.__file__), tmp_path / "other_name")
    text = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import numpy as np, deltasane, other_name
from deltasane import ops
from other_name import ops as other_ops
x = np.full((1, 20, 1, 16), 0.1, np.float32)
assert np.array_equal(ops.rwkv7(x, x, x, x, x, x)[0], other_ops.rwkv7(x, x, x, x, x, x)[0])
model = deltasane.Model({PATH!r}, threads=1)
try:
    other_name.Model({PATH!r}, threads=1)
except ImportError as error:
    assert "expected one copy of the package in a process" in str(error)
else:
    raise SystemExit("two engines")
assert model.read([1], model.state()).shape == (256,)
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
