# SPDX-License-Identifier: Apache-2.0
"""Protobuf to results. Numbers of enums that this version does not know are given as they are: "9"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dunlin_client._proto.dunlin.v1 import embedding_pb2, execution_pb2, generation_pb2, model_pb2
from dunlin_client.errors import InternalError
from dunlin_client.results import (Chunk, Embedding, Embeddings, Execution, Finish, Generation, Model, Output, Profile,
                                   RankedDocument, Ranking, Timings, TokenLogprob, ToolCall, ToolCallDelta, TopLogprob,
                                   Usage)


def _name(enum: Any, prefix: str, number: int) -> str:
    """ATTENTION_BACKEND_FLASH is "flash", ..._UNSPECIFIED ""."""
    if number == 0 or number not in enum.values():
        return str(number) if number else ""
    name: str = enum.Name(number)
    return name.removeprefix(prefix).lower()


def execution_of(wire: execution_pb2.Execution) -> Execution:
    return Execution(
        device=_name(execution_pb2.Device, "DEVICE_", wire.device),
        attention_backend=_name(execution_pb2.AttentionBackend, "ATTENTION_BACKEND_", wire.attention_backend),
        precision=_name(execution_pb2.Precision, "PRECISION_", wire.precision),
        recipe=wire.recipe,
        kv_dtype=wire.kv_dtype,
        checkpoint_quantization=wire.checkpoint_quantization,
        int8_inputs=wire.int8_inputs,
        adapter=wire.adapter,
        ranks=wire.ranks,
    )


def _logprobs(wire: Iterable[generation_pb2.TokenLogprob]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token.token_id, token.logprob, token.rank, token.token_bytes,
                              tuple(TopLogprob(top.token_id, top.logprob, top.token_bytes) for top in token.top))
                 for token in wire)


def _finish(wire: generation_pb2.Finish) -> Finish:
    usage, timings = wire.usage, wire.timings
    return Finish(
        reason=_name(generation_pb2.FinishReason, "FINISH_REASON_", wire.reason),
        usage=Usage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
                    usage.drafted_tokens, usage.accepted_tokens),
        timings=Timings(queue_ms=timings.queue_ms, total_ms=timings.total_ms, ttft_ms=timings.ttft_ms),
        stop=wire.stop if wire.HasField("stop") else None,
        stop_token_id=wire.stop_token_id if wire.HasField("stop_token_id") else None,
        constraint_error=wire.constraint_error,
    )


def _chunk(wire: generation_pb2.GenerateResponse) -> Chunk:
    calls = (ToolCallDelta(call.tool_index, call.id, call.name, call.arguments_delta) for call in wire.tool_call_delta)
    return Chunk(
        index=wire.index,
        text=wire.text_delta,
        token_ids=tuple(wire.token_ids),
        logprobs=_logprobs(wire.logprobs),
        prompt_logprobs=_logprobs(wire.prompt_logprobs),
        reasoning=wire.reasoning_delta,
        tool_calls=tuple(calls),
        finish=_finish(wire.finish) if wire.HasField("finish") else None,
    )


@dataclass
class _PartialOutput:
    """An output so far."""

    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)  # by tool_index
    finish: Finish | None = None

    def add(self, chunk: Chunk) -> None:
        self.texts.append(chunk.text)
        self.token_ids.extend(chunk.token_ids)
        self.logprobs.extend(chunk.logprobs)
        self.reasoning.append(chunk.reasoning)
        for delta in chunk.tool_calls:
            call = self.tool_calls.get(delta.tool_index, ToolCall("", "", ""))
            self.tool_calls[delta.tool_index] = ToolCall(call.id or delta.id, call.name or delta.name,
                                                         call.arguments_json + delta.arguments_delta)
        self.finish = chunk.finish or self.finish

    def output(self, index: int) -> Output:
        if self.finish is None:
            raise InternalError("INTERNAL", f"the stream ended before output {index} did")
        calls = tuple(self.tool_calls[i] for i in sorted(self.tool_calls))
        return Output(index, "".join(self.texts), tuple(self.token_ids), tuple(self.logprobs), "".join(self.reasoning),
                      calls, self.finish)


class Collector:
    """Makes chunks of the messages of a stream, and a Generation of all of them."""

    def __init__(self) -> None:
        self.execution: Execution | None = None  # from the first message on
        self.request_id = ""
        self._outputs: dict[int, _PartialOutput] = {}
        self._prompt_logprobs: list[TokenLogprob] = []

    def add(self, wire: generation_pb2.GenerateResponse) -> Chunk:
        if wire.HasField("execution"):
            self.execution = execution_of(wire.execution)
        self.request_id = self.request_id or wire.request_id
        chunk = _chunk(wire)
        self._outputs.setdefault(chunk.index, _PartialOutput()).add(chunk)
        self._prompt_logprobs.extend(chunk.prompt_logprobs)
        return chunk

    def generation(self) -> Generation:
        """Of a stream that has ended. Raises InternalError if an output has no end."""
        if self.execution is None or not self._outputs:
            raise InternalError("INTERNAL", "the stream ended before it said what runs")
        outputs = tuple(self._outputs[index].output(index) for index in sorted(self._outputs))
        return Generation(outputs, self.execution, self.request_id, tuple(self._prompt_logprobs))


def _embed_timings(wire: embedding_pb2.EmbedTimings) -> Timings:
    return Timings(queue_ms=wire.queue_ms, total_ms=wire.total_ms)


def embeddings_of(wire: embedding_pb2.EmbedResponse) -> Embeddings:
    return Embeddings(
        embeddings=tuple(Embedding(tuple(one.values), one.tokens, one.truncated) for one in wire.embeddings),
        execution=execution_of(wire.execution),
        pooling=_name(embedding_pb2.Pooling, "POOLING_", wire.pooling),
        normalized=wire.normalized,
        prompt_tokens=wire.usage.prompt_tokens,
        timings=_embed_timings(wire.timings),
        request_id=wire.request_id,
    )


def ranking_of(wire: embedding_pb2.RerankResponse) -> Ranking:
    return Ranking(
        results=tuple(RankedDocument(one.index, one.score, one.tokens, one.truncated) for one in wire.results),
        execution=execution_of(wire.execution),
        raw_scores=wire.raw_scores,
        prompt_tokens=wire.usage.prompt_tokens,
        timings=_embed_timings(wire.timings),
        request_id=wire.request_id,
    )


def model_of(wire: model_pb2.Model) -> Model:
    return Model(
        name=wire.name,
        kind=_name(model_pb2.ModelKind, "MODEL_KIND_", wire.kind),
        state=_name(model_pb2.ModelState, "MODEL_STATE_", wire.status.state),
        architecture=wire.architecture,
        parameters=wire.parameters,
        max_context_tokens=wire.max_context_tokens,
        vocab_size=wire.vocab_size,
        device=_name(execution_pb2.Device, "DEVICE_", wire.device),
        precisions=tuple(_name(execution_pb2.Precision, "PRECISION_", number) for number in wire.precisions),
        eos_token_ids=tuple(wire.eos_token_ids),
        chat=wire.chat.supported,
        takes_images=wire.takes_images,
        reranks=wire.embedding.reranks,
        adapters=tuple(adapter.name for adapter in wire.adapters),
    )


def profile_of(wire: model_pb2.Profile) -> Profile:
    return Profile(execution_of(wire.execution), wire.supported, tuple(wire.reasons))
