# SPDX-License-Identifier: Apache-2.0
"""What is repeated, and when, against servers that refuse by a script."""

from __future__ import annotations

import asyncio
import time
from concurrent import futures

import grpc
import pytest
from conftest import Refusal, Scripted, scripted

from dunlin_client import (NO_RETRY, AsyncClient, CancelledError, Client, DeadlineExceededError, ResourceExhaustedError,
                           RetryPolicy, UnavailableError)
from dunlin_client._proto.dunlin.v1 import embedding_pb2, generation_pb2
from dunlin_client.errors import ErrorDetails, UnimplementedError, make_error

FULL = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_delay_s=0.01)
FULL_FOR_GOOD = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
AWAY = Refusal(grpc.StatusCode.UNAVAILABLE)
ANSWER = generation_pb2.GenerateResponse(text_delta="yes", execution={"kv_dtype": "bf16"}, finish={"usage": {}})
ANSWER_BYTES = ANSWER.SerializeToString()
BEGIN_BYTES = generation_pb2.GenerateResponse(text_delta="y", execution={"kv_dtype": "bf16"}).SerializeToString()
FAST = RetryPolicy(initial_backoff_s=0.001)


def test_repeats_what_was_refused_with_retry_info_or_unavailable() -> None:
    with scripted([FULL], [AWAY], [ANSWER_BYTES]) as (address, handler):
        with Client(address, model="m", api_key="secret", retry=FAST) as client:
            assert client.generate("a").text == "yes"
    assert [call["authorization"] for call in handler.calls] == ["Bearer secret"] * 3


def test_an_output_says_which_bound_of_its_grammar_ended_it() -> None:
    finish = {"reason": "FINISH_REASON_CONSTRAINT", "usage": {}, "constraint_error": "limit is 250 ms"}
    bounded = generation_pb2.GenerateResponse(text_delta="y", execution={"kv_dtype": "bf16"}, finish=finish).SerializeToString()
    with scripted([bounded], [ANSWER_BYTES]) as (address, _), Client(address, model="m", retry=NO_RETRY) as client:
        answer = client.generate("a", grammar="start: /a*/")
        assert (answer.finish_reason, answer.outputs[0].finish.constraint_error) == ("constraint", "limit is 250 ms")
        assert client.generate("a").outputs[0].finish.constraint_error == ""


def test_repeats_unary_calls_too() -> None:
    vectors = embedding_pb2.EmbedResponse(embeddings=[{"values": [1.0]}]).SerializeToString()
    with scripted([FULL], [vectors]) as (address, handler), Client(address, model="m") as client:
        assert client.embed("a").vectors == ((1.0,),)
    assert len(handler.calls) == 2


def test_repeats_nothing_once_a_message_has_arrived() -> None:
    with scripted([BEGIN_BYTES, AWAY], [ANSWER_BYTES]) as (address, handler):
        with Client(address, model="m", retry=FAST) as client, pytest.raises(UnavailableError):
            client.generate("a")
    assert len(handler.calls) == 1


@pytest.mark.parametrize(("refusal", "retry"), [(FULL_FOR_GOOD, FAST), (FULL, NO_RETRY)])
def test_raises_at_once_what_is_not_to_be_repeated(refusal: Refusal, retry: RetryPolicy) -> None:
    with scripted([refusal], [ANSWER_BYTES]) as (address, handler):
        with Client(address, model="m", retry=retry) as client, pytest.raises(ResourceExhaustedError):
            client.generate("a")
    assert len(handler.calls) == 1


def test_raises_after_the_last_attempt_and_where_the_timeout_leaves_no_wait() -> None:
    with scripted([AWAY], [AWAY], [ANSWER_BYTES]) as (address, handler):
        with Client(address, model="m", retry=RetryPolicy(max_attempts=2, initial_backoff_s=0)) as client:
            with pytest.raises(UnavailableError):
                client.generate("a")
    assert len(handler.calls) == 2
    late = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_delay_s=0.9)
    with scripted([late], [ANSWER_BYTES]) as (address, handler), Client(address, model="m") as client:
        with pytest.raises((ResourceExhaustedError, DeadlineExceededError)):
            client.generate("a", timeout_s=0.8)
    assert len(handler.calls) <= 1


def test_asyncio_repeats_in_the_same_way() -> None:
    async def ask(address: str) -> str:
        async with AsyncClient(address, model="m", retry=FAST) as client:
            return (await client.generate("a")).text

    with scripted([FULL], [AWAY], [ANSWER_BYTES]) as (address, handler):
        assert asyncio.run(ask(address)) == "yes"
    with scripted([BEGIN_BYTES, AWAY], [ANSWER_BYTES]) as (address, handler):
        with pytest.raises(UnavailableError):
            asyncio.run(ask(address))
    assert len(handler.calls) == 1


def test_cancel_ends_the_wait_for_the_next_attempt() -> None:
    patient = RetryPolicy(max_attempts=100)
    full = [[Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_delay_s=0.9)]] * 100
    with scripted(*full) as (address, handler), Client(address, model="m", retry=patient, timeout_s=None) as client:
        stream = client.stream("a")
        with futures.ThreadPoolExecutor(1) as pool:
            reader = pool.submit(stream.result)
            while not handler.calls:
                time.sleep(0.01)
            stream.cancel()
            with pytest.raises(CancelledError):
                reader.result(60)

    async def work(address: str, handler: Scripted) -> None:
        async with AsyncClient(address, model="m", retry=patient, timeout_s=None) as client:
            stream = client.stream("a")
            reader = asyncio.create_task(stream.result())
            while not handler.calls:
                await asyncio.sleep(0.01)
            stream.cancel()
            with pytest.raises(CancelledError):
                await reader

    with scripted(*full) as (address, handler):
        asyncio.run(asyncio.wait_for(work(address, handler), 60))


def test_waits_are_those_of_retry_info_or_grow_and_never_shorter() -> None:
    policy = RetryPolicy(max_attempts=9, initial_backoff_s=1, max_backoff_s=4, jitter=0.5)
    told = make_error("UNAVAILABLE", "")
    for attempt, least in ((1, 1), (2, 2), (3, 4), (8, 4)):
        delay = policy.delay_s(told, attempt)
        assert delay is not None and least <= delay <= 1.5 * least
    assert policy.delay_s(told, 9) is None
    full = ResourceExhaustedError("RESOURCE_EXHAUSTED", "", ErrorDetails(retry_delay_s=7))
    delay = policy.delay_s(full, 1)
    assert delay is not None and 7 <= delay <= 10.5
    assert policy.delay_s(UnimplementedError("UNIMPLEMENTED", "", ErrorDetails(retry_delay_s=7)), 1) is None
    with pytest.raises(ValueError, match="max_attempts is 0"):
        RetryPolicy(max_attempts=0)


def test_details_that_are_no_message_leave_code_and_message() -> None:
    error = make_error("UNAVAILABLE", "gone", [("grpc-status-details-bin", b"\xff")])
    assert (str(error), error.reason) == ("UNAVAILABLE: gone", "")
