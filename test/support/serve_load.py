"""Many clients of a server at once: serve_load.py PROGRAM MODEL [--clients N] [--seconds S] [--device D] [--threads T]
    [--tokenizer FILE] [--speed]

Without --speed every client has a secret of its own: a sum that no other one asks. Each streams the same
answer again and again, by itself and from a state that has read the question, until the time is over. An
answer that differs from what `PROGRAM generate` writes with the same seed, by a letter, a token lost or
doubled, or a secret of somebody else, is an error.

With --speed the clients stream texts of 256 tokens for S seconds; tokens/s in all, and the time to the
first token of a prompt of 512 tokens on the idle server, are printed as JSON.

Only Python's own library is used.
"""
import argparse
import asyncio
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time


class Connection:
    def __init__(self, path):
        self.path, self.writer = path, None

    async def call(self, method, path, body=None):
        """Status, and the reply's JSON; of a stream, the JSON of its events and when each came."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_unix_connection(self.path, limit=1 << 22)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
        self.writer.write((head + "Content-Type: application/json\r\n\r\n").encode() + data)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        status = int(lines[0].split()[1])
        fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        if "content-length" in fields:
            reply = json.loads(await self.reader.readexactly(int(fields["content-length"])))
        else:
            reply, text = [], b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                text += (await self.reader.readexactly(size + 2))[:-2]
                *events, text = text.split(b"\n\n")
                reply += [(time.monotonic(), json.loads(one[6:])) for one in events
                          if one.startswith(b"data: {")]
            await self.reader.readexactly(2)
        if fields.get("connection") == "close":
            self.writer.close()
            self.writer = None
        return status, reply


def question_of(number):
    return f"User: {number % 90 + 10}+{number // 90 + 10}=?\n\nAssistant:"


def expected(options, numbers):
    """What `generate` writes for each client, with its seed."""
    texts = {}
    for number in numbers:
        words = [options.program, "generate", options.model, "--prompt", question_of(number), "--seed", str(number),
                 "--tokens", "24", "--temperature", "1.5", "--device", options.device, "--threads", options.threads]
        text = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
        texts[number] = text.removesuffix("\n")  # it ends the output
    return texts


async def keep_secret(path, number, wanted, end, counts):
    connection, state = Connection(path), None
    status, state = await connection.call("POST", "/v1/states", {"prompt": question_of(number)[:16]})
    assert status == 200, state
    turn = 0
    while time.monotonic() < end or turn < 2:
        body = {"prompt": question_of(number), "max_tokens": 24, "seed": number, "temperature": 1.5,
                "stream": True, "stream_options": {"include_usage": True}}
        if turn % 2:  # the first tile is in the state
            body.update(prompt=question_of(number)[16:], state=state["id"])
        status, events = await connection.call("POST", "/v1/completions", body)
        assert status == 200, events
        text = "".join(one["choices"][0]["text"] for _, one in events if one["choices"])
        assert text == wanted, f"client {number}: expected {wanted!r}, found {text!r}"
        written = events[-1][1]["usage"]["completion_tokens"]
        assert written in (len(text), len(text) + 1), (written, text)  # a token that ends the text
        counts["answers"] += 1
        counts["tokens"] += written
        turn += 1
    status, _ = await connection.call("DELETE", "/v1/states/" + state["id"])
    assert status == 200


async def stream(path, end, counts):
    connection = Connection(path)
    while time.monotonic() < end:
        status, events = await connection.call("POST", "/v1/completions", {
            "prompt": "User: 3 + 4", "max_tokens": 256, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}})
        assert status == 200, events
        counts["tokens"] += events[-1][1]["usage"]["completion_tokens"]


async def first_tokens(path):
    connection, times = Connection(path), []
    for round in range(7):
        body = {"prompt": [(i * 7 + round) % 200 + 20 for i in range(512)], "max_tokens": 1, "stream": True}
        began = time.monotonic()
        _, events = await connection.call("POST", "/v1/completions", body)
        times.append(events[0][0] - began)
    return statistics.median(times)


async def measure(options, path):
    counts = {"tokens": 0}
    first = await first_tokens(path)
    began = time.monotonic()
    await asyncio.gather(*(stream(path, began + options.seconds, counts) for _ in range(options.clients)))
    seconds = time.monotonic() - began
    return {"clients": options.clients, "seconds": round(seconds, 1), "tokens_per_second": round(counts["tokens"] / seconds, 1),
            "first_token_of_512_ms": round(first * 1000, 2)}


async def keep_secrets(options, path, wanted):
    counts = {"answers": 0, "tokens": 0}
    end = time.monotonic() + options.seconds
    await asyncio.gather(*(keep_secret(path, number, text, end, counts) for number, text in wanted.items()))
    return {"clients": options.clients, **counts}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--tokenizer", help="where the model has none")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    wanted = {} if options.speed else expected(options, range(options.clients))
    # A local socket: addresses may have 64 connections each.
    folder = tempfile.mkdtemp()
    path = folder + "/socket"
    words = [options.program, "serve", options.model, "--host", "unix:" + path, "--device", options.device,
             "--threads", options.threads, "--queue", "4096", "--batch", str(min(options.clients, 256))]
    words += ["--tokenizer", options.tokenizer] if options.tokenizer else []
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        if not server.stdout.readline():
            sys.exit("serve_load.py: expected a server that begins, found none")
        work = measure(options, path) if options.speed else keep_secrets(options, path, wanted)
        print(json.dumps(asyncio.run(work)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, "exit code"
    finally:
        server.kill()
        shutil.rmtree(folder)


main()
