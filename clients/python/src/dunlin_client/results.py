# SPDX-License-Identifier: Apache-2.0
"""What calls return. Plain values, immutable; times in milliseconds, log-probabilities natural logarithms."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Execution:
    """The profile that ran a request."""

    device: str  # "cpu" or "cuda"
    attention_backend: str  # "math", "flash" or "efficient"
    precision: str  # "fp32", "bf16", "fp16", "fp8", "int8" or "int4"
    recipe: str  # how FP8 inputs are scaled; "" for other precisions
    kv_dtype: str
    checkpoint_quantization: bool
    int8_inputs: bool
    adapter: str  # LoRA adapter that ran; "": the model alone
    ranks: int = 1  # among which the model is divided


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    cached_tokens: int  # of the prompt, found in the prefix cache
    completion_tokens: int
    drafted_tokens: int = 0  # guessed and verified (speculative decoding)
    accepted_tokens: int = 0  # of these, in the output


@dataclass(frozen=True)
class Timings:
    queue_ms: float
    total_ms: float
    ttft_ms: float | None = None  # to the first token; None for embeddings


@dataclass(frozen=True)
class TopLogprob:
    token_id: int
    logprob: float
    token_bytes: bytes


@dataclass(frozen=True)
class TokenLogprob:
    token_id: int
    logprob: float  # before temperature, penalties and truncation
    rank: int  # from 1
    token_bytes: bytes
    top: tuple[TopLogprob, ...]


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments_json: str  # as the model wrote it

    @property
    def arguments(self) -> dict[str, Any]:
        """Parsed. Raises json.JSONDecodeError where an output ended inside of them."""
        parsed: dict[str, Any] = json.loads(self.arguments_json or "{}")
        return parsed


@dataclass(frozen=True)
class ToolCallDelta:
    """A piece of a tool call: id and name come in the first one of a call only."""

    tool_index: int
    id: str
    name: str
    arguments_delta: str


@dataclass(frozen=True)
class Finish:
    reason: str  # "stop", "length", "tool_calls" or "constraint"
    usage: Usage
    timings: Timings
    stop: str | None  # the stop string that ended the output
    stop_token_id: int | None
    constraint_error: str = ""  # of "constraint": the bound that the output met; "": no token continued it


@dataclass(frozen=True)
class Chunk:
    """A piece of one output of a stream."""

    index: int  # which of the n outputs
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    prompt_logprobs: tuple[TokenLogprob, ...]
    reasoning: str
    tool_calls: tuple[ToolCallDelta, ...]
    finish: Finish | None  # in the last chunk of an output only


@dataclass(frozen=True)
class Output:
    """One of the n completions of a request."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish

    @property
    def finish_reason(self) -> str:
        return self.finish.reason

    @property
    def usage(self) -> Usage:
        return self.finish.usage

    @property
    def timings(self) -> Timings:
        return self.finish.timings


@dataclass(frozen=True)
class Generation:
    """A whole answer. What has no index is of the first output."""

    outputs: tuple[Output, ...]
    execution: Execution
    request_id: str
    prompt_logprobs: tuple[TokenLogprob, ...]

    @property
    def text(self) -> str:
        return self.outputs[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.outputs[0].token_ids

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        return self.outputs[0].logprobs

    @property
    def reasoning(self) -> str:
        return self.outputs[0].reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.outputs[0].tool_calls

    @property
    def finish_reason(self) -> str:
        return self.outputs[0].finish.reason

    @property
    def usage(self) -> Usage:
        return self.outputs[0].finish.usage

    @property
    def timings(self) -> Timings:
        return self.outputs[0].finish.timings


@dataclass(frozen=True)
class Embedding:
    values: tuple[float, ...]
    tokens: int
    truncated: bool


@dataclass(frozen=True)
class Embeddings:
    """In the order of the inputs."""

    embeddings: tuple[Embedding, ...]
    execution: Execution
    pooling: str  # "mean", "cls" or "last"
    normalized: bool
    prompt_tokens: int
    timings: Timings
    request_id: str

    @property
    def vectors(self) -> tuple[tuple[float, ...], ...]:
        return tuple(embedding.values for embedding in self.embeddings)


@dataclass(frozen=True)
class RankedDocument:
    index: int  # of the documents of the call
    score: float
    tokens: int
    truncated: bool


@dataclass(frozen=True)
class Ranking:
    """The best first, or in the order of the documents if the call says so."""

    results: tuple[RankedDocument, ...]
    execution: Execution
    raw_scores: bool
    prompt_tokens: int
    timings: Timings
    request_id: str


@dataclass(frozen=True)
class Model:
    name: str
    kind: str  # "decoder" or "encoder"
    state: str  # "ready", "loading", "unloaded", "unloading" or "failed"; what follows is empty until it was ready
    architecture: str
    parameters: int
    max_context_tokens: int
    vocab_size: int
    device: str
    precisions: tuple[str, ...]  # the first is the default
    eos_token_ids: tuple[int, ...]
    chat: bool  # has a chat template
    takes_images: bool  # in messages of a chat
    reranks: bool
    adapters: tuple[str, ...]  # LoRA adapters, which requests name in place of the model


@dataclass(frozen=True)
class Profile:
    """A device, attention backend and precision, and every reason why the model does not have it."""

    execution: Execution
    supported: bool
    reasons: tuple[str, ...]
