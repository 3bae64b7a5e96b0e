# SPDX-License-Identifier: Apache-2.0
"""The synchronous client against the server, with the demo model. Greedy answers are compared with each other."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any, Literal

import pytest
from conftest import WAIT_S, Guarded, Server

from dunlin_client import (NO_RETRY, CancelledError, Client, DeadlineExceededError, FailedPreconditionError,
                           InvalidArgumentError, Message, NamedTool, NotFoundError, PermissionDeniedError,
                           ResourceExhaustedError, Tls, UnauthenticatedError, UnavailableError, requests)

README = (pathlib.Path(__file__).resolve().parents[1] / "README.md").read_text()
WEATHER: dict[str, Any] = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
                   "additionalProperties": False}}}


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README, re.S))
def test_examples_of_the_readme(example: str, server: Server, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DUNLIN_ADDRESS", server.grpc)
    exec(compile(example, "README.md", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert "fp8" in printed if "precision=" in example else "Execution(" in printed


def test_generates_with_the_chosen_profile(client: Client) -> None:
    answer = client.generate("The dunlin is", max_tokens=8, temperature=0, attention_backend="math", precision="fp8",
                             logprobs=2, prompt_logprobs=1, ignore_eos=True, request_id="mine")
    execution = answer.execution
    assert (execution.device, execution.attention_backend, execution.precision) == ("cpu", "math", "fp8")
    assert execution.recipe == "per_token"
    assert len(answer.token_ids) == len(answer.logprobs) == answer.usage.completion_tokens == 8
    assert [token.token_id for token in answer.logprobs] == list(answer.token_ids)
    assert all(len(token.top) == 2 and token.logprob <= 0 and token.rank == 1 for token in answer.logprobs)
    assert len(answer.prompt_logprobs) == answer.usage.prompt_tokens - 1
    assert (answer.finish_reason, answer.request_id) == ("length", "mine")
    assert b"".join(token.token_bytes for token in answer.logprobs).decode() == answer.text


def test_speculation_changes_no_token_and_is_told(client: Client) -> None:
    choices: tuple[Literal["off", "auto"] | int, ...] = ("off", 0, 8, "auto")
    answers = [client.generate("One bird", max_tokens=40, temperature=0, ignore_eos=True, allowed_token_ids=[300],
                               speculation=choice) for choice in choices]
    assert len({answer.token_ids for answer in answers}) == 1
    drafted = [answer.usage.drafted_tokens for answer in answers]
    assert drafted[:2] == [0, 0] and drafted[2] > 0
    assert all(answer.usage.accepted_tokens <= answer.usage.drafted_tokens for answer in answers)
    with pytest.raises(InvalidArgumentError) as refused:
        client.generate("The", speculation=17)
    assert refused.value.field == "execution.speculation"
    with pytest.raises(TypeError, match="speculation"):
        client.embed(["The"], speculation=1)  # type: ignore[call-arg]


def test_stream_is_generate_by_chunks(client: Client) -> None:
    whole = client.generate("The history of", max_tokens=24, seed=7, n=2)
    stream = client.stream("The history of", max_tokens=24, seed=7, n=2)
    chunks = list(stream)
    assert stream.execution == whole.execution and stream.request_id
    for output in whole.outputs:
        own = [chunk for chunk in chunks if chunk.index == output.index]
        assert "".join(chunk.text for chunk in own) == output.text
        assert sum((chunk.token_ids for chunk in own), ()) == output.token_ids
        assert [chunk.finish is not None for chunk in own] == [False] * (len(own) - 1) + [True]
    assert stream.result().text == whole.text


def test_token_ids_stops_and_texts_that_stand_alone(client: Client) -> None:
    free = client.generate("The dunlin", max_tokens=12, temperature=0, ignore_eos=True)
    first = free.text[:3]
    stopped = client.generate("The dunlin", max_tokens=12, temperature=0, stop=first, include_stop=True)
    assert (stopped.finish_reason, stopped.outputs[0].finish.stop, stopped.text) == ("stop", first, first)
    assert client.generate([5, 6, 7], max_tokens=3, omit_text=True).usage.prompt_tokens == 3
    assert client.generate("A bird:", max_tokens=9, choice=["tern", "gull"]).text in ("tern", "gull")


def test_chats_and_structured_output(client: Client) -> None:
    asked = client.chat("What does the dunlin eat?", temperature=0, max_tokens=60)
    assert asked.text and asked.finish_reason == "stop" and not asked.tool_calls
    assert client.chat([Message("user", "What does the dunlin eat?")], temperature=0, max_tokens=60).text == asked.text
    with client.stream_chat("What does the dunlin eat?", temperature=0, max_tokens=60) as stream:
        assert "".join(chunk.text for chunk in stream) == asked.text
    legs = {"type": "object", "properties": {"legs": {"enum": [2, 4]}}, "required": ["legs"],
            "additionalProperties": False}
    for schema in (legs, json.dumps(legs)):
        assert json.loads(client.chat("How many legs?", json_schema=schema, max_tokens=60).text)["legs"] in (2, 4)


@pytest.mark.parametrize("choice", ["required", NamedTool("get_weather")])
def test_calls_tools_and_takes_their_results(client: Client, choice: Any) -> None:
    question = Message("user", "How is the weather in Wrenmouth?")
    answer = client.chat([question], tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False, max_tokens=120,
                         seed=3)
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.tool_calls
    assert call.name == "get_weather" and set(call.arguments) == {"city"} and call.id
    turns = [question, Message("assistant", tool_calls=answer.tool_calls),
             Message("tool", '{"sky": "sunny"}', tool_call_id=call.id)]
    assert client.chat(turns, tools=[WEATHER], tool_choice="none", max_tokens=20).usage.prompt_tokens > 20


def test_images_come_before_the_content() -> None:
    shown = [Message("user", "What is this?", images=[b"\x89PNG\xff", b"GIF89a"]), Message("tool", images=[b"RIFF"])]
    first, second = requests.chat_request(shown, {"model": "m"}).chat.messages
    assert [(part.type, part.image, part.text) for part in first.parts] == [
        ("image", b"\x89PNG\xff", ""), ("image", b"GIF89a", ""), ("text", b"", "What is this?")]
    assert [part.image for part in second.parts] == [b"RIFF"]
    assert not first.HasField("content") and not second.HasField("content")
    assert requests.chat_request("plain", {"model": "m"}).chat.messages[0].content == "plain"


def test_leaving_the_loop_cancels(client: Client, server: Server) -> None:
    before = server.cancelled()
    stream = client.stream("The", max_tokens=900, ignore_eos=True)
    for _ in stream:
        break
    server.wait_for_cancelled(before + 1)
    with pytest.raises(CancelledError):
        stream.result()
    with client.stream("The", max_tokens=900, ignore_eos=True) as other:
        other.cancel()
        with pytest.raises(CancelledError):
            other.result()


def test_errors_say_reason_field_and_limit(client: Client, server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="sampling.top_p") as bad:
        client.generate("The", top_p=2)
    assert (bad.value.reason, bad.value.field) == ("INVALID_FIELD", "sampling.top_p") and bad.value.limit
    with pytest.raises(NotFoundError) as unknown:
        client.generate("The", model="none")
    assert unknown.value.reason == "UNKNOWN_MODEL"
    with pytest.raises(FailedPreconditionError) as refused:
        client.generate("The", precision="int4")
    assert refused.value.reason == "PROFILE_UNSUPPORTED" and refused.value.refusals
    with pytest.raises(FailedPreconditionError):
        client.embed("The")
    with pytest.raises((DeadlineExceededError, ResourceExhaustedError)):
        client.generate("The", max_tokens=900, ignore_eos=True, timeout_s=0.001)
    with Client("127.0.0.1:1", timeout_s=0.05) as nobody:
        with pytest.raises((UnavailableError, DeadlineExceededError)):
            nobody.models()


def test_options_that_are_none_are_refused_here(server: Server, client: Client) -> None:
    loose: Any = client
    for wrong, error, words in (({"top_q": 1}, TypeError, "top_q"), ({"precision": "fp5"}, ValueError, "bf16"),
                                ({"regex": "a", "choice": ["b"]}, ValueError, "one of"),
                                ({"tools": []}, TypeError, "tools")):
        with pytest.raises(error, match=words):
            loose.generate("The", **wrong)
    with pytest.raises(ValueError, match="tool_choice"):
        loose.chat("The", tool_choice="named")
    with Client(server.grpc) as without, pytest.raises(ValueError, match="no model"):
        without.generate("The")


def test_embeds_and_reranks(client: Client) -> None:
    both = client.embed(["A dunlin flies.", [5, 6]], model="encoder", pooling="mean", normalize=True)
    assert (both.pooling, both.normalized, both.execution.precision) == ("mean", True, "fp32")
    assert [sum(value * value for value in vector) for vector in both.vectors] == pytest.approx([1, 1], abs=1e-4)
    alone = client.embed("A dunlin flies.", model="encoder", pooling="mean", normalize=True)
    assert both.vectors[0] == alone.vectors[0]
    documents = ["A dunlin flies.", "Ships sail.", "Birds eat worms."]
    ranked = client.rerank("birds", documents, model="reranker", top_n=2)
    assert len(ranked.results) == 2 and ranked.results[0].score >= ranked.results[1].score
    ordered = client.rerank("birds", documents, model="reranker", request_order=True, raw_scores=True)
    assert [result.index for result in ordered.results] == [0, 1, 2] and ordered.raw_scores


def test_lists_models_and_profiles(client: Client) -> None:
    models = {model.name: model for model in client.models()}
    assert (models["demo"].kind, models["demo"].state, models["demo"].chat) == ("decoder", "ready", True)
    assert models["demo"].precisions == ("bf16", "fp8") and models["reranker"].reranks and not models["demo"].takes_images
    profiles = client.profiles()
    supported = [profile.execution for profile in profiles if profile.supported]
    assert {("flash", "bf16"), ("math", "fp8")} <= {(one.attention_backend, one.precision) for one in supported}
    assert all(profile.reasons for profile in profiles if not profile.supported)
    assert client.profiles("encoder") != profiles


def test_keys_quotas_and_tls(guarded: Guarded) -> None:
    tls = Tls(ca_file=guarded.ca_file, server_name="dunlin.test")
    with Client(guarded.grpc, model="demo", tls=tls, api_key="wrong", timeout_s=WAIT_S) as stranger:
        with pytest.raises(UnauthenticatedError):
            stranger.generate("The", max_tokens=1)
    with Client(guarded.grpc, model="demo", tls=tls, api_key=guarded.api_key, timeout_s=WAIT_S) as known:
        assert guarded.api_key not in repr(vars(known))
        assert known.generate("The", max_tokens=1, precision="bf16").usage.completion_tokens == 1
        with pytest.raises(PermissionDeniedError) as denied:
            known.generate("The", max_tokens=1, precision="fp8")
        assert denied.value.field == "execution.precision"
    with Client(guarded.grpc, model="demo", tls=tls, api_key=guarded.slow_key, retry=NO_RETRY) as slow:
        with pytest.raises(ResourceExhaustedError) as used_up:
            for _ in range(20):  # one a minute
                slow.generate("The", max_tokens=1)
        assert used_up.value.reason == "REQUEST_QUOTA" and used_up.value.retry_delay_s
