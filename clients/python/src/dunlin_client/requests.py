# SPDX-License-Identifier: Apache-2.0
"""Options to protobuf. Values are checked for their types and names here, for their bounds by the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dunlin_client._proto.dunlin.v1 import embedding_pb2, execution_pb2, generation_pb2
from dunlin_client.options import Message, Messages, NamedTool, Prompt, ToolChoice

Options = Mapping[str, Any]

# Which part of a GenerateRequest has an option; the request itself has those of "".
_PARTS: dict[str, tuple[str, ...]] = {
    "": ("request_id", "priority", "cache_salt", "parse_special_tokens", "truncate_prompt_tokens"),
    "sampling": ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
                 "frequency_penalty", "logit_bias", "seed", "n", "allowed_token_ids", "bad_words_ids", "bad_words",
                 "ignore_model_bans"),
    "stopping": ("max_tokens", "min_tokens", "stop", "stop_token_ids", "ignore_eos", "include_stop",
                 "clamp_max_tokens"),
    "output": ("logprobs", "prompt_logprobs", "keep_special_tokens", "omit_text", "echo", "raw_chat_output"),
    "structured_output": ("json_schema", "json_object", "regex", "choice", "grammar"),
}
_CHAT = ("tools", "tool_choice", "parallel_tool_calls", "template_options", "add_generation_prompt",
         "continue_final_message", "parse_special_tokens")
_EXECUTION = ("device", "attention_backend", "precision", "allow_fallback")
_EMBED = ("pooling", "normalize", "dimensions", "truncate", "prompt_name", "request_id")
_RERANK = ("top_n", "raw_scores", "request_order", "truncate", "request_id")
_SPECULATION = ("speculation",)  # of the execution, where tokens are generated
_CALL = ("model", "timeout_s")  # the client's own


_TOOL_CHOICES = {"auto": generation_pb2.ToolChoice.MODE_AUTO, "none": generation_pb2.ToolChoice.MODE_NONE,
                 "required": generation_pb2.ToolChoice.MODE_REQUIRED}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


# Options whose value is not the field's.
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "bad_words": _texts,
    "stop": _texts,
    "bad_words_ids": lambda value: [generation_pb2.TokenIds(ids=ids) for ids in value],
    "json_schema": _json,
    "choice": lambda value: generation_pb2.Choices(texts=_texts(value)),
    "speculation": lambda value: "off" if value == 0 else str(value),
}


def _enum(enum: Any, field: str, value: str) -> Any:
    """The number of AttentionBackend's "flash" is that of ATTENTION_BACKEND_FLASH."""
    prefix = f"{field.upper()}_"
    names = [name.removeprefix(prefix).lower() for name in enum.keys() if not name.endswith("_UNSPECIFIED")]
    if value not in names:
        raise ValueError(f"{field} is {value!r}; it can be {', '.join(names)}")
    return enum.Value(prefix + value.upper())


def _check_names(options: Options, *allowed: Sequence[str]) -> None:
    unknown = set(options).difference(_CALL, _EXECUTION, *allowed)
    if unknown:
        raise TypeError(f"unknown option {sorted(unknown)[0]!r}")


def _fields(options: Options, names: Sequence[str]) -> dict[str, Any]:
    given = {name: options[name] for name in names if options.get(name) is not None}
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in given.items()}


def _execution(options: Options) -> execution_pb2.ExecutionOptions:
    fields = _fields(options, (*_EXECUTION, *_SPECULATION))
    enums = {"device": execution_pb2.Device, "attention_backend": execution_pb2.AttentionBackend,
             "precision": execution_pb2.Precision}
    return execution_pb2.ExecutionOptions(
        **{name: _enum(enums[name], name, value) if name in enums else value for name, value in fields.items()})


