#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Removes from an image what buildah writes of its own working containers into images of Docker's format: their ids and host names,
and ids of images of earlier stages. What is left follows from the sources, so that two builds have one digest.

Usage: normal_image.py DIR, as `podman image save --format docker-dir` writes it. Prints the image's id.
"""
import hashlib
import json
import pathlib
import sys


def normal_config(config):
    config = {key: value for key, value in config.items() if key not in ("container", "container_config", "id", "parent")}
    config["config"] = {key: value for key, value in config["config"].items() if key not in ("Hostname", "Image")}
    config["history"] = [{key: value for key, value in step.items() if key != "comment"} for step in config.get("history", [])]
    return config


def written(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def normalise(folder):
    """The digest of the config, without its algorithm: the image's id."""
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    former = folder / manifest["config"]["digest"].removeprefix("sha256:")
    config = written(normal_config(json.loads(former.read_bytes())))
    digest = hashlib.sha256(config).hexdigest()
    former.unlink()
    (folder / digest).write_bytes(config)
    manifest["config"].update(digest=f"sha256:{digest}", size=len(config))
    (folder / "manifest.json").write_bytes(written(manifest))
    return digest


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(normalise(sys.argv[1]))
