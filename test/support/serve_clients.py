"""Real clients against a server that this script starts: serve_clients.py CLIENT PROGRAM MODEL

CLIENT is `imports MODULE...` (exit code 0 where all are there), `openai`, `langchain`, `curl`, `lm_eval`,
`guidellm` or `open_webui`. Whatever differs from what is expected ends it with an error.
"""
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request


class Server:
    def __init__(self, program, model):
        self.process = subprocess.Popen(
            [program, "serve", model, "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.name, _, self.url = self.process.stdout.readline().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, "exit code"


def run_openai(server, program, model):
    import openai
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert [one.id for one in client.models.list()] == [server.name]
    messages = [{"role": "user", "content": "3 + 4"}]
    wanted = dict(model=server.name, messages=messages, max_tokens=24, seed=3)
    whole = client.chat.completions.create(**wanted)
    text, usage = "", None
    for chunk in client.chat.completions.create(
            **wanted, stream=True, stream_options={"include_usage": True}):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content, text
    assert usage == whole.usage, usage
    scored = client.completions.create(
        model=server.name, prompt=["1 + 1", "2 + 2 = 4"], max_tokens=0, echo=True, logprobs=2)
    assert [len(one.logprobs.tokens) for one in scored.choices] == [5, 9]
    first = client.responses.create(model=server.name, input="3 + 4", max_output_tokens=100)
    second = client.responses.create(
        model=server.name, input="5 + 1", previous_response_id=first.id, max_output_tokens=100)
    assert second.usage.input_tokens_details.cached_tokens > 0, second.usage
    assert client.responses.retrieve(first.id).output_text == first.output_text
    with client.responses.stream(model=server.name, input="3 + 4", max_output_tokens=100) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text, text
    talk = client.conversations.create(metadata={"topic": "sums"})
    client.responses.create(
        model=server.name, input="3 + 4", conversation=talk.id, max_output_tokens=100)
    assert len(list(client.conversations.items.list(talk.id))) == 2
    kept = client.chat.completions.create(**wanted, extra_body={"return_state": True})
    state = kept.model_extra["deltasane"]["state_out"]
    turn = client.chat.completions.create(**wanted, extra_body={"state": state})
    assert turn.usage.prompt_tokens_details.cached_tokens > 0, turn.usage
    run_tools(server, program, model)
    run_response_tools(server, program, model)
    for bad, kind in [({"temperature": -1}, openai.BadRequestError),
                      ({"model": "other"}, openai.NotFoundError)]:
        try:
            client.chat.completions.create(**{**wanted, **bad})
        except kind as error:
            assert error.code and error.type == "invalid_request_error", error
        else:
            raise AssertionError(f"{bad} was taken")


def run_tools(server, program, model):
    """A model that must call a function: plain, streamed, and with the function's result."""
    import openai
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "op": {"type": "string", "enum": ["+", "-"]}},
              "required": ["a", "op"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}}]
    messages = [{"role": "user", "content": "3 + 4"}]
    wanted = dict(model=server.name, tools=tools, max_tokens=200, seed=3)
    choice, = client.chat.completions.create(**wanted, messages=messages, tool_choice="required",
                                             parallel_tool_calls=False).choices
    call, = choice.message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert choice.finish_reason == "tool_calls" and call.type == "function", choice
    assert call.function.name == "add" and set(arguments) == {"a", "op"}, call
    assert isinstance(arguments["a"], int) and arguments["op"] in "+-", arguments
    with client.chat.completions.stream(
            **wanted, messages=messages, parallel_tool_calls=False,
            tool_choice={"type": "function", "function": {"name": "add"}}) as stream:
        final = stream.get_final_completion()
    streamed, = final.choices[0].message.tool_calls
    assert streamed.function.arguments == call.function.arguments, (streamed, call)
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "7"}]
    answer, = client.chat.completions.create(**wanted, messages=messages, tool_choice="none").choices
    assert answer.message.content and not answer.message.tool_calls, answer
    try:
        client.chat.completions.create(
            **wanted, messages=messages[:1] + [{**messages[2], "tool_call_id": "other"}])
    except openai.BadRequestError as error:
        assert error.param == "messages[1].tool_call_id", error
    else:
        raise AssertionError("a result without a call was taken")