def _generate_request(options: Options, input_: dict[str, Any]) -> generation_pb2.GenerateRequest:
    if sum(options.get(name) is not None for name in _PARTS["structured_output"]) > 1:
        raise ValueError(f"one of {', '.join(_PARTS['structured_output'])} can be given, not several")
    parts: dict[str, Any] = {part: fields for part, names in _PARTS.items()
                             if part and (fields := _fields(options, names))}
    return generation_pb2.GenerateRequest(model=options["model"], execution=_execution(options), **input_, **parts,
                                          **_fields(options, _PARTS[""]))


def generate_request(prompt: Prompt, options: Options) -> generation_pb2.GenerateRequest:
    _check_names(options, _SPECULATION, *_PARTS.values())
    if isinstance(prompt, str):
        return _generate_request(options, {"text": prompt})
    return _generate_request(options, {"token_ids": generation_pb2.TokenIds(ids=prompt)})


def _parts(message: Message) -> list[generation_pb2.ContentPart]:
    parts = [generation_pb2.ContentPart(type="image", image=image) for image in message.images]
    if message.content is not None:
        parts.append(generation_pb2.ContentPart(type="text", text=message.content))
    return parts


def _message(message: Message) -> generation_pb2.ChatMessage:
    calls = [generation_pb2.ToolCall(id=call.id, name=call.name, arguments_json=call.arguments_json)
             for call in message.tool_calls]
    content: dict[str, Any] = {"parts": _parts(message)} if message.images else {"content": message.content}
    return generation_pb2.ChatMessage(role=message.role, name=message.name, tool_calls=calls,
                                      tool_call_id=message.tool_call_id, reasoning_content=message.reasoning, **content)


def _tool_choice(choice: ToolChoice) -> generation_pb2.ToolChoice:
    if isinstance(choice, NamedTool):
        return generation_pb2.ToolChoice(mode=generation_pb2.ToolChoice.MODE_NAMED, name=choice.name)
    if choice not in _TOOL_CHOICES:
        raise ValueError(f"tool_choice is {choice!r}; it can be {', '.join(_TOOL_CHOICES)} or a NamedTool")
    return generation_pb2.ToolChoice(mode=_TOOL_CHOICES[choice])


def chat_request(messages: Messages, options: Options) -> generation_pb2.GenerateRequest:
    _check_names(options, _SPECULATION, _CHAT, *_PARTS.values())
    chat = _fields(options, _CHAT)
    if "tools" in chat:
        chat["tools_json"] = _json(chat.pop("tools"))
    if "template_options" in chat:
        chat["template_options_json"] = _json(chat.pop("template_options"))
    if "tool_choice" in chat:
        chat["tool_choice"] = _tool_choice(chat["tool_choice"])
    turns = [Message("user", messages)] if isinstance(messages, str) else messages
    # parse_special_tokens of a chat is the chat's; the request's is of texts.
    rest = {name: value for name, value in options.items() if name != "parse_special_tokens"}
    return _generate_request(rest, {"chat": generation_pb2.Chat(messages=[_message(turn) for turn in turns], **chat)})


def _embed_input(value: Prompt) -> embedding_pb2.EmbedInput:
    if isinstance(value, str):
        return embedding_pb2.EmbedInput(text=value)
    return embedding_pb2.EmbedInput(token_ids=generation_pb2.TokenIds(ids=value))


def embed_request(inputs: str | Sequence[Prompt], options: Options) -> embedding_pb2.EmbedRequest:
    _check_names(options, _EMBED)
    fields = _fields(options, _EMBED)
    if "pooling" in fields:
        fields["pooling"] = _enum(embedding_pb2.Pooling, "pooling", fields["pooling"])
    texts: Sequence[Prompt] = [inputs] if isinstance(inputs, str) else inputs
    return embedding_pb2.EmbedRequest(model=options["model"], inputs=[_embed_input(text) for text in texts],
                                      execution=_execution(options), **fields)


def rerank_request(query: str, documents: Sequence[str], options: Options) -> embedding_pb2.RerankRequest:
    _check_names(options, _RERANK)
    return embedding_pb2.RerankRequest(model=options["model"], query=query, documents=_texts(documents),
                                       execution=_execution(options), **_fields(options, _RERANK))
