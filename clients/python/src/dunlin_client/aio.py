# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. Made and used inside of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Unpack

import grpc
import grpc.aio

from dunlin_client import connection, requests, responses
from dunlin_client._proto.dunlin.v1 import generation_pb2, model_pb2
from dunlin_client.connection import Method, Request, Response
from dunlin_client.errors import CancelledError, error_of
from dunlin_client.options import (ChatOptions, EmbedOptions, GenerateOptions, Messages, Prompt,
                                   RerankOptions, Tls)
from dunlin_client.results import Chunk, Embeddings, Execution, Generation, Model, Profile, Ranking
from dunlin_client.retry import Attempts, RetryPolicy


class AsyncStream:
    """The chunks of one call, once. The end of an `async with` block cancels the call; so does leaving the loop, once
    the event loop has closed the iterator."""

    def __init__(self, open_call: Callable[[float | None], Any], attempts: Attempts) -> None:
        self._open_call = open_call
        self._attempts = attempts
        self._collector = responses.Collector()
        self._cancelled = asyncio.Event()
        self._call = open_call(attempts.timeout_s())

    @property
    def execution(self) -> Execution | None:
        """What runs the request; known from the first chunk on."""
        return self._collector.execution

    @property
    def request_id(self) -> str:
        """Known from the first chunk on."""
        return self._collector.request_id

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            async for message in self._messages():
                yield self._collector.add(message)
        finally:
            self._call.cancel()  # without effect on a call that has ended

    async def _messages(self) -> AsyncIterator[generation_pb2.GenerateResponse]:
        received = False
        while True:
            try:
                async for message in self._call:
                    received = True
                    yield message
                return
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if self._call.cancelled() and not (task is not None and task.cancelling()):
                    raise CancelledError("CANCELLED", "cancelled by the caller") from error
                raise
            except grpc.RpcError as error:
                failure = error_of(error)
                if received or self._cancelled.is_set():
                    raise failure from error
                delay = self._attempts.wait_after(failure)
            await self._wait(delay)
            self._call = self._open_call(self._attempts.timeout_s())

    async def _wait(self, delay_s: float) -> None:
        """Raises CancelledError when the stream is cancelled meanwhile."""
        try:
            await asyncio.wait_for(self._cancelled.wait(), delay_s)
        except TimeoutError:
            return
        raise CancelledError("CANCELLED", "cancelled by the caller")

    async def result(self) -> Generation:
        """Reads to the end. Raises CancelledError if the loop was left before."""
        async for _ in self:
            pass
        return self._collector.generation()

    def cancel(self) -> None:
        """The server frees the request's memory within one step."""
        self._cancelled.set()
        self._call.cancel()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.cancel()


class AsyncClient:
    """As Client, whose contract holds."""

    def __init__(self, address: str | None = None, *, model: str = "", api_key: str | None = None,
                 tls: Tls | None = None, timeout_s: float | None = connection.DEFAULT_TIMEOUT_S,
                 retry: RetryPolicy = RetryPolicy()) -> None:
        self._settings = connection.make_settings(model, timeout_s, retry, api_key)
        target, options = connection.address_of(address), connection.channel_options(tls)
        self._channel = (grpc.aio.insecure_channel(target, options) if tls is None else
                         grpc.aio.secure_channel(target, connection.credentials(tls), options))
        self._generate = self._channel.unary_stream(connection.GENERATE.path,
                                                    generation_pb2.GenerateRequest.SerializeToString,
                                                    generation_pb2.GenerateResponse.FromString)

    async def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Generation:
        """Completes a text or token ids."""
        async with self.stream(prompt, **options) as stream:
            return await stream.result()

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> AsyncStream:
        """As generate, by chunks as they are computed."""
        given = self._settings.options(options)
        return self._stream(requests.generate_request(prompt, given), connection.timeout_of(given))

    async def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Generation:
        """Answers a chat, rendered by the model's chat template; calls tools."""
        async with self.stream_chat(messages, **options) as stream:
            return await stream.result()

    def stream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> AsyncStream:
        """As chat, by chunks as they are computed."""
        given = self._settings.options(options)
        return self._stream(requests.chat_request(messages, given), connection.timeout_of(given))

    async def embed(self, inputs: str | Sequence[Prompt], **options: Unpack[EmbedOptions]) -> Embeddings:
        """A vector of each text. A sequence of texts or of token id lists; a text alone is one input."""
        given = self._settings.options(options)
        request = requests.embed_request(inputs, given)
        return responses.embeddings_of(await self._unary(connection.EMBED, request, connection.timeout_of(given)))

    async def rerank(self, query: str, documents: Sequence[str], **options: Unpack[RerankOptions]) -> Ranking:
        """Scores of documents for a query, by a cross-encoder."""
        given = self._settings.options(options)
        request = requests.rerank_request(query, documents, given)
        return responses.ranking_of(await self._unary(connection.RERANK, request, connection.timeout_of(given)))

    async def models(self) -> tuple[Model, ...]:
        """What the server has: the served models, then those that are not."""
        reply = await self._unary(connection.LIST_MODELS, model_pb2.ListModelsRequest(), self._settings.timeout_s)
        return tuple(responses.model_of(model) for model in reply.models)

    async def profiles(self, model: str = "") -> tuple[Profile, ...]:
        """Every profile of a model, the unsupported ones with every reason."""
        name = self._settings.options({"model": model} if model else {})["model"]
        reply = await self._unary(connection.GET_MODEL, model_pb2.GetModelRequest(name=name), self._settings.timeout_s)
        return tuple(responses.profile_of(profile) for profile in reply.profiles)

    def _stream(self, request: generation_pb2.GenerateRequest, timeout_s: float | None) -> AsyncStream:
        def open_call(left_s: float | None) -> Any:
            return self._generate(request, timeout=left_s, metadata=self._settings.metadata)

        return AsyncStream(open_call, Attempts(self._settings.retry, timeout_s))

    async def _unary(self, method: Method[Request, Response], request: Request, timeout_s: float | None) -> Response:
        call = self._channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        attempts = Attempts(self._settings.retry, timeout_s)
        while True:
            try:
                reply: Response = await call(request, timeout=attempts.timeout_s(), metadata=self._settings.metadata)
                return reply
            except grpc.RpcError as error:
                delay = attempts.wait_after(error_of(error))
            await asyncio.sleep(delay)

    async def close(self) -> None:
        """Cancels what runs."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()
