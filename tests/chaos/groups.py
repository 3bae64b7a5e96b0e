# SPDX-License-Identifier: Apache-2.0
"""Control groups of either version, and a process that takes memory in one."""
import contextlib
import os
import pathlib
import subprocess
import sys

from fault import Skipped, expect
from server import wait_until

MOUNT = pathlib.Path("/sys/fs/cgroup")


class Group:
    """Of a controller, "memory" or "pids"; a memory group counts pages that files hold, too."""

    def __init__(self, folder, version):
        self.folder = folder
        self.names = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
                      2: ("memory.max", "memory.current", "memory.peak", "memory.events")}[version]

    def read(self, name):
        return (self.folder / name).read_text()

    def write(self, name, value):
        (self.folder / name).write_text(str(value))

    def limit_memory(self, size):
        self.write(self.names[0], size)

    def memory_used(self):
        return int(self.read(self.names[1]))

    def peak(self):
        """The most bytes at once; those of now where the kernel does not keep it."""
        try:
            return int(self.read(self.names[2]))
        except OSError:
            return self.memory_used()

    def killed(self):
        """Processes that the kernel killed for memory."""
        rows = dict(line.split() for line in self.read(self.names[3]).splitlines())
        return int(rows["oom_kill"])

    def wrap(self):
        """A command before a program's, which then runs in the group."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh"]


def place(kind):
    """(folder, version) for groups of a controller."""
    if (MOUNT / "cgroup.controllers").exists():
        with contextlib.suppress(OSError):
            (MOUNT / "cgroup.subtree_control").write_text(f"+{kind}")
        if kind not in (MOUNT / "cgroup.subtree_control").read_text().split():
            raise Skipped(f"no control group of {kind}: this one does not delegate the controller")
        return MOUNT, 2
    return MOUNT / kind, 1


@contextlib.contextmanager
def control_group(kind):
    parent, version = place(kind)
    folder = parent / f"dunlin_chaos_{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as problem:
        raise Skipped(f"no control group of {kind}: {problem.strerror}") from problem
    try:
        yield Group(folder, version)
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text().split(), 10)
        with contextlib.suppress(OSError):
            folder.rmdir()


NEIGHBOUR = """
import ctypes, mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]))
sys.stdin.readline()
ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, len(memory))
print("taken", flush=True)
sys.stdin.readline()
"""


class Neighbour:
    """Another process of a group. take() returns once it holds `size` bytes."""

    def __init__(self, group, size):
        self.process = subprocess.Popen([*group.wrap(), sys.executable, "-c", NEIGHBOUR, str(size)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def take(self):
        self.process.stdin.write("take\n")
        self.process.stdin.flush()
        expect(self.process.stdout.readline() == "taken\n", "the neighbour does not get its memory")

    def end(self):
        self.process.kill()
        self.process.wait()
