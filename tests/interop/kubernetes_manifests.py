# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes against Kubernetes' own schemas (PyPI's kubernetes-validate), and against the server: the config that
the manifests mount is one that it takes, the probes ask what it answers, the grace period outlasts its drain."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import kubernetes_validate
import yaml

from checks import FOLDER, MODEL_DIR, Checks, holds, same

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = ("1.28", "1.32", "1.37")  # gRPC probes are stable since 1.27
checks = Checks()
documents = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/dunlin.yaml").read_text()))


def find(kind, name):
    return next(document for document in documents if (document["kind"], document["metadata"]["name"]) == (kind, name))


workers, router = find("StatefulSet", "dunlin"), find("Deployment", "dunlin-router")
pod = workers["spec"]["template"]["spec"]
container, = pod["containers"]
config = json.loads(find("ConfigMap", "dunlin")["data"]["dunlin.json"])


@checks.add("schemas")
def schemas():
    for version in VERSIONS:
        for document in documents:
            kubernetes_validate.validate(document, version, strict=True)
    broken = json.loads(json.dumps(workers))
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    try:
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("a misspelt field passed")


@checks.add("config and command line")
def taken():
    """The command of the pod with the mounted config, but for the model's place and the ports: it becomes ready."""
    own = {**config, "models": [{**config["models"][0], "path": str(MODEL_DIR)}]}
    path = pathlib.Path(FOLDER) / "kubernetes.json"
    path.write_text(json.dumps(own))
    same(container["args"], ["serve", "--config", "/etc/dunlin/dunlin.json"])
    command = [os.environ["INTEROP_BINARY"], "serve", "--config", path]
    for port in ("grpc", "http"):
        command += ["--set", f"listen.{port}=127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = server.stdout.readline()
    server.terminate()
    log = server.communicate(timeout=30)[1]
    holds(ready.startswith("READY "), log)
    same(server.returncode, 0, log)


@checks.add("ports, probes, grace")
def probes():
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, key in (("grpc", "grpc"), ("http", "http")):
        holds(config["listen"][key].endswith(f":{ports[name]}"), f"{name} listens on {config['listen'][key]}")
        same([port["port"] for port in find("Service", "dunlin")["spec"]["ports"] if port["name"] == name], [ports[name]])
    same(container["readinessProbe"]["grpc"]["port"], ports["grpc"])
    for probe in ("startupProbe", "livenessProbe"):
        with urllib.request.urlopen(sys.argv[1] + container[probe]["httpGet"]["path"], timeout=5) as reply:
            same(reply.status, 200)
    drain_s = config["limits"]["drain_timeout_ms"] / 1000
    holds(pod["terminationGracePeriodSeconds"] > drain_s + 2, f"the drain may take {drain_s} s")


@checks.add("the router's workers")
def urls():
    args = router["spec"]["template"]["spec"]["containers"][0]["args"]
    listed = [word for word in args if word.startswith("grpc://")]
    same(listed, [f"grpc://dunlin-{i}.{workers['spec']['serviceName']}:50051" for i in range(workers["spec"]["replicas"])])


checks.run()
