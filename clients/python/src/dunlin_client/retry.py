# SPDX-License-Identifier: Apache-2.0
"""When a call is tried again. Only calls of which nothing has arrived are: every call of this client can be repeated
without an effect on the server, but what was streamed to a caller cannot be taken back."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from dunlin_client.errors import DunlinError


@dataclass(frozen=True)
class RetryPolicy:
    """The server's RetryInfo is followed where it sends one; UNAVAILABLE without it (no connection, a server that
    stops) backs off exponentially. All else is raised at once, also where the timeout does not leave the wait."""

    max_attempts: int = 5  # 1: never again
    initial_backoff_s: float = 0.1  # doubles with each attempt
    max_backoff_s: float = 5.0
    jitter: float = 0.25  # a wait is longer by up to this share of it, so that clients do not return together

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts}; the least is 1")
        if min(self.initial_backoff_s, self.max_backoff_s, self.jitter) < 0:
            raise ValueError("initial_backoff_s, max_backoff_s and jitter cannot be negative")

    def delay_s(self, error: DunlinError, attempt: int) -> float | None:
        """Seconds to wait after the attempt, from 1, that ended with the error; None: do not repeat it."""
        if attempt >= self.max_attempts or error.code not in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
            return None
        delay = error.retry_delay_s
        if delay is None:
            if error.code != "UNAVAILABLE":
                return None
            delay = min(self.max_backoff_s, self.initial_backoff_s * 2 ** (attempt - 1))
        return delay * (1 + random.uniform(0, self.jitter))


NO_RETRY = RetryPolicy(max_attempts=1)


class Attempts:
    """The attempts of one call. timeout_s: of all attempts and waits together; None: no deadline."""

    def __init__(self, policy: RetryPolicy, timeout_s: float | None) -> None:
        self._policy = policy
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._attempt = 1

    def timeout_s(self) -> float | None:
        """What the deadline leaves to the next attempt."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def wait_after(self, error: DunlinError) -> float:
        """Seconds to wait before the next attempt. Raises the error where there is none."""
        delay = self._policy.delay_s(error, self._attempt)
        left = self.timeout_s()
        if delay is None or (left is not None and delay >= left):
            raise error
        self._attempt += 1
        return delay
