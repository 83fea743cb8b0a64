"""Opens what `deltasane publish` wrote with the programs that it was written for.

    load_published.py imports MODULE...       fails where one is not installed
    load_published.py pth FILE...             a line for each tensor: name, type, shape, CRC-32
    load_published.py gguf FILE...            a line for each tensor: name, CRC-32 of its float32 numbers
    load_published.py fla FOLDER TOKENS OUT   logits of the tokens, as raw float32 to OUT
    load_published.py transformers FOLDER TOKENS OUT    the same of a model of that library
    load_published.py tokenizer FOLDER TEXTS  ids of each text of a JSON list, and the texts again
"""
import importlib
import json
import os
import sys
import warnings
import zlib

# fla's kernels are Triton's, which its interpreter runs on a CPU; there is nothing to tune or compile.
os.environ.update(TRITON_INTERPRET="1", TORCH_COMPILE_DISABLE="1", HF_HUB_OFFLINE="1")
warnings.simplefilter("ignore")


def show_pth(*paths):
    import torch

    for path in paths:
        for name, tensor in torch.load(path, weights_only=True).items():
            data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            print(name, str(tensor.dtype), list(tensor.shape), zlib.crc32(data))


def show_gguf(*paths):
    import numpy
    from gguf import GGUFReader, dequantize

    for path in paths:
        for tensor in GGUFReader(path).tensors:
            numbers = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
            print(tensor.name, zlib.crc32(numpy.ascontiguousarray(numbers).tobytes()))


def run_fla(folder, tokens, out):
    from triton.runtime.autotuner import Autotuner

    Autotuner._bench = lambda self, *args, **kwargs: [0.0, 0.0, 0.0]
    import fla  # adds its kinds of models to transformers'
    import torch
    from safetensors import safe_open

    model = opened(folder)
    loaded = model.state_dict()
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
        for name in file.keys():
            if not name.endswith("_tau"):
                assert torch.equal(loaded.pop(name), file.get_tensor(name).float()), name
    assert not loaded, loaded.keys()
    write_logits(model, tokens, out)


def run_transformers(folder, tokens, out):
    sys.modules["fla"] = None  # its own code, and not the kernels for GPUs that it takes from there
    # experts of any size, also those that grouped products do not take
    write_logits(opened(folder, experts_implementation="eager"), tokens, out)


def opened(folder, **options):
    import torch
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, **options
    )
    assert not report["missing_keys"] and not report["mismatched_keys"], report
    assert all(name.endswith("_tau") for name in report["unexpected_keys"]), report
    return model.eval()


def write_logits(model, tokens, out):
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([json.loads(tokens)])).logits
    logits[0].float().numpy().tofile(out)
    print("sane", json.dumps(getattr(model.config, "sane", None)))


def show_tokenizer(folder, texts):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    messages = [{"role": "user", "content": " hi "}]
    found = {
        "ids": [tokenizer(text)["input_ids"] for text in json.loads(texts)],
        "end": tokenizer.eos_token_id,
        "chat": tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
    }
    found["texts"] = [tokenizer.decode(ids) for ids in found["ids"]]
    print("found", json.dumps(found))


if __name__ == "__main__":
    command, words = sys.argv[1], sys.argv[2:]
    if command == "imports":
        for word in words:
            importlib.import_module(word)
    else:
        {
            "pth": show_pth,
            "gguf": show_gguf,
            "fla": run_fla,
            "transformers": run_transformers,
            "tokenizer": show_tokenizer,
        }[command](*words)
