# SPDX-License-Identifier: Apache-2.0
"""Client of the Dunlin inference server over gRPC: Client, and AsyncClient for asyncio."""

from dunlin_client.aio import AsyncClient, AsyncStream
from dunlin_client.client import Client, Stream
from dunlin_client.errors import (CancelledError, DeadlineExceededError, DunlinError, FailedPreconditionError,
                                  InternalError, InvalidArgumentError, NotFoundError, PermissionDeniedError,
                                  ResourceExhaustedError, UnauthenticatedError, UnavailableError, UnimplementedError)
from dunlin_client.options import Message, NamedTool, Tls
from dunlin_client.results import (Chunk, Embedding, Embeddings, Execution, Finish, Generation, Model, Output, Profile,
                                   RankedDocument, Ranking, Timings, TokenLogprob, ToolCall, ToolCallDelta, TopLogprob,
                                   Usage)
from dunlin_client.retry import NO_RETRY, RetryPolicy

__all__ = [
    "AsyncClient", "AsyncStream", "CancelledError", "Chunk", "Client", "DeadlineExceededError", "DunlinError",
    "Embedding", "Embeddings", "Execution", "FailedPreconditionError", "Finish", "Generation", "InternalError",
    "InvalidArgumentError", "Message", "Model", "NO_RETRY", "NamedTool", "NotFoundError", "Output",
    "PermissionDeniedError", "Profile", "RankedDocument", "Ranking", "ResourceExhaustedError", "RetryPolicy", "Stream",
    "Timings", "Tls", "TokenLogprob", "ToolCall", "ToolCallDelta", "TopLogprob", "UnauthenticatedError",
    "UnavailableError", "UnimplementedError", "Usage",
]
