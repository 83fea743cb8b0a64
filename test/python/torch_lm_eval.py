"""deltasane.lm_eval: log-likelihoods are the server's in every digit, texts are the engine's."""

import json
import os
import subprocess
import urllib.request

import numpy as np
import pytest
from test_model import PATH, QUESTION

pytest.importorskip("lm_eval", reason="lm_eval is not installed")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402

from deltasane.lm_eval import DeltasaneLM  # noqa: E402

PROGRAM = os.environ.get("DELTASANE_PROGRAM", "")
PAIRS = [(QUESTION, " 82"), (QUESTION, " 83"), ("", "User: 1"), ("What is 5 plus 6? ", "11")]


@pytest.fixture(scope="module")
def lm():
    return DeltasaneLM(PATH, threads=1, batch_size=4)


def requests(kind, arguments):
    return [Instance(request_type=kind, doc={}, arguments=one, idx=0) for one in arguments]


def test_is_registered():
    assert get_model("deltasane") is DeltasaneLM


def test_sums_of_log_probabilities(lm):
    found = lm.loglikelihood(requests("loglikelihood", PAIRS), disable_tqdm=True)
    assert [greedy for _, greedy in found] == [True, False, False, False]
    long = "1+1=2. " * 200
    pairs = [*PAIRS[:2], (long, "3"), (long, "4"), (long[:512], "1+"), (long[:513], "+1")]
    for (context, continuation), (value, _) in zip(pairs, lm.loglikelihood(requests("loglikelihood", pairs))):
        losses = lm.model.score(context + continuation)
        moved = len(context) - len(context.rstrip())  # lm_eval takes space at its end for the continuation's
        assert value == -losses[-len(continuation) - moved :].sum()
    (rolling,) = lm.loglikelihood_rolling(requests("loglikelihood_rolling", [(QUESTION,)]))
    assert rolling == -lm.model.score([0, *QUESTION.encode()]).sum()


def test_generates(lm):
    arguments = [(QUESTION, {"until": ["\n\n"], "max_gen_toks": 9}), ("User: 7+45=?\n\nAssistant:", {"until": "\n\n", "do_sample": False})]
    assert lm.generate_until(requests("generate_until", arguments)) == [" 82", " 52"]
    with pytest.raises(ValueError, match="gen_kwargs: expected until.*found repetition_penalty"):
        lm.generate_until(requests("generate_until", [("1", {"repetition_penalty": 2})]))
    history = [{"role": "user", "content": "37+45=?"}]
    assert lm.apply_chat_template(history) == QUESTION


@pytest.mark.skipif(not PROGRAM, reason="DELTASANE_PROGRAM does not name the program")
def test_the_same_digits_over_http(lm):
    server = subprocess.Popen([PROGRAM, "serve", PATH, "--port", "0", "-t", "1"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split(" at ")[1].strip()
        for (context, continuation), (value, _) in zip(PAIRS[:2], lm.loglikelihood(requests("loglikelihood", PAIRS[:2]))):
            tokens = list((context + continuation).encode())
            body = {"prompt": tokens, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
            request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as reply:
                found = json.load(reply)["choices"][0]["logprobs"]["token_logprobs"]
            assert np.sum(found[-len(continuation) :]) == value
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
