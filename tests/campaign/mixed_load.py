# SPDX-License-Identifier: Apache-2.0
"""Clients that ask the requests of mix.py in any order, and compare each answer with that of the same request alone."""
import http.client
import json
import random
import threading

from mix import answer_bytes, requests

CANCELLED = 0.03  # of the requests: the client leaves in the middle


class Caller:
    """One connection, opened again where it ended."""

    def __init__(self, server):
        self.server = server
        self.connection = None

    def ask(self, path, body):
        """(status, the whole body)."""
        for attempt in (1, 2):  # a connection that was idle may have been closed
            try:
                answer = self.send(path, body)
                return answer.status, answer.read()
            except (ConnectionError, http.client.HTTPException):
                self.close()
                if attempt == 2:
                    raise
        return 0, b""

    def send(self, path, body):
        if self.connection is None:
            self.connection = self.server.connect()
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def leave(self, path, body):
        """Reads the first bytes of an answer and goes away."""
        self.send(path, body).read(1)
        self.close()

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class References:
    """What each request answers alone, asked one after another while nothing else runs."""

    def __init__(self, server):
        self.requests = requests()
        caller = Caller(server)
        self.answers = []
        for path, body in self.requests:
            status, answer = caller.ask(path, body)
            compared = answer_bytes(answer, json.loads(body).get("stream", False)) if status == 200 else None
            if compared is None:
                raise RuntimeError(f"{path} {body}: {status} {answer[:400]!r}")
            self.answers.append(compared)
        caller.close()


class MixedLoad:
    def __init__(self, server, references, clients, seed):
        self.references = references
        self.server = server
        self.lock = threading.Lock()  # guards what follows
        self.compared = 0
        self.left = 0
        self.problems = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(random.Random(f"{seed} {number}"),), daemon=True)
                        for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, choice):
        caller = Caller(self.server)
        while not self.stopping.is_set():
            number = choice.randrange(len(self.references.requests))
            path, body = self.references.requests[number]
            try:
                if choice.random() < CANCELLED:
                    caller.leave(path, body)
                    self.note(left=1)
                else:
                    self.compare(number, *caller.ask(path, body))
            except (OSError, http.client.HTTPException) as problem:
                self.note(problem=f"{path} {body}: {type(problem).__name__} {problem}")
                caller.close()
        caller.close()

    def compare(self, number, status, answer):
        path, body = self.references.requests[number]
        if status != 200:
            return self.note(problem=f"{path} {body}: {status} {answer[:200]!r}")
        found = answer_bytes(answer, json.loads(body).get("stream", False))
        if found != self.references.answers[number]:
            return self.note(compared=1, problem=f"{path} {body}: answered {found!r}, alone {self.references.answers[number]!r}")
        return self.note(compared=1)

    def note(self, compared=0, left=0, problem=None):
        with self.lock:
            self.compared += compared
            self.left += left
            if problem is not None:
                self.problems.append(problem)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
