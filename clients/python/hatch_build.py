# SPDX-License-Identifier: Apache-2.0
"""Generates dunlin_client/_proto from the server's wire contract while the wheel is built. The contract is proto/ of
the repository, or of the source distribution, which carries a copy. Nothing generated is kept in the source tree."""

import pathlib
import re
import tempfile

import grpc_tools
from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("execution", "generation", "embedding", "model")
PACKAGE = "dunlin_client/_proto"


def generate(proto, out):
    """Messages and their types of dunlin.v1 below out, importable as dunlin_client._proto.dunlin.v1."""
    names = [f"dunlin/v1/{name}.proto" for name in FILES]
    includes = [f"-I{proto}", f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}"]
    if protoc.main(["protoc", *includes, f"--python_out={out}", f"--pyi_out={out}", *names]) != 0:
        raise RuntimeError(f"protoc failed on {', '.join(names)}")
    for file in out.rglob("*_pb2.py*"):
        # The descriptor pool keeps the files' names, so that a program may have its own copy of the messages.
        package = f"{PACKAGE.replace('/', '.')}.dunlin.v1"
        text = re.sub(r"^from dunlin\.v1 import", f"from {package} import", file.read_text(), flags=re.MULTILINE)
        file.write_text(text)
    for folder in (out, out / "dunlin", out / "dunlin/v1"):
        (folder / "__init__.py").write_text("# SPDX-License-Identifier: Apache-2.0\n")


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        proto = next(folder for folder in (root / "proto", root.parents[1] / "proto") if folder.is_dir())
        self.folder = tempfile.TemporaryDirectory()
        out = pathlib.Path(self.folder.name)
        generate(proto, out)
        build_data["force_include"].update(
            {str(file): f"{PACKAGE}/{file.relative_to(out)}" for file in out.rglob("*") if file.is_file()})

    def finalize(self, version, build_data, artifact_path):
        self.folder.cleanup()
