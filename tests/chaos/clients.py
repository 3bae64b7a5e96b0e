# SPDX-License-Identifier: Apache-2.0
"""Clients that stream the same completions again and again, and what each of them saw."""
import collections
import http.client
import json
import threading
import time

PROMPTS = ["A long tale of the sea", "The birds fly", "Once upon a time there was"]
MAX_TOKENS = 48


def body_of(prompt, max_tokens=MAX_TOKENS):
    return json.dumps({"model": "demo", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True,
                       "stream": True})


def complete(server, prompt, max_tokens=MAX_TOKENS, timeout=60):
    """(outcome, text): "ok", or the refusal or the failure in a word."""
    connection = server.connect(timeout)
    text = ""
    try:
        connection.request("POST", "/v1/completions", body_of(prompt, max_tokens), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            error = json.loads(answer.read() or b"{}").get("error", {})
            return f"{answer.status} {error.get('code') or error.get('type') or ''}".strip(), text
        for line in answer:
            if line.strip() == b"data: [DONE]":
                return "ok", text
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                return f"ended: {event['error'].get('code') or event['error'].get('type')}", text
            text += event["choices"][0]["text"] if event["choices"] else ""
        return "cut off", text
    except TimeoutError:
        return "no answer", text
    except ConnectionRefusedError:
        return "refused to connect", text
    except (OSError, http.client.HTTPException):
        return "cut off", text
    finally:
        connection.close()


class Clients:
    """`count` threads. Every answer has to be the bytes, or of one that was cut off the first bytes, of the same request
    before the fault."""

    def __init__(self, server, count=6, timeout=60):
        self.server, self.timeout = server, timeout
        self.expected = {prompt: complete(server, prompt)[1] for prompt in PROMPTS}
        self.saw = collections.Counter()
        self.lock = threading.Lock()  # guards saw
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(PROMPTS[i % len(PROMPTS)],), daemon=True)
                        for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, prompt):
        while not self.stopping.is_set():
            outcome, text = complete(self.server, prompt, timeout=self.timeout)
            whole = self.expected[prompt]
            if text != whole if outcome == "ok" else not whole.startswith(text):
                outcome = "WRONG BYTES"
            with self.lock:
                self.saw[outcome] += 1
            if outcome != "ok":
                time.sleep(0.1)

    def count(self, outcome="ok"):
        with self.lock:
            return self.saw[outcome]

    def stop(self):
        """What they saw, the most frequent first."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return ", ".join(f"{count} {outcome}" for outcome, count in self.saw.most_common())
