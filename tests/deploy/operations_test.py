#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operations.md, the alerts and the dashboard speak of what the server has: its metrics, its refusal reasons, its
sizes. Usage: operations_test.py BINARY
"""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/release/dunlin")
OPERATIONS = (ROOT / "docs/operations.md").read_text()
ALERTS = (ROOT / "deploy/prometheus/alerts.yaml").read_text()
ALERT_TESTS = (ROOT / "tests/deploy/alerts_test.yaml").read_text()
DASHBOARD = (ROOT / "deploy/grafana/dunlin.json").read_text()


def golden_kinds():
    lines = (ROOT / "tests/server/observe/metrics/metric_names.txt").read_text().split("\n")
    return dict(line.split() for line in lines if line)


def rows(heading):
    """The first cells of the table below a heading."""
    section = OPERATIONS.split(f"\n{heading}\n")[1].split("\n#")[0]
    return [line.split("|")[1].strip() for line in section.split("\n") if line.startswith("| ")][1:]


def named_series(text):
    """Every series name of ours in queries."""
    return set(re.findall(r"\b(?:dunlin_|vllm:|process_|grpc_server_)\w+", text))


def metric_of(series, kinds):
    for suffix in ("_bucket", "_sum", "_count"):
        if kinds.get(series.removesuffix(suffix)) == "histogram":
            return series.removesuffix(suffix)
    return series


def dashboard_queries():
    return " ".join(re.findall(r'"expr": "(.*)"', DASHBOARD))


class Metrics(unittest.TestCase):
    def test_the_table_of_the_docs_is_the_golden_list(self):
        self.assertEqual(sorted(rows("## Metrics")), sorted(f"`{name}`" for name in golden_kinds()))

    def test_alerts_read_series_that_exist(self):
        kinds = golden_kinds()
        read = {metric_of(series, kinds) for series in named_series("".join(re.findall(r"expr: [^#]*?for:|expr: .*", ALERTS)))}
        self.assertGreater(len(read), 8)
        self.assertEqual(read - set(kinds), set())

    def test_the_dashboard_shows_every_metric_and_no_other(self):
        kinds = golden_kinds()
        shown = {metric_of(series, kinds) for series in named_series(dashboard_queries())}
        self.assertEqual(shown, set(kinds))

    def test_panels_have_ids_and_places_of_their_own(self):
        panels = json.loads(DASHBOARD)["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells


class Alerts(unittest.TestCase):
    names = re.findall(r"- alert: (\w+)", ALERTS)

    def test_each_has_a_runbook_that_is_there(self):
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
                   for title in re.findall(r"^#+ (.*)$", OPERATIONS, re.M)}
        links = re.findall(r'runbook: "docs/operations.md#(.*)"', ALERTS)
        self.assertEqual(len(links), len(self.names))
        self.assertEqual(set(links) - anchors, set())
        self.assertEqual(set(re.findall(r"\]\(#(.*?)\)", OPERATIONS)) - anchors, set())

    def test_each_is_seen_firing(self):
        fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels", ALERT_TESTS))
        self.assertEqual(fired, set(self.names))


class Reasons(unittest.TestCase):
    def test_the_docs_name_every_refusal_reason(self):
        table = (ROOT / "server/serving/record/errors.cc").read_text()
        reasons = re.findall(r'\{Reason::k\w+, "(\w+)"', table)
        self.assertGreater(len(reasons), 15)
        named = re.findall(r"`(\w+)`", " ".join(rows("### Refusal reasons")))
        self.assertEqual(sorted(named), sorted(reasons))


class Sizing(unittest.TestCase):
    def test_the_table_is_what_inspect_says(self):
        section = OPERATIONS.split("\n## Sizing\n")[1].split("\n## ")[0]
        lines = re.findall(r"^\| [a-z0-9.-]+ \|.* GB \|$", section, re.MULTILINE)  # one model a row, KV of 64 sequences last
        self.assertGreater(len(lines), 4)
        for line in lines:
            name = line.split("|")[1].strip()
            output = subprocess.run([BINARY, "inspect", "--shape", name, "--json"], check=True, capture_output=True)
            model = json.loads(output.stdout)
            weights, kv = model["weights_bytes"], model["kv_bytes_per_token"]
            sizes = [f"{weights[precision] / 1e9:.2f} GB" for precision in ("bf16", "fp8", "fp32")]
            tokens = [str(kv[dtype]) for dtype in ("bf16", "fp8_e4m3", "fp32")]
            cells = [name, *sizes, *tokens, f"{64 * 1024 * kv['bf16'] / 1e9:.2f} GB"]
            self.assertEqual(line, "| " + " | ".join(cells) + " |")


class Compose(unittest.TestCase):
    def test_the_file_is_one(self):
        command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        present = shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True, check=False)
        if not present or present.returncode != 0:  # docker may lack the plugin
            self.skipTest("needs docker compose")
        done = subprocess.run([*command, "-f", str(ROOT / "deploy/compose.yaml"), "config"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class Image(unittest.TestCase):
    def test_the_context_has_every_folder_that_the_build_reads(self):
        read = set(re.findall(r"^\s*add_subdirectory\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
        self.assertIn("server", read)
        sent = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M))
        self.assertEqual(read - sent, set())


class ImageDigest(unittest.TestCase):
    @staticmethod
    def built(folder, container, environment):
        """An image in Docker's format, as buildah saves one that its container has made."""
        layer = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": 3, "digest": "sha256:" + "a" * 64}
        document = {"created": "2023-11-14T22:13:20Z", "container": container, "container_config": {"Hostname": container[:12]},
                    "config": {"Hostname": container[:12], "Env": environment, "Healthcheck": {"Test": ["CMD", "x"]}},
                    "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
                    "history": [{"created_by": "COPY", "comment": f"FROM {container[:12]}"}]}
        config = json.dumps(document).encode()
        digest = hashlib.sha256(config).hexdigest()
        (folder / digest).write_bytes(config)
        (folder / "manifest.json").write_text(json.dumps({"schemaVersion": 2, "layers": [layer], "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": f"sha256:{digest}"}}))

    def digest_of(self, container, environment):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.built(folder, container, environment)
            id_of = subprocess.run([ROOT / "deploy/normal_image.py", folder], check=True, capture_output=True, text=True).stdout.strip()
            files = {path.name: path.read_bytes() for path in folder.iterdir()}
        manifest = json.loads(files.pop("manifest.json"))
        (name, config), = files.items()
        self.assertEqual(name, id_of)
        self.assertEqual(hashlib.sha256(config).hexdigest(), name)
        self.assertEqual(manifest["config"]["digest"], f"sha256:{name}")
        self.assertEqual(manifest["config"]["size"], len(config))
        self.assertEqual(manifest["layers"][0]["digest"], "sha256:" + "a" * 64)
        self.assertEqual(json.loads(config)["config"], {"Env": environment, "Healthcheck": {"Test": ["CMD", "x"]}})
        return id_of

    def test_it_does_not_depend_on_the_containers_that_built_it(self):
        self.assertEqual(self.digest_of("1" * 64, ["A=1"]), self.digest_of("2" * 64, ["A=1"]))
        self.assertNotEqual(self.digest_of("1" * 64, ["A=1"]), self.digest_of("1" * 64, ["A=2"]))


