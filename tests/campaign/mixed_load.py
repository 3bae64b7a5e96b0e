# SPDX-License-Identifier: Apache-2.0
"""Clients that ask the requests of mix.py in any order, and compare each answer with that of the same request alone. One thread
waits for all of them, so that it is the server that the time goes to."""
import random
import selectors
import threading
import time

from answers import answer_bytes
from connection import Connection, request_bytes
from mix import requests

CANCELLED = 0.03  # of the requests: the client leaves in the middle
ANSWER_S = 60     # after which a request without its whole answer is a fault


class References:
    """What each request answers alone, asked one after another while nothing else runs."""

    def __init__(self, server, asked=None):
        self.requests = requests() if asked is None else asked
        self.bytes = [request_bytes(request.path, request.body, server.http) for request in self.requests]
        self.answers = []
        connection = Connection(server.http, ANSWER_S)
        for request, data in zip(self.requests, self.bytes):
            connection.send(data)
            answer = None
            while answer is None:
                answer = connection.receive()
            status, body = answer
            compared = answer_bytes(request.path, body, request.streamed) if status == 200 else None
            if compared is None:
                raise RuntimeError(f"{request.path} {request.body}: {status} {body[:400]!r}")
            self.answers.append(compared)
        connection.close()


class Client:
    """One request after another on one connection."""

    def __init__(self, server, choice):
        self.connection, self.choice = Connection(server.http, ANSWER_S), choice
        self.number = None  # of its request; None: it has none
        self.leaves, self.due = False, 0.0

    def ask(self, number, data):
        self.number, self.leaves, self.due = number, self.choice.random() < CANCELLED, time.monotonic() + ANSWER_S
        self.connection.send(data)


class MixedLoad:
    def __init__(self, server, references, clients, seed):
        self.references = references
        self.compared = self.left = 0
        self.problems = []
        self.stopping = threading.Event()
        self.clients = [Client(server, random.Random(f"{seed} {number}")) for number in range(clients)]
        self.selector = selectors.DefaultSelector()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.serve_clients()
        except Exception as problem:  # of this program: without its thread nothing would be compared any more
            self.problems.append(repr(problem))

    def serve_clients(self):
        for client in self.clients:
            self.ask(client)
        while self.selector.get_map():
            for key, _ in self.selector.select(0.1):
                self.receive(key.data)
            now = time.monotonic()
            for key in [key for key in self.selector.get_map().values() if key.data.due < now]:
                self.fail(key.data, f"no answer within {ANSWER_S} s")

    def ask(self, client):
        """The next one, unless the load stops."""
        if self.stopping.is_set():
            client.connection.close()
            return
        number = client.choice.randrange(len(self.references.requests))
        try:
            client.ask(number, self.references.bytes[number])
            self.selector.register(client.connection.socket, selectors.EVENT_READ, client)
        except OSError as problem:
            self.note(client, f"{type(problem).__name__} {problem}")

    def receive(self, client):
        connection = client.connection
        try:
            answer = connection.receive()
        except OSError as problem:
            idle = connection.reused and connection.head is None and not connection.received
            if not idle:  # one that was idle may have been closed
                return self.fail(client, f"{type(problem).__name__} {problem}")
            self.leave(client)
            return self.ask(client)
        if client.leaves:
            self.left += 1
            self.leave(client)
            return self.ask(client)
        if answer is not None:
            self.selector.unregister(connection.socket)
            self.compare(client, *answer)
            self.ask(client)
        return None

    def leave(self, client):
        self.selector.unregister(client.connection.socket)
        client.connection.close()

    def compare(self, client, status, body):
        if status != 200:
            return self.note(client, f"{status} {body[:200]!r}")
        request = self.references.requests[client.number]
        found, alone = answer_bytes(request.path, body, request.streamed), self.references.answers[client.number]
        self.compared += 1
        return self.note(client, f"answered {found!r}, alone {alone!r}") if found != alone else None

    def fail(self, client, problem):
        self.note(client, problem)
        self.leave(client)
        self.ask(client)

    def note(self, client, problem):
        request = self.references.requests[client.number]
        self.problems.append(f"{request.path} {request.body}: {problem}")

    def stop(self):
        """Once the requests in flight have their answers."""
        self.stopping.set()
        self.thread.join()
