# SPDX-License-Identifier: Apache-2.0
"""Stops one thread of another process, as a debugger does, while its others go on. As a program, with the thread's id: until
that thread ends, or the input does."""
import ctypes
import os
import select
import subprocess
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace: {os.strerror(ctypes.get_errno())}")


class StoppedThread:
    """Stops it until let_go(). In a process of its own, because a thread that is traced can only end once its tracer has
    taken note of it."""

    def __init__(self, thread):
        self.tracer = subprocess.Popen([sys.executable, __file__, str(thread)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
        if self.tracer.stdout.readline() != "stopped\n":
            raise OSError(f"thread {thread} cannot be stopped")

    def let_go(self):
        self.tracer.stdin.close()
        self.tracer.wait()


def main():
    thread = int(sys.argv[1])
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    print("stopped", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        if os.waitpid(thread, WALL | os.WNOHANG)[0] == thread:
            return  # it has ended
    ptrace(PTRACE_DETACH, thread)


if __name__ == "__main__":
    main()
