# SPDX-License-Identifier: Apache-2.0
"""smg with two workers and nothing to do: for ten minutes its connections stay (no GOAWAY), and then it serves."""

import time

import openai

import checks as shared
from checks import FOLDER, MODEL_DIR, Checks, holds, same
from smg_fleet import Router, Worker

IDLE_S = 600
shared.LIMIT_S = IDLE_S + 60

checks = Checks()


def ask(router):
    client = openai.OpenAI(base_url=router.url + "/v1", api_key="unused", max_retries=0, timeout=30)
    for _ in router.workers:
        client.completions.create(model="demo", prompt="The dunlin is", max_tokens=4)


@checks.add("10 minutes idle")
def idle():
    workers = [Worker(f"idle_worker{i}", MODEL_DIR, FOLDER).start() for i in range(2)]
    # Without its polls of the load, so that nothing but keepalive uses the connections.
    router = Router("idle_router", FOLDER, workers, "round_robin", "--disable-load-monitoring",
                    "--disable-worker-overload-protection", "--disable-health-check").start()
    ask(router)
    before = [worker.connections() for worker in workers]
    holds(all(before), f"connections are {before}")
    time.sleep(IDLE_S)
    same([worker.connections() for worker in workers], before, "connections")
    ask(router)
    router.kill()
    for worker in workers:
        worker.stop()


checks.run()
