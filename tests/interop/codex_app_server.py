# SPDX-License-Identifier: Apache-2.0
"""A conversation with `codex app-server`, the Codex CLI without a terminal: JSON lines on its stdin and stdout. The tools of
a thread are ours: it asks for a call, and `tool` answers it."""

import contextlib
import json
import subprocess

END_S = 20


class AppServer:
    def __init__(self, program, home, dynamic_tools, tool):
        self.tool, self.next_id, self.calls = tool, 0, []
        self.log = open(home.folder / "app_server.log", "wb")
        self.process = subprocess.Popen([program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, cwd=home.work, text=True,
                                        env=home.environment(CODEX_HOME=str(home.folder)))
        self.request("initialize", clientInfo={"name": "interop", "version": "1"}, capabilities={"experimentalApi": True})
        self.send(method="initialized")
        thread = self.request("thread/start", model="demo", cwd=str(home.work), approvalPolicy="never",
                              sandbox="read-only", dynamicTools=dynamic_tools)
        self.thread_id = thread["thread"]["id"]

    def send(self, **message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self):
        """The next message that asks nothing of us; calls of tools are answered."""
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("method") != "item/tool/call":
                return message
            call = message["params"]
            self.calls.append(call)
            items = [{"type": "inputText", "text": self.tool(**call["arguments"])}]
            self.send(id=message["id"], result={"success": True, "contentItems": items})
        raise AssertionError("codex app-server ended")

    def request(self, method, **params):
        self.next_id += 1
        self.send(id=self.next_id, method=method, params=params)
        while True:
            message = self.receive()
            if message.get("id") == self.next_id and "method" not in message:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]

    def turn(self, question):
        """The text that answers question."""
        self.request("turn/start", threadId=self.thread_id, input=[{"type": "text", "text": question}])
        text = ""
        while True:
            message = self.receive()
            params = message.get("params", {})
            if message.get("method") == "item/completed" and params["item"]["type"] == "agentMessage":
                text = params["item"]["text"]
            if message.get("method") == "turn/completed":
                if params["turn"]["status"] != "completed":
                    raise AssertionError(f"the turn ended as {params['turn']}")
                return text

    def close(self):
        """Ends the process, which ends by itself when its input does."""
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
