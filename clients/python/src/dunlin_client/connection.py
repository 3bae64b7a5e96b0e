# SPDX-License-Identifier: Apache-2.0
"""What both clients share: the methods, the channel's settings, a call's model, deadline and metadata."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message as ProtoMessage

from dunlin_client._proto.dunlin.v1 import embedding_pb2, generation_pb2, model_pb2
from dunlin_client.options import Tls
from dunlin_client.requests import Options
from dunlin_client.retry import RetryPolicy

DEFAULT_TIMEOUT_S = 60.0
_MAX_RESPONSE_BYTES = 256 << 20  # embeddings of many inputs exceed gRPC's default, 4 MiB

Request = TypeVar("Request", bound=ProtoMessage)
Response = TypeVar("Response", bound=ProtoMessage)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    path: str
    request: type[Request]
    response: type[Response]


GENERATE = Method("/dunlin.v1.GenerationService/Generate", generation_pb2.GenerateRequest,
                  generation_pb2.GenerateResponse)
EMBED = Method("/dunlin.v1.EmbeddingService/Embed", embedding_pb2.EmbedRequest, embedding_pb2.EmbedResponse)
RERANK = Method("/dunlin.v1.EmbeddingService/Rerank", embedding_pb2.RerankRequest, embedding_pb2.RerankResponse)
LIST_MODELS = Method("/dunlin.v1.ModelService/ListModels", model_pb2.ListModelsRequest, model_pb2.ListModelsResponse)
GET_MODEL = Method("/dunlin.v1.ModelService/GetModel", model_pb2.GetModelRequest, model_pb2.GetModelResponse)


@dataclass(frozen=True)
class Settings:
    """Of a client. The key is in no repr."""

    model: str
    timeout_s: float | None
    retry: RetryPolicy
    metadata: tuple[tuple[str, str], ...]

    def options(self, given: Any) -> dict[str, Any]:
        """A call's options with the client's model and timeout where it names none."""
        options: dict[str, Any] = {"model": self.model, "timeout_s": self.timeout_s, **given}
        if not options["model"]:
            raise ValueError("no model is given, to the client or to the call")
        return options

    def __repr__(self) -> str:
        return f"Settings(model={self.model!r}, timeout_s={self.timeout_s!r}, retry={self.retry!r})"


def address_of(address: str | None) -> str:
    return address or os.environ.get("DUNLIN_ADDRESS") or "127.0.0.1:50051"


def make_settings(model: str, timeout_s: float | None, retry: RetryPolicy, api_key: str | None) -> Settings:
    api_key = api_key or os.environ.get("DUNLIN_API_KEY")
    metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
    return Settings(model, timeout_s, retry, metadata)


def timeout_of(options: Options) -> float | None:
    timeout: float | None = options["timeout_s"]
    return timeout


def channel_options(tls: Tls | None) -> list[tuple[str, Any]]:
    options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", _MAX_RESPONSE_BYTES)]
    if tls is not None and tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Reads the files. Raises OSError."""
    ca, cert, key = (pathlib.Path(path).read_bytes() if path is not None else None
                     for path in (tls.ca_file, tls.cert_file, tls.key_file))
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)
