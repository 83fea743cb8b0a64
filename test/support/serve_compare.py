"""`deltasane serve` beside llama-server on a CPU, in turns, with one model: serve_compare.py PROGRAM --peer PEER
    [--size 0.4B] [--type q8_0] [--threads 2] [--rounds 3] [--clients 1 8] [--tokens 128] [--folder DIR]

PEER is the path of a llama-server, or a Python that has the package xllamacpp (llama.cpp's server in a wheel).
The model has random weights and a vocabulary of the World tokenizer's form. All clients of a round stream a text
of --tokens tokens at once; tokens/s are those of all, from the first request to the last event. Then `bench
model` of the same batches, without a server. Prints JSON: every round, and ratios of medians. Two
minutes on two quiet cores; a machine that does other work gives other numbers.
"""
import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

LLAMA = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_parallel, params.n_ctx = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[4])
params.port, params.n_gpu_layers = int(sys.argv[5]), 0
server = xllamacpp.Server(params)
time.sleep(3600)
"""


def write_vocabulary(path):
    with open(path, "w") as file:
        for byte in range(256):
            print(byte + 1, repr(bytes([byte])) if byte > 126 or byte < 32 else repr(chr(byte)), 1, file=file)
        for i in range(257, 65530):
            text, n = "", i
            while n:
                text, n = text + "etaoinshrdlucmfw"[n % 16], n // 16
            print(i, repr(" " + text), len(text) + 1, file=file)


def make_model(options, folder):
    words, made = folder + "/vocabulary.txt", f"{folder}/random-{options.size}-{options.type}.gguf"
    if not os.path.exists(made):
        write_vocabulary(words)
        plain = folder + "/plain.safetensors"
        for command in (["bench", "weights", options.size, plain, "--type", "f16"],
                        ["convert", plain, made, "--type", options.type, "--tokenizer", words]):
            subprocess.run([options.program, *command], check=True, stdout=subprocess.DEVNULL)
        os.remove(plain)
    return made


def own_server(options, model, clients, port):
    return [options.program, "serve", model, "--port", str(port), "--threads", str(options.threads),
            "--batch", str(clients)]


def peer_server(options, model, clients, port):
    context = clients * (options.tokens + 64)
    if os.path.basename(options.peer).startswith("python"):
        return [options.peer, "-c", LLAMA, model, str(clients), str(context), str(options.threads), str(port)]
    return [options.peer, "-m", model, "-np", str(clients), "-c", str(context), "-t", str(options.threads),
            "--host", "127.0.0.1", "--port", str(port), "-ngl", "0"]


def ask(port, number, tokens, found):
    body = {"prompt": f"User: {number} + 4", "max_tokens": tokens, "ignore_eos": True, "stream": True, "seed": number,
            "temperature": 1, "top_p": 0.8, "top_k": 20, "cache_prompt": False, "stream_options": {"include_usage": True}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    for line in reply:
        if line.startswith(b"data: {"):
            usage = json.loads(line[6:]).get("usage")
            found[number] = usage["completion_tokens"] if usage else found.get(number)
    connection.close()


def stream(port, clients, tokens):
    found, began = {}, time.monotonic()
    threads = [threading.Thread(target=ask, args=(port, number, tokens, found)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    assert found == dict.fromkeys(range(clients), tokens), f"expected {tokens} tokens of each client, found {found}"
    return clients * tokens / seconds


def measure(words, port, clients, tokens):
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(words, stdout=nowhere, stderr=nowhere)
    try:
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            assert process.poll() is None, f"expected a server that stays: {words}"
            time.sleep(0.1)
        stream(port, clients, 8)  # memory is there, and files are read
        return stream(port, clients, tokens)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def peer_build(options):
    """Wheels are built for any processor of a kind: a llama-server built for this one may be faster."""
    words = [options.peer, "--version"]
    if os.path.basename(options.peer).startswith("python"):
        words = [options.peer, "-c", "import xllamacpp as x; print(x.__version__, x.get_system_info())"]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return " ".join(told.split())


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def bench(options, model):
    words = [options.program, "bench", "model", model, "--threads", str(options.threads), "--prompts", "16",
             "--decode", "32", "--batches", *map(str, options.clients), "--json"]
    rows = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)["rows"]
    return {int(row["pass"].rsplit(" ", 1)[1]): row["tokens_per_s"] for row in rows
            if row["pass"].startswith("decode, batch")}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--size", default="0.4B")
    parser.add_argument("--type", default="q8_0")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--folder", help="where the model is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = make_model(options, options.folder or scratch)
        alone = bench(options, model)
        print(json.dumps({"model": os.path.basename(model), "threads": options.threads, "peer": peer_build(options)}),
              flush=True)
        for clients in options.clients:
            rates = {"serve": [], "llama-server": []}
            for _ in range(options.rounds):
                for name, command in (("serve", own_server), ("llama-server", peer_server)):
                    port = free_port()
                    rate = measure(command(options, model, clients, port), port, clients, options.tokens)
                    rates[name].append(round(rate, 1))
            own, peer = (statistics.median(one) for one in rates.values())
            print(json.dumps({"clients": clients, **rates, "bench model": round(alone[clients], 1),
                              "serve / llama-server": round(own / peer, 2),
                              "serve / bench model": round(own / alone[clients], 2)}), flush=True)


main()
