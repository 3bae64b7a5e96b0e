#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner with clients made for the test. Usage: run_test.py DUNLIN_BINARY. Standard library only, no network."""

import contextlib
import http.client
import http.server
import io
import json
import pathlib
import re
import sys
import tempfile
import threading
import unittest
import unittest.mock
import urllib.error
import urllib.request

BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())

import recorder
import run
import scripted_model
import serving

HERE = pathlib.Path(__file__).resolve().parent
SPEAKS = """
import sys
sys.path.insert(0, "%s")
import json, urllib.request
from checks import BASE_URL, SERVED, Checks, metric, same
checks = Checks()

@checks.add("models")
def models():
    with urllib.request.urlopen(BASE_URL + "/v1/models", timeout=10) as reply:
        same([model["id"] for model in json.load(reply)["data"]], list(SERVED))
    same(metric("vllm:num_requests_running"), 0)

@checks.add("async")
async def coroutine():
    pass
""" % HERE


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "requirements").mkdir()
        run.HERE = cls.folder

    def run_client(self, program, *arguments, requirements="", slow=False):
        """Exit status and output of the runner with one client."""
        (self.folder / "client.py").write_text(program)
        (self.folder / "requirements/client.txt").write_text(requirements)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = run.main([BINARY, "--work", str(self.folder / "work"), *arguments],
                              [run.Client("test-client", "client.py", slow, 60, "server/")])
        return status, output.getvalue()

    def test_outcomes_of_checks_are_rows_and_the_exit_status(self):
        status, output = self.run_client(SPEAKS + "checks.run()")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"test-client +models +ok")
        self.assertIn("2 checks of 1 clients, 0 failed", output)
        failed_clients = self.folder / "work/failed_clients"
        self.assertEqual(failed_clients.read_text(), "")
        failing = '@checks.add("fails")\ndef fails():\n    same(1, 2, "number")\n'
        status, output = self.run_client(SPEAKS + failing + "checks.run()")
        self.assertEqual(status, 1)
        self.assertRegex(output, r"test-client +fails +FAILED: AssertionError: number is 1, expected 2")
        self.assertEqual(failed_clients.read_text(), "test-client\n")
        status, output = self.run_client(SPEAKS + "checks.run()\nsys.exit(3)")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: exit status is 3", output)
        status, output = self.run_client("")
        self.assertEqual(status, 1, "a program without a check checks nothing")

    def test_a_client_that_cannot_be_installed_fails_unless_it_may_be_missing(self):
        absent = {"requirements": str(self.folder / "absent.whl")}
        status, output = self.run_client(SPEAKS + "checks.run()", **absent)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"test-client +install +FAILED: .*absent\.whl")
        status, output = self.run_client(SPEAKS + "checks.run()", "--allow-missing", **absent)
        self.assertEqual(status, 0)
        self.assertRegex(output, r"test-client +install +missing: ")

    def test_slow_clients_run_only_where_they_are_asked_for(self):
        status, output = self.run_client(SPEAKS + "checks.run()", slow=True)
        self.assertIn("0 checks of 0 clients", output)
        for asked in (["--full"], ["--only", "test-client"]):
            status, output = self.run_client(SPEAKS + "checks.run()", *asked, slow=True)
            self.assertIn("2 checks of 1 clients, 0 failed", output)
            self.assertEqual(status, 0)


