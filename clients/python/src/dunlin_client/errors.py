# SPDX-License-Identifier: Apache-2.0
"""What a refused or failed call raises: one class for each gRPC code, with the details that the server sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class ErrorDetails:
    """What the server said besides code and message; empty or None where it does not apply."""

    reason: str = ""  # of docs/operations.md, "Refusal reasons": "QUEUE_FULL"
    field: str = ""  # the field at fault: "sampling.top_p"
    limit: str = ""  # of that field
    refusals: tuple[str, ...] = ()  # every reason against the execution choice
    config_key: str = ""  # the server's limit that was reached
    retry_delay_s: float | None = None  # when to try again


class DunlinError(Exception):
    """Base of all errors of a call. `code` is gRPC's: "INVALID_ARGUMENT"."""

    def __init__(self, code: str, message: str, details: ErrorDetails | None = None) -> None:
        super().__init__(message)
        details = details or ErrorDetails()
        self.code = code
        self.message = message
        self.reason = details.reason
        self.field = details.field
        self.limit = details.limit
        self.refusals = details.refusals
        self.config_key = details.config_key
        self.retry_delay_s = details.retry_delay_s

    def __str__(self) -> str:
        return f"{self.code}{f' ({self.reason})' if self.reason else ''}: {self.message}"


class InvalidArgumentError(DunlinError):
    """A field is out of its bounds, or malformed."""


class NotFoundError(DunlinError):
    """No such model."""


class FailedPreconditionError(DunlinError):
    """The model cannot do this: a profile that it lacks, a chat without a template."""


class ResourceExhaustedError(DunlinError):
    """A queue or a quota is full, or the deadline would be missed."""


class UnavailableError(DunlinError):
    """The server is not there, starts, or stops."""


class DeadlineExceededError(DunlinError):
    """The call's timeout is over."""


class CancelledError(DunlinError):
    """The call was cancelled."""


class UnauthenticatedError(DunlinError):
    """No valid API key."""


class PermissionDeniedError(DunlinError):
    """The API key does not allow this call."""


class UnimplementedError(DunlinError):
    """The server does not have this method."""


class InternalError(DunlinError):
    """A fault of the server."""


_CLASSES: dict[str, type[DunlinError]] = {
    "INVALID_ARGUMENT": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "UNAVAILABLE": UnavailableError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "CANCELLED": CancelledError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "UNIMPLEMENTED": UnimplementedError,
    "INTERNAL": InternalError,
}


def _details_of(serialized: bytes) -> ErrorDetails:
    """Of a serialized google.rpc.Status. Raises DecodeError."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    precondition, quota = error_details_pb2.PreconditionFailure(), error_details_pb2.QuotaFailure()
    found = [detail for any_ in status_pb2.Status.FromString(serialized).details
             for detail in (info, retry, precondition, quota) if any_.Unpack(detail)]
    delay = retry.retry_delay
    return ErrorDetails(
        reason=info.reason,
        field=info.metadata.get("field", ""),
        limit=info.metadata.get("limit", ""),
        refusals=tuple(violation.description for violation in precondition.violations),
        config_key=quota.violations[0].subject if quota.violations else "",
        retry_delay_s=delay.seconds + delay.nanos / 1e9 if retry in found else None,
    )


def make_error(code: str, message: str, trailers: Iterable[Any] = ()) -> DunlinError:
    """Of a status and its trailing metadata, pairs of key and value. Details that cannot be parsed are left out."""
    details = ErrorDetails()
    for key, value in trailers:
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                details = _details_of(value)
            except DecodeError:
                pass
    return _CLASSES.get(code, DunlinError)(code, message, details)


def error_of(error: grpc.RpcError) -> DunlinError:
    """Of what a synchronous or an asyncio call raised."""
    code: grpc.StatusCode = error.code()
    return make_error(code.name, error.details() or "", error.trailing_metadata() or ())
