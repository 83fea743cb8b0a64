"""Models of the engine for Hugging Face's transformers: generate(), pipelines and whatever takes a PreTrainedModel.

    model = deltasane.hf.DeltasaneForCausalLM.from_pretrained("model.safetensors")
    tokenizer = deltasane.hf.EngineTokenizer.from_pretrained("model.safetensors")

The weights stay in the engine: the model has no parameters of torch's, and no gradients. For training use deltasane.ops or
deltasane.Trainer.
"""

import copy
import os

import numpy as np
import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel, PreTrainedTokenizer
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast

from .model import Model, Tokenizer


class DeltasaneConfig(PretrainedConfig):
    """Where the model is, and how it was opened."""

    model_type = "deltasane"

    def __init__(self, path="", options=None, description=None, **kwargs):
        super().__init__(**kwargs)
        self.path, self.options = path, dict(options or {})
        found = description or {}
        self.vocab_size = found.get("vocabulary", 0)
        self.hidden_size, self.num_hidden_layers = found.get("channels", 0), found.get("layers", 0)


class StateCache(Cache):
    """One state for each row, instead of keys and values. It cannot be cut back: a state forgets."""

    is_compileable = False

    def __init__(self, states):
        super().__init__(layers=[])
        self.states = states
        self.length = 0  # of a row, with padding

    def get_seq_length(self, layer_idx=0):
        return self.length

    def get_max_cache_shape(self, layer_idx=0):
        return -1

    def reorder_cache(self, beam_idx):
        self.states = [copy.copy(self.states[i]) for i in beam_idx.tolist()]

    def batch_repeat_interleave(self, repeats):
        self.states = [copy.copy(state) for state in self.states for _ in range(repeats)]

    def batch_select_indices(self, indices):
        self.states = [self.states[i] for i in indices.tolist()]

    def crop(self, max_length):
        raise NotImplementedError("StateCache.crop: expected to go on, as a state cannot forget its last tokens; keep a copy of it")


class DeltasaneForCausalLM(PreTrainedModel, GenerationMixin):
    """deltasane.Model in the shape of a PreTrainedModel. Logits are float32 on the CPU."""

    config_class = DeltasaneConfig
    main_input_name = "input_ids"
    _is_stateful = True
    _supports_cache_class = True

    def __init__(self, config, engine=None):
        super().__init__(config)
        self.engine = Model(config.path, **config.options) if engine is None else engine

    @classmethod
    def from_pretrained(cls, path, **options):
        """A file or folder that deltasane.Model opens, with its options."""
        engine = Model(path, **options)
        config = DeltasaneConfig(os.fspath(path), options, engine.description)
        end = engine.tokenizer.end_of_document
        model = cls(config, engine)
        model.generation_config.eos_token_id = end
        model.generation_config.pad_token_id = 0 if end is None else end
        return model

    @property
    def device(self):
        return torch.device("cpu")  # of inputs and logits

    @property
    def dtype(self):
        return torch.float32

    def save_pretrained(self, *_, **__):
        raise NotImplementedError("save_pretrained: expected a model of torch, found one of the engine; copy its file")

    def get_input_embeddings(self):
        return None

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, attention_mask=None, **_):
        if not isinstance(past_key_values, StateCache):
            past_key_values = None
        read = 0 if past_key_values is None else past_key_values.get_seq_length()
        return {
            "input_ids": input_ids[:, read:],
            "past_key_values": past_key_values,
            "attention_mask": None if attention_mask is None else attention_mask[:, read:],
            "use_cache": True,
        }

    def _prepare_cache_for_generation(self, *_, **__):
        """None: forward makes the states."""

    def forward(
        self, input_ids, past_key_values=None, attention_mask=None, use_cache=None, labels=None, logits_to_keep=0,
        return_dict=None, **_,
    ):  # fmt: skip
        """attention_mask: 0 is padding, on the left or anywhere; its logits are 0, and it is not read."""
        rows, time = input_ids.shape
        cache = StateCache([self.engine.state() for _ in range(rows)]) if past_key_values is None else past_key_values
        present = np.ones((rows, time), bool) if attention_mask is None else attention_mask[:, -time:].numpy(force=True) > 0
        ids = input_ids.numpy(force=True)
        logits = np.zeros((rows, time, self.config.vocab_size), np.float32)
        for row, state in enumerate(cache.states):
            if present[row].any():
                logits[row, present[row]] = self.engine.read(ids[row, present[row]], state, all=True)
        cache.length += time
        found = torch.from_numpy(logits)
        loss = None if labels is None else _shifted_loss(found, labels)
        kept = found[:, -logits_to_keep:] if isinstance(logits_to_keep, int) else found[:, logits_to_keep]
        return CausalLMOutputWithPast(loss=loss, logits=kept, past_key_values=cache if use_cache is not False else None)


def _shifted_loss(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


END_OF_DOCUMENT = "<|rwkv_tokenizer_end_of_text|>"


class EngineTokenizer(PreTrainedTokenizer):
    """The engine's tokenizer of any model: World, byte-level BPE, bytes. Names of special tokens in a text are letters.

    A token's name is its bytes as latin-1, and its id, so that no byte is lost and no two are the same.

    >>> tokenizer = EngineTokenizer.from_pretrained("byte")
    >>> ids = tokenizer("né")["input_ids"]
    >>> ids, tokenizer.decode(ids)
    ([110, 195, 169], 'né')
    """

    vocab_files_names = {}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, engine_tokenizer, **kwargs):
        self._engine = engine_tokenizer
        kwargs.setdefault("padding_side", "left")
        kwargs.setdefault("split_special_tokens", True)
        if engine_tokenizer.end_of_document is not None:
            kwargs.setdefault("eos_token", END_OF_DOCUMENT)
        kwargs.setdefault("pad_token", self._convert_id_to_token(engine_tokenizer.end_of_document or 0))  # the mask tells
        super().__init__(**kwargs)

    @classmethod
    def from_pretrained(cls, path, **kwargs):
        """"byte", a vocabulary file, or a folder, file or model with one, as Tokenizer.open takes them."""
        return cls(Tokenizer.open(path), **kwargs)

    @property
    def vocab_size(self):
        return self._engine.vocabulary

    def get_vocab(self):
        return {self._convert_id_to_token(i): i for i in range(self.vocab_size)}

    def _tokenize(self, text, **_):
        return [self._convert_id_to_token(i) for i in self._engine.encode(text).tolist()]

    def _convert_token_to_id(self, token):
        return self._engine.end_of_document if token == END_OF_DOCUMENT else int(token.rpartition("#")[2])

    def _convert_id_to_token(self, index):
        if index == self._engine.end_of_document:
            return END_OF_DOCUMENT
        return f"{self._engine.bytes(index).decode('latin-1')}#{index}"

    def convert_tokens_to_string(self, tokens):
        return self._engine.decode([self._convert_token_to_id(token) for token in tokens])

    def save_vocabulary(self, save_directory, filename_prefix=None):
        raise NotImplementedError("save_vocabulary: expected a vocabulary of transformers, found the engine's; copy its file")
