# SPDX-License-Identifier: Apache-2.0
"""Clients that ask the requests of mix.py in any order, and compare each answer with that of the same request alone. One thread
waits for all of them, so that it is the server that the time goes to."""
import random
import selectors
import threading
import time

from answers import answer_bytes
from connection import Connection, request_bytes
from grpc_connection import GrpcConnection, grpc_request
from mix import requests

CANCELLED = 0.03  # of the requests: the client leaves in the middle
ANSWER_S = 60     # after which a request without its whole answer is a fault


def over_grpc(request):
    return isinstance(request.body, bytes)


def data_of(request, server):
    """What a connection of its kind sends."""
    if over_grpc(request):
        return grpc_request(request.path, request.body, server.grpc)
    return request_bytes(request.path, request.body, server.http)


def connections(server):
    """One over gRPC and one over HTTP, each opened with its first request, by over_grpc."""
    return {True: GrpcConnection(server.grpc, ANSWER_S), False: Connection(server.http, ANSWER_S)}


class References:
    """What each request answers alone, asked one after another while nothing else runs."""

    def __init__(self, server, asked=None):
        self.requests = requests() if asked is None else asked
        self.bytes = [data_of(request, server) for request in self.requests]
        self.answers = []
        kinds = connections(server)
        for request, data in zip(self.requests, self.bytes):
            connection = kinds[over_grpc(request)]
            connection.send(data)
            answer = None
            while answer is None:
                answer = connection.receive()
            status, body = answer
            compared = answer_bytes(request.path, body, request.streamed) if status == 200 else None
            if compared is None:
                raise RuntimeError(f"{request.path} {request.body}: {status} {body[:400]!r}")
            self.answers.append(compared)
        for connection in kinds.values():
            connection.close()


class Client:
    """One request after another, on a connection for each protocol."""

    def __init__(self, server, choice):
        self.connections, self.choice = connections(server), choice
        self.connection = None  # of its request
        self.number = None  # of its request; None: it has none
        self.leaves, self.due = False, 0.0

    def ask(self, number, data, grpc):
        self.connection = self.connections[grpc]
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
            for connection in client.connections.values():
                connection.close()
            return
        number = client.choice.randrange(len(self.references.requests))
        try:
            client.ask(number, self.references.bytes[number], over_grpc(self.references.requests[number]))
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
