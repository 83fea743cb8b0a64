"""deltasane.Trainer: the steps of the program in every bit, and what callers get wrong."""

import json
import os
import subprocess
import threading

import numpy as np
import pytest

import deltasane
from deltasane import _ops  # noqa: F401  has exceptions of its own for the same errors

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONFIG = os.path.join(SOURCE, "examples", "one_minute.toml")
PROGRAM = os.environ.get("DELTASANE_PROGRAM", "")


def settings(folder, steps=200):
    return {"optimizer.steps": steps, "optimizer.sequences": 4, "evaluation.every": 0, "run.folder": folder}


@pytest.mark.skipif(not PROGRAM, reason="DELTASANE_PROGRAM does not name the program")
def test_losses_are_those_of_the_program_in_bits(tmp_path):
    given = settings(tmp_path / "program")
    words = [f"--set={key}={value}" for key, value in given.items()]
    subprocess.run([PROGRAM, "train", CONFIG, *words], check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (tmp_path / "program" / "metrics.jsonl").read_text().splitlines()]
    trainer = deltasane.Trainer(CONFIG, set=settings(tmp_path / "ours"))
    steps = list(trainer)
    assert len(steps) == len(rows) == 200 and steps[-1].loss < 0.7 * steps[0].loss
    for row, step in zip(rows, steps):
        assert (row["step"], row["loss"], row["gradient_length"]) == (step.step, step.loss, step.gradient_length)
    ours = os.path.join(trainer.save(), "model.safetensors")
    theirs = tmp_path / "program" / "step_00000200" / "model.safetensors"
    with open(ours, "rb") as file:
        assert file.read() == theirs.read_bytes()


def test_a_resumed_run_is_one_that_never_stopped(tmp_path):
    whole = [step.loss for step in deltasane.Trainer(CONFIG, set=settings(tmp_path / "a", 6))]
    first = deltasane.Trainer(CONFIG, set=settings(tmp_path / "b", 6))
    losses = [first.step().loss for _ in range(3)]
    place = first.save()
    rest = deltasane.Trainer(CONFIG, set=settings(tmp_path / "b", 6), resume=True)
    assert rest.steps_done == 3 and not rest.finished
    assert losses + [step.loss for step in rest] == whole and rest.finished
    model = deltasane.Model(os.path.join(place, "model.safetensors"), threads=1)
    assert np.isfinite(model.read("1", model.state())).all()


def test_checkpoints_of_another_run_are_kept(tmp_path):
    given = dict(settings(tmp_path / "first", 4), **{"run.keep": 1})
    first = deltasane.Trainer(CONFIG, set=given)
    also = deltasane.Trainer(CONFIG, set=given)  # opened while the folder is empty
    first.step(), first.save()
    first.step()
    kept = first.save()
    refuses(deltasane.UsageError, "expected no checkpoints at the start of a run, found some; resume from them with "
            "resume=True, or name another run.folder", lambda: deltasane.Trainer(CONFIG, set=given))
    other = deltasane.Trainer(CONFIG, set=settings(tmp_path / "other", 4))
    other.step(), also.step()
    refuses(deltasane.UsageError, "expected no checkpoints", also.save)
    refuses(deltasane.UsageError, "expected no checkpoints", lambda: other.save(tmp_path / "first"))
    assert os.listdir(tmp_path / "first") == [os.path.basename(kept)]
    other.save(tmp_path / "third"), other.step(), other.save(tmp_path / "third")
    assert deltasane.Trainer(CONFIG, set=given, resume=True).save() == kept


def test_reads_the_text_of_a_file_and_shows_parameters(tmp_path):
    with open(CONFIG, encoding="utf-8") as file:
        text = file.read()
    trainer = deltasane.Trainer(text, set=settings(tmp_path, 2))
    before = trainer.parameters()
    assert before["emb.weight"].shape == (256, 64) and before["emb.weight"].dtype == np.float32
    trainer.step()
    assert not np.array_equal(trainer.parameters()["emb.weight"], before["emb.weight"])
    assert not os.listdir(tmp_path), "nothing is written but by save"


def test_evaluates_held_out_text(tmp_path):
    given = dict(settings(tmp_path, 2), **{"evaluation.every": 1, "evaluation.batches": 1})
    found = deltasane.Trainer(CONFIG, set=given).evaluate()
    assert found.step == 0 and abs(found.loss - np.log(256)) < 1
    assert deltasane.Trainer(CONFIG, set=settings(tmp_path, 2)).evaluate().step == 0


def refuses(error, text, call):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)
    return found.value


def test_misuse(tmp_path):
    refuses(OSError, "gone.toml", lambda: deltasane.Trainer("gone.toml"))
    refuses(TypeError, "config: expected a path or a text in TOML, found int", lambda: deltasane.Trainer(3))
    unknown = refuses(ValueError, "optimizer.stepz", lambda: deltasane.Trainer(CONFIG, set={"optimizer.stepz": 2}))
    assert isinstance(unknown, deltasane.UsageError)
    refuses(TypeError, "optimizer.steps: expected a bool", lambda: deltasane.Trainer(CONFIG, set={"optimizer.steps": []}))
    refuses(ValueError, "device", lambda: deltasane.Trainer(CONFIG, set={"run.device": "tpu"}))
    refuses(OSError, "", lambda: deltasane.Trainer(CONFIG, set=settings(tmp_path / "none"), resume=True))


def test_one_thread_at_a_time_and_no_fork(tmp_path):
    trainer = deltasane.Trainer(CONFIG, set=dict(settings(tmp_path), **{"optimizer.sequences": 64}))
    errors = []

    def train():
        try:
            for _ in range(3):
                trainer.step()
        except deltasane.UsageError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and "one thread at a time" in errors[0]
    child = os.fork()
    if child == 0:
        try:
            trainer.step()
        except deltasane.Error as error:
            os._exit(0 if "a fork of it" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