def run_response_tools(server, program, model):
    """The same with responses: a call as an item, as events, and results after a state and in a history."""
    import openai
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "op": {"type": "string", "enum": ["+", "-"]}},
              "required": ["a", "op"], "additionalProperties": False}
    tools = [{"type": "function", "name": "add", "description": "Adds.", "parameters": schema, "strict": True}]
    wanted = dict(model=server.name, tools=tools, max_output_tokens=200, parallel_tool_calls=False)
    question = [{"role": "user", "content": "3 + 4"}]
    forced = dict(tool_choice={"type": "function", "name": "add"}, temperature=0)
    first = client.responses.create(**wanted, **forced, input=question)
    call, = first.output
    arguments = json.loads(call.arguments)
    assert call.type == "function_call" and call.name == "add", call
    assert isinstance(arguments["a"], int) and arguments["op"] in "+-", arguments
    with client.responses.stream(**wanted, **forced, input=question) as stream:
        told = "".join(event.delta for event in stream if event.type == "response.function_call_arguments.delta")
        streamed, = stream.get_final_response().output
    assert told == streamed.arguments == call.arguments, (told, call)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
    after = client.responses.create(**wanted, input=[result], previous_response_id=first.id, temperature=0)
    assert after.output and after.usage.input_tokens_details.cached_tokens > 0, after
    history = client.responses.create(**wanted, input=question + first.output + [result], store=False, temperature=0)
    assert history.output_text and history.usage.input_tokens > first.usage.input_tokens + 20, history
    try:
        client.responses.create(**wanted, input=question + [result])
    except openai.BadRequestError as error:
        assert error.param == "input[1].call_id", error
    else:
        raise AssertionError("a result without a call was taken")


def run_langchain(server, program, model):
    from langchain_openai import ChatOpenAI
    wanted = dict(model=server.name, base_url=server.url + "/v1", api_key="none", max_retries=0,
                  max_completion_tokens=40, seed=3)
    chat = ChatOpenAI(**wanted)
    whole = chat.invoke("3 + 4")
    assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
    pieces = list(chat.stream("3 + 4", stream_usage=True))
    assert "".join(piece.content for piece in pieces) == whole.content, pieces
    assert sum(piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata) > 0
    del wanted["seed"]
    bound = ChatOpenAI(**{**wanted, "max_completion_tokens": 200}).bind_tools(
        [{"title": "Add", "description": "Adds.", "type": "object",
          "properties": {"a": {"type": "integer"}}, "required": ["a"]}], tool_choice="any")
    called = bound.invoke("3 + 4").tool_calls[0]
    assert called["name"] == "Add" and isinstance(called["args"]["a"], int), called
    turns = ChatOpenAI(**wanted, use_responses_api=True, use_previous_response_id=True)
    first = turns.invoke([("user", "3 + 4")])
    second = turns.invoke([("user", "3 + 4"), first, ("user", "5 + 1")])
    assert second.usage_metadata["input_token_details"]["cache_read"] > 0, second


def run_curl(server, program, model):
    def curl(*words, text=None):
        return subprocess.run(["curl", "-sS", "--max-time", "60", *words], input=text,
                              stdout=subprocess.PIPE, check=True, text=True).stdout
    kind = ["-H", "Content-Type: application/json"]
    body = json.dumps({"prompt": "User: 3 + 4\n\nAssistant:", "max_tokens": 12, "seed": 1, "stream": True})
    stream = curl("-N", *kind, "-d", body, server.url + "/v1/completions")
    assert stream.endswith("data: [DONE]\n\n"), stream
    text = "".join(json.loads(line[6:])["choices"][0]["text"]
                   for line in stream.split("\n") if line.startswith("data: {"))
    assert curl("--http1.0", "-N", *kind, "-d", body, server.url + "/v1/completions").count("data: ") > 2
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(body.replace('"stream": true', '"stream": false'))
        file.flush()
        whole = curl("-T", file.name, "-X", "POST", *kind, server.url + "/v1/completions")
    assert json.loads(whole)["choices"][0]["text"] == text, (whole, text)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("User: 3 + 4\n\nAssistant: 7\n\n" * 100)
        file.flush()
        state = json.loads(curl("-T", file.name, server.url + "/v1/states/new/read"))
        assert state["position"] == 2700 and 0 < state["loss"] < 8, state
        more = json.loads(curl("-T", "-", f"{server.url}/v1/states/{state['id']}/read", text="User: 5 + 5"))
        assert more["position"] == 2711, more
    assert curl("-o", "/dev/null", "-w", "%{http_code}", server.url + "/nothing") == "404"


