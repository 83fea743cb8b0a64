"""deltasane.hf: transformers' generate() gives the engine's texts, in batches, with padding and beams."""

import os

import numpy as np
import pytest
from test_model import PATH, QUESTION

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import deltasane  # noqa: E402
from deltasane import hf  # noqa: E402

PROMPTS = [QUESTION, "User: 8+5=?\n\nAssistant:"]


@pytest.fixture(scope="module")
def model():
    return hf.DeltasaneForCausalLM.from_pretrained(PATH, threads=1)


@pytest.fixture(scope="module")
def tokenizer():
    return hf.EngineTokenizer.from_pretrained("byte")


def written(tokenizer, prompts, ids):
    return [tokenizer.decode(row[prompts["input_ids"].shape[1] :]) for row in ids]


def test_logits_are_the_engines(model):
    ids = torch.arange(64)[None] + 32
    out = model(ids, labels=ids)
    engine = deltasane.Model(PATH, threads=1)
    expected = engine.read(ids[0].numpy(), engine.state(), all=True)
    assert np.array_equal(out.logits[0].numpy(), expected)
    units = 4 * np.finfo(np.float32).eps * np.abs(expected).max()
    assert abs(out.loss.item() - engine.score(ids[0].numpy()).mean()) <= units
    first = model(ids[:, :32])
    rest = model(ids[:, 32:], past_key_values=first.past_key_values, logits_to_keep=1)
    assert np.array_equal(rest.logits[0, -1].numpy(), expected[-1]) and rest.past_key_values.get_seq_length() == 64


def test_padding_changes_nothing(model, tokenizer):
    padded = tokenizer(PROMPTS, padding=True, return_tensors="pt")
    assert padded["attention_mask"].sum(1).tolist() == [25, 23] and padded["input_ids"][1, :2].tolist() == [0, 0]
    by_model = hf.EngineTokenizer.from_pretrained(PATH)(PROMPTS, padding=True, return_tensors="pt")
    assert torch.equal(by_model["input_ids"], padded["input_ids"])
    last = model(**padded).logits[:, -1].numpy()
    for row, prompt in zip(last, PROMPTS):
        assert np.array_equal(row, model.engine.read(prompt, model.engine.state(), all=True)[-1])
    greedy = [made.text for made in model.engine.generate(PROMPTS, max_tokens=4, temperature=0)]
    for beams in (1, 3):
        ids = model.generate(**padded, max_new_tokens=4, do_sample=False, num_beams=beams)
        assert written(tokenizer, padded, ids) == greedy == [" 82\n", " 13\n"]


def test_beams_take_copies_of_states(model):
    cache = model(torch.tensor([[49, 50], [51, 52]])).past_key_values
    first, second = cache.states
    assert first != second
    cache.reorder_cache(torch.tensor([1, 1]))
    assert cache.states[0] == cache.states[1] == second
    model(torch.tensor([[53], [54]]), past_key_values=cache)
    assert cache.states[0] != cache.states[1] and second.position == 2
    cache.batch_repeat_interleave(2)
    assert len(cache.states) == 4 and cache.states[0] == cache.states[1] != cache.states[2]
    cache.batch_select_indices(torch.tensor([3]))
    assert len(cache.states) == 1 and cache.get_seq_length() == 3


def test_several_texts_of_a_prompt(model, tokenizer):
    prompt = tokenizer([QUESTION], return_tensors="pt")
    torch.manual_seed(0)
    ids = model.generate(**prompt, max_new_tokens=4, do_sample=True, num_return_sequences=3)
    assert ids.shape == (3, 29)


def test_world_tokens_keep_their_bytes():
    path = os.environ.get("DELTASANE_WORLD_VOCABULARY", "")
    if not path:
        pytest.skip("DELTASANE_WORLD_VOCABULARY does not name rwkv_vocab_v20230424.txt")
    world = hf.EngineTokenizer.from_pretrained(path)
    assert world.eos_token_id == world.pad_token_id == 0 and world.padding_side == "left"
    text = "né 你好 <|rwkv_tokenizer_end_of_text|> #0"
    ids = world(text)["input_ids"]
    assert 0 not in ids and world.decode(ids) == text
    byte = deltasane.Tokenizer.open(path).encode(b"\xff").tolist()
    assert world.convert_ids_to_tokens(byte) == [f"\xff#{byte[0]}"] and world.convert_tokens_to_ids(f"\xff#{byte[0]}") == byte[0]
    assert len(set(world.get_vocab())) == world.vocab_size


def test_misuse(model, tmp_path):
    cache = model(torch.tensor([[49]])).past_key_values
    with pytest.raises(NotImplementedError, match="a state cannot forget"):
        cache.crop(0)
    with pytest.raises(NotImplementedError, match="copy its file"):
        model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="tokens: expected 0 to 255, found 256"):
        model(torch.tensor([[256]]))
