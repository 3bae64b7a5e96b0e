# SPDX-License-Identifier: Apache-2.0
"""What a fault is given and how it says what it found."""
from clients import Clients
from server import WAIT_S, Server, wait_until


class Broken(Exception):
    pass


class Skipped(Exception):
    pass


def expect(holds, otherwise):
    if not holds:
        raise Broken(otherwise)


class Run:
    """What a fault works with, and what it finds out."""

    def __init__(self, binary):
        self.binary = binary
        self.server = None
        self.clients = None
        self.saw = "-"     # clients
        self.health = "-"  # how soon the probes said so, and how soon they were fine again
        self.exit = None   # the status that the server has to end with; None: that of a drain

    def start(self, clients=6, **options):
        self.server = Server(self.binary, **options)
        self.clients = Clients(self.server, clients) if clients else None
        if clients:
            expect(wait_until(lambda: self.clients.count() >= clients), "the load does not start")
        return self.server

    def answers_go_on(self):
        done = self.clients.count()
        expect(wait_until(lambda: self.clients.count() > done + 5) is not None, "no more answers")

    def finish_clients(self, allowed=()):
        """allowed: outcomes besides "ok"."""
        self.saw = self.clients.stop()
        others = [outcome for outcome in self.clients.saw if outcome != "ok" and not outcome.startswith(tuple(allowed) or "-")]
        expect(not others, f"clients saw {others}")

    def watch_health(self, *statuses):
        """Until /readyz has one of these statuses; 0: no answer."""
        return wait_until(lambda: self.server.get("/readyz", timeout=2 if 0 in statuses else WAIT_S)[0] in statuses)


def seconds(found):
    expect(found is not None, f"health did not follow within {WAIT_S} s")
    return f"{found:.1f} s"


def reload_model(server):
    connection = server.connect()
    connection.request("POST", "/v2/repository/models/demo/load", "{}", {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()
