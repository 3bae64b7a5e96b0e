# SPDX-License-Identifier: Apache-2.0
"""The protocol of every worker: write results as JSON lines, and wait for a turn before each measurement.

Standard library only. Before each timed section, a worker reports that it is ready and waits for a line on stdin, so
that loading and warm-up never run while another engine is measured, and the driver can wait for an idle machine.
"""

import json
import resource
import statistics
import sys
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


def turn():
    """Waits until this process may measure."""
    say(metric="ready")
    if not sys.stdin.readline():
        sys.exit("no turn came")


def timed(run, seconds, least=3, most=50):
    """Times of run(): at least `least` calls, then until the time is up. The caller has warmed up."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or (len(times) < most and time.perf_counter() < end):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def say_rate(metric, amount, times, **more):
    """amount: tokens of each call; of the median and of the fastest."""
    say(metric=metric, value=amount / statistics.median(times), best=amount / min(times), unit="tokens/s",
        calls=len(times), **more)


def say_time(metric, times, **more):
    say(metric=metric, value=statistics.median(times) * 1e3, best=min(times) * 1e3, unit="ms", calls=len(times), **more)


def say_memory():
    say(metric="rss", value=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, unit="bytes")


def decode(step, first, job):
    """Calls step(token) -> (seconds, next token) for the job's new tokens, or until its time is up, 8 at least.

    Returns the times without the first, which pays for what comes once, and the tokens.
    """
    row, times, end = [first], [], time.perf_counter() + job["decode_seconds"]
    while len(row) < job["new_tokens"] and (len(row) < 9 or time.perf_counter() < end):
        seconds, token = step(row[-1])
        times.append(seconds)
        row.append(token)
    return times[1:], row
