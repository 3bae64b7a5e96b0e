#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart deploy/helm/dunlin, with its defaults and with each file of its folder examples, and KServe's runtime
deploy/kubernetes/kserve.yaml: against Kubernetes' schemas (kubernetes-validate), deploy/kubernetes/dunlin.yaml and,
above all, the server. Each pod's command runs here on loopback, with its config, environment, secrets and mounts
below a temporary folder; its probes, the names of its Service and its scrapes are requests to it.
Usage: charts_check.py HELM BINARY, as deploy/charts.sh calls it.
"""
import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/dunlin"
HELM, BINARY = sys.argv.pop(1), str(pathlib.Path(sys.argv.pop(1)).resolve())
RELEASE, NAMESPACE = "birds", "inference"
SETS = {"defaults": None, **{path.stem: path for path in sorted((CHART / "examples").glob("*.yaml"))}}
CUSTOM = {"ServiceMonitor", "ClusterServingRuntime"}  # kinds that Kubernetes itself has no schemas of
START_S = 120
REFERENCE = next(document for document in yaml.safe_load_all((ROOT / "deploy/kubernetes/dunlin.yaml").read_text())
                 if document["kind"] == "StatefulSet")["spec"]["template"]["spec"]
IMAGE_ENVIRONMENT = dict(re.findall(r"(DUNLIN_\w+)=(\S+)", re.search(r"^ENV (DUNLIN_GRPC=.*)$",
                                    (ROOT / "deploy/Dockerfile").read_text(), re.M).group(1)))


def helm(*arguments):
    # Each version of helm takes another one for the cluster's otherwise.
    command = [HELM, *map(str, arguments), "--kube-version", "1.35.0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def render(values, *more):
    files = ["--values", values] if values else []
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *files, *more)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def find(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def make_secrets(folder):
    """The secrets that the examples name."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def read(name):
        return (folder / name).read_text()

    extension = ("-addext", "subjectAltName=DNS:dunlin.example")
    for name, more in (("ca", ()), ("server", extension), ("client", ())):
        by = () if name == "ca" else ("-CA", "ca.crt", "-CAkey", "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt", *by, *more)
    command = [BINARY, "key", "new", "--name", "prometheus", "--permission", "metrics", "--file"]
    done = subprocess.run([*command, folder / "keys.json"], check=True, capture_output=True, text=True)
    pairs = {name: {"ca.crt": read("ca.crt"), "tls.crt": read(f"{name}.crt"), "tls.key": read(f"{name}.key")}
             for name in ("server", "client")}
    return {"dunlin-tls": pairs["server"], "dunlin-probe": pairs["client"],
            "dunlin-client-ca": {"ca.crt": read("ca.crt")}, "dunlin-keys": {"keys.json": read("keys.json")},
            "dunlin-metrics-key": {"key": done.stdout.split()[0]}}


