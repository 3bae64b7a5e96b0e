# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own speculation, by its server in the package xllamacpp: a process for each mode, which answers one prompt after
the other and says the rates of its decodes.

Modes: plain, ngram-simple, ngram-mod, ngram-cache, and draft-simple with a draft model, all with llama.cpp's defaults.
Runs by itself as the worker: a JSON object as the argument, prompts as JSON lines. The driver needs the standard library alone.
"""

import json
import os
import subprocess
import sys


class Peer:
    """A server of `model` in a mode, which is idle between answers."""

    def __init__(self, python, model, mode, draft):
        job = {"model": str(model), "mode": mode, "draft": str(draft or ""), "threads": len(os.sched_getaffinity(0))}
        self.mode = mode
        self.process = subprocess.Popen([python, __file__, json.dumps(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if self.answer() != {"ready": True}:
            raise RuntimeError(f"llama.cpp did not start: {mode}")

    def answer(self):
        """The next JSON line; the library may write others."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"llama.cpp ended: {self.mode}")

    def rate(self, prompt, temperature, tokens):
        """Tokens a second of the decode."""
        self.process.stdin.write(json.dumps({"prompt": prompt, "temperature": temperature, "tokens": tokens}) + "\n")
        self.process.stdin.flush()
        return self.answer()["rate"]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def parameters(job):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = job["model"]
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 1024, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = job["threads"]
    if job["mode"] != "plain":
        kind = "COMMON_SPECULATIVE_TYPE_" + job["mode"].upper().replace("-", "_")
        params.speculative.types = [getattr(xllamacpp.common_speculative_type, kind)]
    if job["mode"] == "draft-simple":
        draft = params.speculative.draft
        draft.mparams.path, draft.n_gpu_layers = job["draft"], 0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = job["threads"]
    return params


def main():
    import xllamacpp

    server = xllamacpp.Server(parameters(json.loads(sys.argv[1])))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        body = {"messages": [{"role": "user", "content": asked["prompt"]}], "max_tokens": asked["tokens"], "seed": 7,
                "temperature": asked["temperature"], "ignore_eos": True}
        reply = server.handle_chat_completions(body)
        reply = json.loads(reply) if isinstance(reply, (str, bytes)) else reply
        print(json.dumps({"rate": reply["timings"]["predicted_per_second"], "timings": reply["timings"],
                          "text": reply["choices"][0]["message"]["content"]}), flush=True)


if __name__ == "__main__":
    main()