class ThirdTest(unittest.TestCase):
    """Which clients a change runs."""

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(unittest.mock.patch.object(run, "HERE", HERE))

    def names(self, turn, *changed):
        return {client.name for client in run.third_of(run.CLIENTS, turn, changed)}

    def test_three_thirds_are_all_clients(self):
        thirds = [self.names(turn) for turn in (3, 4, 5)]
        self.assertEqual(sum(map(len, thirds)), len(run.CLIENTS))
        self.assertEqual(set.union(*thirds), {client.name for client in run.CLIENTS})
        self.assertLessEqual(len(max(thirds, key=len)) - len(min(thirds, key=len)), 1)

    def test_a_client_whose_program_or_packages_changed_is_in_each_third(self):
        for turn in range(3):
            self.assertIn("codex", self.names(turn, "tests/interop/requirements/codex_run/package-lock.json"))
            self.assertIn("cohere", self.names(turn, "tests/interop/requirements/cohere_python.txt"))
            self.assertIn("smg", self.names(turn, "tests/interop/scaling_recipe.py"))
            self.assertIn("ai-sdk", self.names(turn, "tests/interop/node/ai_sdk_node.mjs"))
            self.assertIn("vllm-proto", self.names(turn, "tests/interop/vllm_client/Cargo.lock"))
            self.assertEqual(self.names(turn, "docs/openai.md", "tests/interop/serving.py", ""), self.names(turn))

    def test_one_client_of_each_changed_part_of_the_server_is_in_each_third(self):
        kserve = {"tritonclient", "tritonclient-http"}
        chosen = [self.names(turn, "server/fronts/kserve/infer.cc") for turn in range(6)]
        for turn, names in enumerate(chosen):
            self.assertTrue(kserve & names)
            self.assertLessEqual(len(names - self.names(turn)), 1)
        changes = ["deploy/kubernetes/dunlin.yaml", "server/transport/zmq/publisher.cc", "server/fronts/openai/routes.cc"]
        for turn in range(3):
            self.assertIn("kubernetes-validate", self.names(turn, *changes))
            self.assertTrue({"vllm-proto", "dynamo"} & self.names(turn, *changes))
            self.assertTrue({"smg", "smg-idle"} & self.names(turn, *changes))

    def test_what_a_client_tests_is_in_the_tree(self):
        paths = [path.relative_to(serving.ROOT).as_posix() for folder in ("server", "deploy") for path in (serving.ROOT / folder).rglob("*")]
        for client in run.CLIENTS:
            self.assertTrue(any(re.match(client.tests, path) for path in paths), client.name)


class AgentPartsTest(unittest.TestCase):
    """What coding agents are run with, without an agent."""

    TOOL = {"type": "function", "function": {"name": "read", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}
    CALL = {"name": "read", "arguments": {"path": "wren.md"}}

    def test_the_scripted_model_calls_its_tool_and_ends_when_it_has_the_result(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            scripted_model.write(folder / "scripted", run.MODEL_DIR, self.CALL, "It is a bird.")
            models = [serving.model("scripted", folder / "scripted")]
            with serving.serve(BINARY, folder, models) as server, recorder.Recorder(server.base_url) as record:
                self.converse(record)

    def converse(self, record):
        history = [{"role": "user", "content": "word " * 20000}]  # a prompt as long as an agent's
        message = self.chat(record, history)
        [call] = message["tool_calls"]
        self.assertEqual({"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])},
                         self.CALL)
        history += [message, {"role": "tool", "tool_call_id": call["id"], "content": "The wren is brown."}]
        self.assertEqual(self.chat(record, history)["content"], "It is a bird.")
        record.check_all_answered()
        self.assertEqual([each.status for each in record.posts("/v1/chat/completions")], [200, 200])
        self.assertEqual(record.exchanges[-1].body["messages"][-1]["content"], "The wren is brown.")

    def chat(self, record, messages):
        body = json.dumps({"model": "scripted", "messages": messages, "tools": [self.TOOL], "max_tokens": 64})
        with urllib.request.urlopen(record.base_url + "/v1/chat/completions", body.encode(), timeout=60) as reply:
            return json.load(reply)["choices"][0]["message"]

    def test_the_recorder_tells_of_answers_that_are_errors_and_of_other_hosts(self):
        with serving_nothing() as url, recorder.Recorder(url) as record:
            with self.assertRaises(urllib.error.HTTPError):
                urllib.request.urlopen(record.base_url + "/v1/models", timeout=10)
            with self.assertRaisesRegex(AssertionError, "GET /v1/models: 501"):
                record.check_all_answered()
            record.exchanges.clear()
            record.check_all_answered()
            proxied = http.client.HTTPConnection(record.base_url.removeprefix("http://"), timeout=10)
            proxied.request("CONNECT", "example.org:443")
            self.assertEqual(proxied.getresponse().status, 403)
            proxied.close()
            with self.assertRaisesRegex(AssertionError, "example.org:443"):
                record.check_all_answered()


@contextlib.contextmanager
def serving_nothing():
    """A server that has no method."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()


if __name__ == "__main__":
    unittest.main(verbosity=2)