class Bill(unittest.TestCase):
    def test_pinned_wheels_are_listed_with_their_hashes(self):
        document = {"metadata": {"component": {"bom-ref": "dunlin@1"}}, "components": []}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            command = [sys.executable, ROOT / "deploy/sbom.py", "--wheels", file.name, ROOT / "deploy/cublas.lock",
                       f"{ROOT}/deploy/cuda_toolkit.lock:nvidia-cuda-runtime"]
            listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["components"]
            unknown = subprocess.run([*command, f"{ROOT}/deploy/cublas.lock:nobody"], capture_output=True, check=False)
        self.assertEqual([component["name"] for component in listed], ["nvidia-cublas", "nvidia-cuda-runtime"])
        for component in listed:
            self.assertEqual(component["purl"], f"pkg:pypi/{component['name']}@{component['version']}")
            self.assertRegex(component["hashes"][0]["content"], r"^[0-9a-f]{64}$")
        self.assertIn(b"does not pin nobody", unknown.stderr)


class Nightly(unittest.TestCase):
    def test_the_workflow_runs_every_step(self):
        steps = subprocess.run([ROOT / ".ci/nightly", "list"], check=True, capture_output=True, text=True).stdout.split()
        matrix = re.search(r"^ +steps: (\[.*\])$", (ROOT / ".github/workflows/nightly.yml").read_text(), re.M)[1]
        self.assertEqual(sorted(" ".join(json.loads(matrix)).split()), sorted(steps))

    def test_each_step_is_a_command_that_is_there(self):
        targets = set(" ".join(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.M)).split())
        steps = re.findall(r'^  "[a-z-]+ (.*)"$', (ROOT / ".ci/nightly").read_text(), re.M)
        self.assertGreater(len(steps), 10)
        for step in steps:
            command = step.split()
            self.assertTrue(command[1] in targets if command[0] == "make" else (ROOT / command[0]).exists(), step)


class Versions(unittest.TestCase):
    def test_the_router_is_one_version_everywhere(self):
        version, = re.findall(r"^smg==(\S+)$", (ROOT / "deploy/router/requirements.in").read_text(), re.M)
        for path, pattern in (("deploy/router/requirements.txt", r"^smg==(\S+)"), ("deploy/compose.yaml", r"image: smg:(\S+)"),
                              ("deploy/router/Dockerfile", r"docker run .* smg:(\S+)"), ("README.md", r"smg==(\S+)"),
                              ("deploy/kubernetes/dunlin.yaml", r"image: registry.example/smg:(\S+)"),
                              ("tests/interop/requirements/smg_router.txt", r"^smg==(\S+)")):
            self.assertEqual(set(re.findall(pattern, (ROOT / path).read_text(), re.M)), {version}, path)

    def test_the_deployment_names_the_version_of_the_binary(self):
        version = subprocess.run([BINARY, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        for path, pattern in (("deploy/Dockerfile", r"ARG VERSION=(\S+)"), ("deploy/compose.yaml", r"image: dunlin:(\S+)"),
                              ("CMakeLists.txt", r"project\(dunlin VERSION (\S+)"),
                              ("deploy/helm/dunlin/Chart.yaml", r"\bversion: (\S+)"),
                              ("deploy/helm/dunlin/Chart.yaml", r'appVersion: "(\S+)"'),
                              ("deploy/kubernetes/dunlin.yaml", r"image: registry.example/dunlin:(\S+)"),
                              ("deploy/kubernetes/kserve.yaml", r"image: registry.example/dunlin:(\S+)")):
            self.assertEqual(re.findall(pattern, (ROOT / path).read_text()), [version], path)


if __name__ == "__main__":
    unittest.main()