def run_lm_eval(server, program, model):
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    lm = LocalCompletionsAPI(
        model=server.name, base_url=server.url + "/v1/completions", tokenizer_backend="remote",
        max_length=1000000, batch_size=2)

    def ask(method, *arguments):
        return getattr(lm, method)([
            Instance(method, {}, one, number) for number, one in enumerate(arguments)])

    def own_scores(ids):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(" ".join(map(str, ids)))
            file.flush()
            found = subprocess.run([program, "score", model, "--ids", file.name, "--per-token",
                                    "--json"], stdout=subprocess.PIPE, check=True)
        return json.loads(found.stdout)["log_probabilities"]

    pairs = [("User: 3 + 4\n\nAssistant:", " 3 + 4 = 7."), ("User: 3 + 4\n\nAssistant:", " 8"),
             ("12 + 30 =", " 42")]
    for (context, target), (score, greedy) in zip(pairs, ask("loglikelihood", *pairs)):
        own = own_scores(list((context + target).encode()))[-len(target):]
        assert score == sum(own), (context, target, score, sum(own))
        assert isinstance(greedy, bool)
    text = "User: 5 + 6\n\nAssistant: 5 + 6 = 11. The answer is 11.\n\n"
    rolling, = ask("loglikelihood_rolling", (text,))
    own = own_scores([0] + list(text.encode()))
    assert rolling == sum(own), (rolling, sum(own))
    answer, = ask("generate_until", ("User: 3 + 4\n\nAssistant:",
                                     {"until": ["\n\n"], "max_gen_toks": 40, "temperature": 0}))
    assert answer and "\n\n" not in answer, answer


def run_guidellm(server, program, model):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/prompts.jsonl", "w") as file:
            file.writelines(json.dumps({"prompt": f"{i} + 4"}) + "\n" for i in range(16))
        for format in ("/v1/chat/completions", "/v1/completions"):
            subprocess.run(
                [sys.executable, "-m", "guidellm", "run", "--backend",
                 f"kind=openai_http,target={server.url},request_format={format}", "--profile",
                 "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=12", "--data",
                 f"kind=json_file,path={folder}/prompts.jsonl", "--disable-console", "--output",
                 f"kind=json,path={folder}/found.json"], check=True, stdout=subprocess.DEVNULL)
            with open(folder + "/found.json") as file:
                run, = json.load(file)["benchmarks"]
            assert run["metrics"]["request_totals"]["successful"] >= 12, run["metrics"]["request_totals"]
            assert run["metrics"]["request_totals"]["errored"] == 0, run["metrics"]["request_totals"]
            for request in run["requests"]["successful"]:  # by the server's count
                assert request["output_metrics"]["text_tokens"] > 0, request


def run_open_webui(server, program, model):
    """Requests of the kind that Open WebUI sends: its headers, streams, titles and tags."""
    def call(path, body=None):
        headers = {"Content-Type": "application/json", "Authorization": "Bearer none",
                   "X-OpenWebUI-User-Name": "A%20B", "X-OpenWebUI-User-Id": "1", "X-OpenWebUI-User-Email": "a@b.example",
                   "X-OpenWebUI-User-Role": "user", "X-OpenWebUI-Chat-Id": "5f0e1c3a-1"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers)) as reply:
            return reply.headers, reply.read().decode()
    models = json.loads(call("/v1/models")[1])["data"]
    assert [one["id"] for one in models] == [server.name], models
    messages = [{"role": "user", "content": "3 + 4"}]
    headers, stream = call("/v1/chat/completions", {
        "stream": True, "model": server.name, "messages": messages, "stream_options": {"include_usage": True},
        "temperature": 0.8, "max_tokens": 60})
    assert headers["Content-Type"].startswith("text/event-stream") and stream.endswith("data: [DONE]\n\n")
    events = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
    text = "".join(one["choices"][0]["delta"].get("content", "") for one in events if one["choices"])
    assert text and events[-1]["usage"]["completion_tokens"] > 0, events[-1]
    # A title, tags and follow-up questions: not streamed; the image of the user is refused by name.
    task = [{"role": "user", "content": "### Task:\nGenerate a title.\n<chat_history>\nUSER: 3 + 4\n</chat_history>"}]
    for limit in ({"max_tokens": 40}, {"max_completion_tokens": 40}):
        reply = json.loads(call("/v1/chat/completions", {
            "model": server.name, "messages": task, "stream": False, **limit})[1])
        assert reply["choices"][0]["message"]["role"] == "assistant", reply
    parts = [{"type": "text", "text": "3 + 4"}]
    call("/v1/chat/completions", {"model": server.name, "max_tokens": 2, "messages": [
        *messages, {"role": "assistant", "content": text}, {"role": "user", "content": parts}]})
    try:
        call("/v1/chat/completions", {"model": server.name, "messages": [
            {"role": "user", "content": [*parts, {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}]})
    except urllib.error.HTTPError as error:
        assert error.code == 400 and json.load(error)["error"]["param"] == "messages[0].content[1].type"
    else:
        raise AssertionError("an image was taken")


def main(client, *words):
    if client == "imports":
        sys.exit(any(importlib.util.find_spec(module) is None for module in words))
    with Server(*words) as server:
        {"openai": run_openai, "langchain": run_langchain, "curl": run_curl,
         "lm_eval": run_lm_eval, "guidellm": run_guidellm, "open_webui": run_open_webui}[client](server, *words)


main(*sys.argv[1:])
