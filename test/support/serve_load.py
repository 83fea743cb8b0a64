"""Many clients of a server at once: serve_load.py PROGRAM MODEL [--clients N] [--seconds S] [--device D] [--threads T]
    [--tokenizer FILE] [--speed]

Without --speed every client has a secret of its own: a sum that no other one asks. Each streams the same
answer again and again, by itself and from a state that has read the question, until the time is over. An
answer that differs from what `PROGRAM generate` writes with the same seed, by a letter, a token lost or
doubled, or a secret of somebody else, is an error.

With --speed the clients stream texts of 256 tokens for S seconds. Tokens/s in all, by the server's own count,
the processor's microseconds for a token, the time to the first token of a prompt of 512 tokens on the
idle server, and of a turn after each of --turns tokens, are printed as JSON.

With --sessions N clients go away in the middle of their streams, and N states are kept at once, of which some
are continued: each text must be that of the whole prompt.

Only Python's own library is used.
"""
import argparse
import asyncio
import glob
import json
import multiprocessing
import os
import random
import selectors
import shutil
import signal
import socket
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


def request_for(body):
    data = json.dumps(body).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data)) + data


def stream_texts(path, clients, end):
    """A process of its own with some of the clients: they read what comes, and look only for the ends."""
    request = request_for({"prompt": "User: 3 + 4", "max_tokens": 256, "ignore_eos": True, "stream": True})
    selector, buffer = selectors.DefaultSelector(), bytearray(1 << 16)
    for _ in range(clients):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(request)
        selector.register(client, selectors.EVENT_READ, [b""])
    while selector.get_map():
        for key, _ in selector.select():
            count = key.fileobj.recv_into(buffer)
            assert count, "expected a server that stays"
            key.data[0] = (key.data[0] + bytes(memoryview(buffer)[:count]))[-64:]
            if not key.data[0].endswith(b"[DONE]\n\n\r\n0\r\n\r\n"):
                continue
            if time.monotonic() < end:
                key.fileobj.sendall(request)
            else:
                selector.unregister(key.fileobj)


async def first_token(connection, body):
    """Milliseconds; the median of seven."""
    times = []
    for turn in range(7):
        began = time.monotonic()
        _, events = await connection.call("POST", "/v1/completions", {**body(turn), "max_tokens": 1, "stream": True})
        times.append(events[0][0] - began)
    return round(statistics.median(times) * 1000, 2)


async def first_tokens(path, turns):
    connection = Connection(path)
    found = {"first_token_of_512_ms": await first_token(
        connection, lambda turn: {"prompt": [(i * 7 + turn) % 200 + 20 for i in range(512)]})}
    for tokens in turns:  # of a conversation
        began = time.monotonic()
        status, state = await connection.call("POST", "/v1/states", {"prompt": [i * 7 % 200 + 20 for i in range(tokens)]})
        assert status in (200, 201), state
        found[f"read_{tokens}_s"] = round(time.monotonic() - began, 2)
        found[f"turn_after_{tokens}_ms"] = await first_token(
            connection, lambda turn: {"prompt": [turn + 40] * 16, "state": state["id"]})
    return found


async def metric(path, name):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    lines = (await reader.read()).decode().split("\n")
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"deltasane_{name}"))


def thread_seconds(process):
    """Processor time of each thread of the server."""
    found = {}
    for stat in glob.glob(f"/proc/{process}/task/*/stat"):
        with open(stat) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        found[stat] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


async def measure(options, path, process):
    found = await first_tokens(path, options.turns)
    await asyncio.sleep(0.5)
    count = min(options.clients, options.processes)
    shares = [options.clients // count + (i < options.clients % count) for i in range(count)]
    end = time.monotonic() + 1 + options.seconds
    clients = [multiprocessing.Process(target=stream_texts, args=(path, share, end)) for share in shares]
    for client in clients:
        client.start()
    await asyncio.sleep(1)  # all have begun
    samples = []
    for pause in (options.seconds - 0.5, 0):
        samples.append((time.monotonic(), await metric(path, "generation_tokens_total"), thread_seconds(process)))
        await asyncio.sleep(pause)
    for client in clients:
        client.join()
        assert client.exitcode == 0, "a client failed"
    (began, before, busy), (ended, after, busier) = samples
    tokens = after - before
    used = sorted((busier[one] - busy.get(one, 0) for one in busier), reverse=True)
    return {"clients": options.clients, "tokens_per_second": round(tokens / (ended - began), 1),
            "processor_us_per_token": round(sum(used) / tokens * 1e6, 2),
            "busiest_threads_us_per_token": [round(one / tokens * 1e6, 2) for one in used[:6]], **found}


async def leave(path, number):
    """A stream that its client leaves after some bytes."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request_for({"prompt": question_of(number), "max_tokens": 100000, "ignore_eos": True, "stream": True}))
    left = random.randrange(4000)
    while left > 0:
        left -= len(await reader.read(4096))
    writer.transport.abort()


async def continue_one(path, number, state):
    connection, wanted = Connection(path), {"max_tokens": 12, "seed": number, "temperature": 1.5}
    texts = []
    for body in ({"prompt": "\n", "state": state}, {"prompt": question_of(number) + "\n"}):
        status, reply = await connection.call("POST", "/v1/completions", {**wanted, **body})
        assert status == 200, reply
        texts.append(reply["choices"][0]["text"])
    assert texts[0] == texts[1], texts


async def many_sessions(path, count):
    for first in range(0, count, 250):
        await asyncio.gather(*(leave(path, number) for number in range(first, min(first + 250, count))))
    while await metric(path, "num_requests"):  # running and waiting
        await asyncio.sleep(0.05)
    connection, states = Connection(path), []
    for number in range(count):
        status, state = await connection.call("POST", "/v1/states", {"prompt": question_of(number)})
        assert status in (200, 201), state
        states.append(state["id"])
    some = random.sample(range(count), min(count, 256))
    for first in range(0, len(some), 32):
        await asyncio.gather(*(continue_one(path, number, states[number]) for number in some[first:first + 32]))
    return {"left": count, "kept": count, "continued": len(some),
            "state_megabytes": round(await metric(path, "state_bytes") / 1e6)}


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
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--turns", type=int, nargs="*", default=[], help="tokens of a conversation")
    parser.add_argument("--processes", type=int, default=8, help="of the clients")
    parser.add_argument("--states", help="a folder for states")
    options = parser.parse_args()
    wanted = {} if options.speed or options.sessions else expected(options, range(options.clients))
    # A local socket: addresses may have 64 connections each.
    folder = tempfile.mkdtemp()
    path = folder + "/socket"
    words = [options.program, "serve", options.model, "--host", "unix:" + path, "--device", options.device,
             "--threads", options.threads, "--queue", "4096", "--batch", str(min(options.clients, 256))]
    words += ["--tokenizer", options.tokenizer] if options.tokenizer else []
    words += ["--states", options.states] if options.states else []
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        if not server.stdout.readline():
            sys.exit("serve_load.py: expected a server that begins, found none")
        work = (measure(options, path, server.pid) if options.speed else many_sessions(path, options.sessions)
                if options.sessions else keep_secrets(options, path, wanted))
        print(json.dumps(asyncio.run(work)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, "exit code"
    finally:
        server.kill()
        shutil.rmtree(folder)


main()