class Pod:
    """A pod's one container, run on this machine: what it mounts is below a folder instead of below /."""

    def __init__(self, spec, documents, secrets, folder):
        self.spec, self.documents, self.secrets, self.folder = spec, documents, secrets, folder
        self.container, = spec["containers"]
        self.mounts = {mount["name"]: mount for mount in self.container.get("volumeMounts", [])}
        given = {row["name"]: row["value"] for row in self.container.get("env", [])}
        self.environment = {name: value for name, value in {**IMAGE_ENVIRONMENT, **given}.items() if value != ""}
        self.config = {}
        for volume in spec.get("volumes", []):
            self.fill(volume, self.place(self.mounts[volume["name"]]["mountPath"]))
        self.command = [self.here(word) for word in self.container["args"]]

    def place(self, path):
        return self.folder / path.lstrip("/")

    def here(self, text):
        """text, with a path below a mount led to where its files are here."""
        paths = [mount["mountPath"] for mount in self.mounts.values()]
        below = rf"(^|=)({'|'.join(map(re.escape, paths))})(?=/|$)"
        return re.sub(below, lambda match: match[1] + str(self.place(match[2])), text)

    def fill(self, volume, place):
        if "configMap" in volume:
            source, = [document for document in find(self.documents, "ConfigMap")
                       if document["metadata"]["name"] == volume["configMap"]["name"]]
            self.config = json.loads(source["data"]["dunlin.json"])
            for model in self.config["models"]:
                self.link_model(model["path"])
            contents = {"dunlin.json": json.dumps(self.local(self.config))}
        elif "secret" in volume:
            secret = self.secrets[volume["secret"]["secretName"]]
            items = volume["secret"].get("items", [{"key": key, "path": key} for key in secret])
            contents = {item["path"]: secret[item["key"]] for item in items}
        else:
            return
        place.mkdir(parents=True)
        for name, text in contents.items():
            (place / name).write_text(text)

    def link_model(self, path):
        self.place(path).parent.mkdir(parents=True, exist_ok=True)
        self.place(path).symlink_to(ROOT / "models/demo")

    def local(self, value):
        if isinstance(value, dict):
            return {key: self.local(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.local(entry) for entry in value]
        return self.here(value) if isinstance(value, str) else value

    def listens(self, port):
        """The address that the server would take in the pod: the environment's before the config's."""
        return self.environment.get(f"DUNLIN_{port.upper()}") or self.config["listen"][port]

    def start(self, address):
        # KV memory that any machine has, and no GPU. An option --set would hide the pod's own DUNLIN_SET.
        own = ["models.0.kv_cache.memory_bytes=67108864", "models.0.device=cpu"]
        sets = ";".join(filter(None, [self.environment.get("DUNLIN_SET"), *own]))
        others = {name: value for name, value in os.environ.items() if not name.startswith("DUNLIN_")}
        return subprocess.Popen([BINARY, *self.command, "--grpc", address, "--http", address], text=True,
                                env={**others, **self.environment, "DUNLIN_SET": sets}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def refusal(self):
        """What the server says when it is told to listen where others can reach it, on an address that no machine has
        (RFC 5737): the reason that its config is refused, or that it cannot listen there."""
        process = self.start("192.0.2.1:0")
        try:
            return process.communicate(timeout=START_S)[1]
        finally:
            process.kill()
            process.communicate()

    @contextlib.contextmanager
    def serve(self):
        """The ports of the running server by name. It must end with status 0."""
        process = self.start("127.0.0.1:0")
        lines, log = queue.Queue(), []
        threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
        reader = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
        reader.start()
        try:
            ready = re.match(r"READY grpc=\S+:(\d+) http=\S+:(\d+)", lines.get(timeout=START_S))
            if ready is None:
                process.wait(START_S)
                reader.join(START_S)
                raise RuntimeError("the server did not start: " + "".join(log)[-800:])
            yield {"grpc": int(ready[1]), "http": int(ready[2])}
            process.terminate()
            if process.wait(START_S) != 0:
                raise RuntimeError("the server did not end well: " + "".join(log)[-800:])
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
            process.stderr.close()

    def number(self, port):
        """Of a port that a probe or a Service names, or has the number of."""
        rows = [row for row in self.container["ports"] if port in (row.get("name"), row["containerPort"])]
        return rows[0]["containerPort"] if len(rows) == 1 else None


def get(port, scheme, path, host, key=None):
    """Status and body of a GET, as a kubelet sends it: it does not ask whose the certificate is."""
    if scheme.lower() == "https":
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": host, **({"Authorization": f"Bearer {key}"} if key else {})})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def with_each_values(check):
    """A test that calls check with the pod of each set of values."""
    def run(self):
        for name, values in SETS.items():
            with self.subTest(values=name):
                check(self, self.pod(name, render(values)))
    return run


class ChartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def pod(self, name, documents, spec=None):
        (self.folder / name).mkdir()
        if not hasattr(self, "secrets"):
            (self.folder / "secrets").mkdir()
            self.secrets = make_secrets(self.folder / "secrets")
        spec = spec or find(documents, "StatefulSet")[0]["spec"]["template"]["spec"]
        return Pod(spec, documents, self.secrets, self.folder / name)

    def probe(self, pod, probe, ports):
        """Asks what the probe asks, of the server's ports."""
        if "exec" in probe:
            program, *words = probe["exec"]["command"]
            self.assertEqual(program, "/opt/dunlin/bin/dunlin")
            words = [pod.here(word.replace("127.0.0.1:50051", f"127.0.0.1:{ports['grpc']}")) for word in words]
        elif "grpc" in probe:
            self.assertEqual(pod.listens("grpc"), f"0.0.0.0:{pod.number(probe['grpc']['port'])}")
            words = ["healthcheck", "--address", f"127.0.0.1:{ports['grpc']}"]
        else:
            asked = probe["httpGet"]
            self.assertEqual(pod.listens("http"), f"0.0.0.0:{pod.number(asked['port'])}")
            status, body = get(ports["http"], asked.get("scheme", "HTTP"), asked["path"], "10.0.0.7:8080")
            self.assertEqual(status, 200, body)
            return
        done = subprocess.run([BINARY, *words, "--timeout-ms", "60000"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def check_live(self, pod):
        """The pod's command serves, its probes find that it does, and so do clients and Prometheus."""
        self.assertIn("cannot listen on 192.0.2.1", pod.refusal())
        with pod.serve() as ports:
            for name in ("startupProbe", "readinessProbe", "livenessProbe"):
                if name in pod.container:
                    self.probe(pod, pod.container[name], ports)
            if find(pod.documents, "Service"):
                self.check_names(pod, ports)

    def check_names(self, pod, ports):
        """Clients may call the HTTP port by the Service's names, and Prometheus may scrape it."""
        scheme = "https" if "cert_file" in pod.config["tls"] else "http"
        if pod.config["tls"].get("require_client_certificate"):
            with self.assertRaises(OSError):
                get(ports["http"], scheme, "/v1/models", "10.0.0.7")
            return
        has_keys = "keys_file" in pod.config["access"]
        names = [RELEASE, f"{RELEASE}.{NAMESPACE}.svc", *pod.config["listen"]["http_host_names"].split()]
        for host, wanted in (*((name, 200) for name in names), ("other.example", 421)):
            status, body = get(ports["http"], scheme, "/v1/models", f"{host}:8080")
            self.assertEqual(status, 401 if has_keys else wanted, body)
        for monitor in find(pod.documents, "ServiceMonitor"):
            endpoint, = monitor["spec"]["endpoints"]
            asked = endpoint.get("authorization", {}).get("credentials")
            key = self.secrets[asked["name"]][asked["key"]] if asked else None
            scheme = endpoint.get("scheme", "http")
            status, body = get(ports["http"], scheme, endpoint["path"], "10.0.0.7:8080", key)
            self.assertEqual(status, 200, body)
            self.assertIn("vllm:num_requests_waiting", body)

    @with_each_values
    def test_the_server_takes_what_is_rendered(self, pod):
        self.check_live(pod)

    def test_kserve(self):
        document = yaml.safe_load((ROOT / "deploy/kubernetes/kserve.yaml").read_text())
        container, = document["spec"]["containers"]
        # As KServe makes the pod: the name is filled in, the model is mounted, the first port is routed to.
        args = [word.replace("{{.Name}}", "mine") for word in container["args"]]
        mounted = {**container, "args": args, "volumeMounts": [{"name": "model", "mountPath": "/mnt/models"}]}
        pod = self.pod("kserve", [], {"containers": [mounted]})
        pod.link_model("/mnt/models")
        self.check_live(pod)
        with pod.serve() as ports:
            status, body = get(ports["http"], "http", "/v2/models/mine/ready", "mine.default.example")
            self.assertEqual(status, 200, body)
        self.assertEqual(pod.number(8080), 8080)
        security = {**REFERENCE["securityContext"], **REFERENCE["containers"][0]["securityContext"]}
        self.assertEqual(container["securityContext"], security)
        as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}}
        kubernetes_validate.validate({**as_pod, "spec": {"containers": [container]}}, "1.37", strict=True)

    def test_a_config_that_the_server_refuses_is_found(self):
        for setting, says in (("config.limits.drain_timeout=5", "limits.drain_timeout"),
                              ("model.options.kv_cache.event_batch=1", "event_batch"),
                              ("config.access.behind_proxy=false", "access.behind_proxy")):
            with self.subTest(setting=setting):
                seen = self.pod(setting, render(None, "--set", setting)).refusal()
                self.assertIn("cannot start", seen)
                self.assertIn(says, seen)
                self.assertNotIn("cannot listen", seen)

    def test_wrong_values_are_refused(self):
        for setting, says in (("replica=2", "replica"), ("model.claimName=", "claimName"),
                              ("replicas=-1", "replicas"),
                              ("tls.secretName=a,tls.clientCaSecretName=b", "probeSecretName"),
                              ("tls.clientCaSecretName=b,tls.probeSecretName=c", "secretName"),
                              ("drainSeconds=1m", "drainSeconds"), ("autoscaling.kvCacheUsage=85%", "kvCacheUsage"),
                              ("model.precisions={bf15}", "precisions"),
                              ("model.subdirectory=/mine", "subdirectory")):
            with self.subTest(setting=setting), self.assertRaisesRegex(ValueError, says):
                render(None, "--set", setting)

    def test_lint(self):
        for name, values in SETS.items():
            with self.subTest(values=name):
                done = helm("lint", "--strict", CHART, *(["--values", values] if values else []))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @with_each_values
    def test_schemas(self, pod):
        # Image volumes are there since 1.31.
        oldest = "1.32" if any("image" in volume for volume in pod.spec["volumes"]) else "1.28"
        for version in (oldest, "1.37"):
            for document in pod.documents:
                if document["kind"] not in CUSTOM:
                    kubernetes_validate.validate(document, version, strict=True)

    @with_each_values
    def test_pods(self, pod):
        self.assertEqual(pod.spec["securityContext"], REFERENCE["securityContext"])
        self.assertEqual(pod.container["securityContext"], REFERENCE["containers"][0]["securityContext"])
        self.assertIs(pod.spec["automountServiceAccountToken"], False)
        self.assertEqual({volume["name"] for volume in pod.spec["volumes"]}, set(pod.mounts))
        self.assertTrue(all(mount["readOnly"] for mount in pod.mounts.values()))
        drain_s = pod.config["limits"]["drain_timeout_ms"] / 1000
        self.assertGreater(pod.spec["terminationGracePeriodSeconds"], drain_s + 2)
        for port in ("grpc", "http"):
            self.assertEqual(pod.listens(port), f"0.0.0.0:{pod.number(port)}")
        closed = "cert_file" in pod.config["tls"] and "keys_file" in pod.config["access"]
        self.assertEqual(pod.config["access"]["behind_proxy"], not closed)
        gpu = "nvidia.com/gpu" in pod.container["resources"]["limits"]
        self.assertEqual(pod.config["models"][0]["device"], "cuda" if gpu else "cpu")
        self.assertEqual(pod.container["image"].endswith("-cuda"), gpu)

    @with_each_values
    def test_what_stands_around_the_pods(self, pod):
        workload, = find(pod.documents, "StatefulSet")
        labels = workload["spec"]["template"]["metadata"]["labels"].items()
        services = {document["metadata"]["name"]: document for document in find(pod.documents, "Service")}
        self.assertIn(workload["spec"]["serviceName"], services)
        for service in services.values():
            self.assertLessEqual(service["spec"]["selector"].items(), labels)
            for row in service["spec"]["ports"]:
                self.assertEqual(pod.number(row["targetPort"]), row["port"])
        for kind, key in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
            document, = find(pod.documents, kind)
            self.assertLessEqual(document["spec"][key]["matchLabels"].items(), labels)
        for rule in find(pod.documents, "NetworkPolicy")[0]["spec"]["ingress"]:
            self.assertTrue(rule["from"])
            self.assertTrue(all(pod.number(row["port"]) for row in rule["ports"]))
        for monitor in find(pod.documents, "ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            port = monitor["spec"]["endpoints"][0]["port"]
            scraped = [service for service in services.values() if wanted <= service["metadata"]["labels"].items()
                       and port in [row["name"] for row in service["spec"]["ports"]]]
            self.assertEqual([service["metadata"]["name"] for service in scraped], [RELEASE])
            self.assertEqual(scraped[0]["metadata"]["labels"][monitor["spec"]["jobLabel"]], "dunlin")

    def test_autoscaling(self):
        documented = re.search(r"```yaml\n(rules:.*?)```", (ROOT / "docs/scaling.md").read_text(), re.S)[1]
        rules = yaml.safe_load(documented)["rules"]
        metrics = (ROOT / "tests/server/observe/metrics/metric_names.txt").read_text().split()
        for rule in rules:
            self.assertIn(rule["seriesQuery"].split("{")[0], metrics)
        seen = []
        for name, values in SETS.items():
            documents = render(values)
            workload, = find(documents, "StatefulSet")
            scalers = find(documents, "HorizontalPodAutoscaler")
            self.assertEqual("replicas" in workload["spec"], not scalers)
            for scaler in scalers:
                seen.append(name)
                self.assertEqual(scaler["spec"]["scaleTargetRef"]["name"], workload["metadata"]["name"])
                names = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
                self.assertEqual(names, [rule["name"]["as"] for rule in rules])
        self.assertEqual(seen, ["autoscaled"])


if __name__ == "__main__":
    unittest.main()
