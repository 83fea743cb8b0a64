"""Models of the engine in EleutherAI's lm-evaluation-harness, of version 0.4.

    python -m deltasane.lm_eval run --model deltasane --model_args path=model.safetensors,device=cuda --tasks ...

is lm_eval's own program, with one model more. In a program of your own, importing this module registers it. Texts are read
whole, of any length: there are no windows. model_args are those of deltasane.Model.
"""

import copy
import itertools

import numpy as np
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from .model import _BLOCK, Model


@register_model("deltasane")
class DeltasaneLM(TemplateLM):
    """What lm_eval asks of a model. batch_size and device are lm_eval's own arguments; a text has no largest length."""

    def __init__(self, path, *, batch_size=None, max_batch_size=None, max_gen_toks=256, **options):
        super().__init__()
        self.model = Model(path, **{name: value for name, value in options.items() if value is not None})
        self.max_gen_toks = int(max_gen_toks)
        self._tokenizer = self.model.tokenizer

    @property
    def eot_token_id(self):
        end = self._tokenizer.end_of_document
        return 0 if end is None else end

    @property
    def tokenizer_name(self):
        return self.model.name

    def tok_encode(self, string, add_special_tokens=None, **_):
        return self._tokenizer.encode(string).tolist()

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        ids, _, _ = self._tokenizer.chat(chat_history)
        return self._tokenizer.decode(ids)

    def _loglikelihood_tokens(self, requests, **_):
        """The sum of log probabilities of each continuation, and whether each token of it is the likeliest."""
        found, shared, after = [], [], self.model.state()
        for _, context, continuation in requests:
            # Neighbours often share a context. It is cut where the engine cuts a text: sums stay the same in every bit.
            whole = (len(context) - 1) // _BLOCK * _BLOCK
            if context[: whole + 1] != shared:
                shared, after = context[: whole + 1], self.model.state()
                self.model.score(shared, after)
            rest = [*context[whole + 1 :], *continuation]
            if not continuation:
                found.append((0.0, True))
                continue
            likeliest = self.model.read(rest[:-1], copy.copy(after), all=True)[-len(continuation) :].argmax(-1)
            losses = self.model.score(rest, copy.copy(after))[-len(continuation) :]
            found.append((-float(losses.sum()), np.array_equal(likeliest, continuation)))
        return found

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        texts = ([self.prefix_token_id, *self.tok_encode(request.args[0])] for request in requests)
        return [-float(self.model.score(tokens).sum()) for tokens in texts]

    def generate_until(self, requests, disable_tqdm=False):
        found = []
        for settings, group in itertools.groupby((request.args for request in requests), key=lambda args: args[1]):
            prompts = [prompt for prompt, _ in group]
            found += [made.text for made in self.model.generate(prompts, **self._sampling(settings))]
        return found

    def _sampling(self, settings):
        """The options of Model.generate; what lm_eval has beside them is refused."""
        given = dict(settings)
        until = given.pop("until", [])
        options = {
            "stop": [until] if isinstance(until, str) else list(until),
            "max_tokens": int(given.pop("max_gen_toks", self.max_gen_toks)),
        }
        sampled = given.pop("do_sample", float(given.get("temperature", 0)) > 0)
        options["temperature"] = float(given.pop("temperature", 1.0)) if sampled else 0.0
        for name in ("top_p", "top_k", "seed"):
            if name in given:
                options[name] = given.pop(name)
        if given:
            raise ValueError(f"gen_kwargs: expected until, max_gen_toks, do_sample, temperature, top_p, top_k or seed, found {', '.join(given)}")
        return options


def main():
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
