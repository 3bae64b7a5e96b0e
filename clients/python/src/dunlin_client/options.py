# SPDX-License-Identifier: Apache-2.0
"""What calls take. An option that is not given has the server's default, which is the model's where it has one; the
bounds are the server's, too (proto/dunlin/v1). Times in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from dunlin_client.results import ToolCall

AttentionBackend = Literal["auto", "math", "flash", "efficient"]
Precision = Literal["auto", "fp32", "bf16", "fp16", "fp8", "int8", "int4"]
Device = Literal["auto", "cpu", "cuda"]
Pooling = Literal["mean", "cls", "last"]
Prompt = str | Sequence[int]  # a text, or token ids


@dataclass(frozen=True)
class Tls:
    """A connection with TLS. Paths of PEM files; without ca_file the authorities that gRPC comes with are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None  # shown to the server; with key_file
    key_file: str | None = None
    server_name: str | None = None  # that the certificate must be for, instead of the address's host


@dataclass(frozen=True)
class Message:
    """Of a chat. A tool's message names the call that it answers."""

    role: str  # "system", "user", "assistant" or "tool"
    content: str | None = None
    name: str = ""
    tool_calls: Sequence[ToolCall] = ()  # of an assistant
    tool_call_id: str = ""
    reasoning: str = ""  # what an assistant thought before it answered
    images: Sequence[bytes] = ()  # files, before the content, for a model that sees images


@dataclass(frozen=True)
class NamedTool:
    """As tool_choice: the model calls this tool."""

    name: str


Messages = str | Sequence[Message]  # a text is one message of the user
ToolChoice = Literal["auto", "none", "required"] | NamedTool


class CallOptions(TypedDict, total=False):
    model: str  # instead of the client's
    timeout_s: float | None  # instead of the client's; of all attempts together; None: no deadline
    request_id: str
    attention_backend: AttentionBackend
    precision: Precision
    device: Device
    allow_fallback: bool  # replace a backend that does not fit, instead of refusing


class GenerateOptions(CallOptions, total=False):
    speculation: Literal["off", "auto"] | int  # most tokens that a step guesses; no output depends on it
    temperature: float  # 0: greedy
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int
    n: int
    allowed_token_ids: Sequence[int]
    bad_words_ids: Sequence[Sequence[int]]
    bad_words: str | Sequence[str]
    ignore_model_bans: bool
    max_tokens: int
    min_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop: bool
    clamp_max_tokens: bool
    logprobs: int
    prompt_logprobs: int
    keep_special_tokens: bool
    omit_text: bool
    echo: bool
    raw_chat_output: bool
    priority: int
    cache_salt: str
    parse_special_tokens: bool
    truncate_prompt_tokens: int
    # One of these at most: what the output must match.
    json_schema: Mapping[str, Any] | str
    json_object: bool
    regex: str
    choice: Sequence[str]
    grammar: str


class ChatOptions(GenerateOptions, total=False):
    tools: Sequence[Mapping[str, Any]]  # {"type": "function", "function": {"name", "description", "parameters"}}
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    template_options: Mapping[str, Any]  # variables of the chat template
    add_generation_prompt: bool
    continue_final_message: bool


class EmbedOptions(CallOptions, total=False):
    pooling: Pooling
    normalize: bool
    dimensions: int
    truncate: bool  # inputs that are too long, instead of refusing them
    prompt_name: str


class RerankOptions(CallOptions, total=False):
    top_n: int
    raw_scores: bool  # the model's logits
    request_order: bool
    truncate: bool
