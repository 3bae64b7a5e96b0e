# SPDX-License-Identifier: Apache-2.0
"""The synchronous client. A Client may be used by several threads; a Stream by one, except for cancel()."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Unpack

import grpc

from dunlin_client import connection, requests, responses
from dunlin_client._proto.dunlin.v1 import generation_pb2, model_pb2
from dunlin_client.connection import Method, Request, Response
from dunlin_client.errors import CancelledError, error_of
from dunlin_client.options import (ChatOptions, EmbedOptions, GenerateOptions, Messages, Prompt,
                                   RerankOptions, Tls)
from dunlin_client.results import Chunk, Embeddings, Execution, Generation, Model, Profile, Ranking
from dunlin_client.retry import Attempts, RetryPolicy


class Stream:
    """The chunks of one call, once. Leaving the loop cancels the call, and so does the end of a `with` block."""

    def __init__(self, open_call: Callable[[float | None], Any], attempts: Attempts) -> None:
        self._open_call = open_call
        self._attempts = attempts
        self._collector = responses.Collector()
        self._cancelled = threading.Event()
        self._call = open_call(attempts.timeout_s())

    @property
    def execution(self) -> Execution | None:
        """What runs the request; known from the first chunk on."""
        return self._collector.execution

    @property
    def request_id(self) -> str:
        """Known from the first chunk on."""
        return self._collector.request_id

    def __iter__(self) -> Iterator[Chunk]:
        try:
            for message in self._messages():
                yield self._collector.add(message)
        finally:
            self._call.cancel()  # without effect on a call that has ended

    def _messages(self) -> Iterator[generation_pb2.GenerateResponse]:
        received = False
        while True:
            try:
                for message in self._call:
                    received = True
                    yield message
                return
            except grpc.RpcError as error:
                failure = error_of(error)
                if received or self._cancelled.is_set():
                    raise failure from error
                delay = self._attempts.wait_after(failure)
            if self._cancelled.wait(delay):
                raise CancelledError("CANCELLED", "cancelled by the caller")
            self._call = self._open_call(self._attempts.timeout_s())
            if self._cancelled.is_set():  # by another thread, which may have cancelled the call before
                self._call.cancel()

    def result(self) -> Generation:
        """Reads to the end. Raises CancelledError if the loop was left before."""
        for _ in self:
            pass
        return self._collector.generation()

    def cancel(self) -> None:
        """The server frees the request's memory within one step. From any thread."""
        self._cancelled.set()
        self._call.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.cancel()


class Client:
    """Calls of one server. Raises DunlinError and its classes; ValueError and TypeError for options that are none.

    address: host:port or unix:PATH; else DUNLIN_ADDRESS of the environment, else 127.0.0.1:50051. model: of calls that
    name none. timeout_s: of a call with all its attempts; None: no deadline. api_key: sent with every call, else
    DUNLIN_API_KEY; without tls it can be read on the wire.
    """

    def __init__(self, address: str | None = None, *, model: str = "", api_key: str | None = None,
                 tls: Tls | None = None, timeout_s: float | None = connection.DEFAULT_TIMEOUT_S,
                 retry: RetryPolicy = RetryPolicy()) -> None:
        self._settings = connection.make_settings(model, timeout_s, retry, api_key)
        target, options = connection.address_of(address), connection.channel_options(tls)
        self._channel = (grpc.insecure_channel(target, options) if tls is None else
                         grpc.secure_channel(target, connection.credentials(tls), options))
        self._generate = self._channel.unary_stream(connection.GENERATE.path,
                                                    generation_pb2.GenerateRequest.SerializeToString,
                                                    generation_pb2.GenerateResponse.FromString)

    def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Generation:
        """Completes a text or token ids."""
        return self.stream(prompt, **options).result()

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream:
        """As generate, by chunks as they are computed."""
        given = self._settings.options(options)
        return self._stream(requests.generate_request(prompt, given), connection.timeout_of(given))

    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Generation:
        """Answers a chat, rendered by the model's chat template; calls tools."""
        return self.stream_chat(messages, **options).result()

    def stream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Stream:
        """As chat, by chunks as they are computed."""
        given = self._settings.options(options)
        return self._stream(requests.chat_request(messages, given), connection.timeout_of(given))

    def embed(self, inputs: str | Sequence[Prompt], **options: Unpack[EmbedOptions]) -> Embeddings:
        """A vector of each text. A sequence of texts or of token id lists; a text alone is one input."""
        given = self._settings.options(options)
        request = requests.embed_request(inputs, given)
        return responses.embeddings_of(self._unary(connection.EMBED, request, connection.timeout_of(given)))

    def rerank(self, query: str, documents: Sequence[str], **options: Unpack[RerankOptions]) -> Ranking:
        """Scores of documents for a query, by a cross-encoder."""
        given = self._settings.options(options)
        request = requests.rerank_request(query, documents, given)
        return responses.ranking_of(self._unary(connection.RERANK, request, connection.timeout_of(given)))

    def models(self) -> tuple[Model, ...]:
        """What the server has: the served models, then those that are not."""
        reply = self._unary(connection.LIST_MODELS, model_pb2.ListModelsRequest(), self._settings.timeout_s)
        return tuple(responses.model_of(model) for model in reply.models)

    def profiles(self, model: str = "") -> tuple[Profile, ...]:
        """Every profile of a model, the unsupported ones with every reason."""
        name = self._settings.options({"model": model} if model else {})["model"]
        reply = self._unary(connection.GET_MODEL, model_pb2.GetModelRequest(name=name), self._settings.timeout_s)
        return tuple(responses.profile_of(profile) for profile in reply.profiles)

    def _stream(self, request: generation_pb2.GenerateRequest, timeout_s: float | None) -> Stream:
        def open_call(left_s: float | None) -> Any:
            return self._generate(request, timeout=left_s, metadata=self._settings.metadata)

        return Stream(open_call, Attempts(self._settings.retry, timeout_s))

    def _unary(self, method: Method[Request, Response], request: Request, timeout_s: float | None) -> Response:
        call = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        attempts = Attempts(self._settings.retry, timeout_s)
        while True:
            try:
                reply: Response = call(request, timeout=attempts.timeout_s(), metadata=self._settings.metadata)
                return reply
            except grpc.RpcError as error:
                delay = attempts.wait_after(error_of(error))
            time.sleep(delay)

    def close(self) -> None:
        """Cancels what runs."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
