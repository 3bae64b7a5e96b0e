# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md's "More than one machine", run as they stand there: two servers, smg before them, one chat.
They name fixed ports, and therefore run in a network namespace of their own; where the system allows none, on the host.
Runs in the environment of smg_router.py."""

import ctypes
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

from checks import FOLDER, holds, same

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def recipe():
    section = (ROOT / "README.md").read_text().split("\n## More than one machine\n")[1].split("\n## ")[0]
    block, = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return block


def checkout():
    """A folder in which the paths of the README lead to the binary under test and the demo model."""
    folder = pathlib.Path(FOLDER) / "recipe"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build/release").mkdir(parents=True)
    (folder / "build/release/dunlin").symlink_to(os.environ["INTEROP_BINARY"])
    (folder / "models").symlink_to(ROOT / "models")
    return folder


def enter_own_network():
    """A namespace whose only interface is loopback. Nothing happens where that is not allowed."""
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if ctypes.CDLL(None).unshare(flags) != 0:
        return
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        up = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1] | IFF_UP
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", up))


def answer_in(text):
    """The first whole JSON object with choices, or None. curl ends its answer without a line feed: a line of a server's log may
    follow on the same line."""
    if found := re.search(rb'\{"[^\n]*"choices"[^\n]*', text):
        try:
            return json.JSONDecoder().raw_decode(found.group(0).decode(errors="replace"))[0]
        except json.JSONDecodeError:
            return None  # the rest is still to be read
    return None


def run():
    commands = recipe()
    holds(len(commands.splitlines()) <= 10, f"the recipe has {len(commands.splitlines())} lines")
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"  # where pip and smg are, pip offline
    with open(pathlib.Path(FOLDER) / "recipe.log", "wb") as log:
        shell = subprocess.Popen(["bash", "-e", "-c", commands], cwd=checkout(), stdout=subprocess.PIPE, stderr=log,
                                 env={**os.environ, "PATH": path}, start_new_session=True, preexec_fn=enter_own_network)
        try:
            text = b""  # to be read until the answer is whole: the servers hold the pipe open
            while (answer := answer_in(text)) is None:
                read = os.read(shell.stdout.fileno(), 1 << 16)
                holds(read, f"the recipe ended without an answer: {text[-500:]!r}")
                text += read
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    same(answer["model"], "demo")
    holds(answer["choices"][0]["message"]["content"].strip(), f"the answer is {answer}")
