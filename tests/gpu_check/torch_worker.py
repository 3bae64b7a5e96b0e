# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of gpu_check: jobs as JSON lines on stdin, answers as JSON lines on stdout, {"done": true} after each.
Everything that needs PyTorch is in this file and torch_models.py, in a process of its own; peer.py starts it.

Usage: torch_worker.py --device cuda|cpu. Times are the median over groups of calls of about two milliseconds, each ended
by a wait, as `dunlin bench` takes them.
"""

import itertools
import json
import statistics
import sys
import time


def say(**fields):
    print(json.dumps(fields), flush=True)


try:
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
except Exception as problem:  # whatever a broken installation raises
    say(unavailable=f"{type(problem).__name__}: {problem}"[:300])
    sys.exit(0)

import torch_models

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
SECONDS, SMALL_SECONDS = 0.4, 0.02
GROUP_SECONDS = 0.002
COLD_BYTES = 512 << 20  # more than any cache holds, as Session::bytes_beyond_caches


class Timer:
    def __init__(self, device):
        self.device = device
        self.cuda = device == "cuda"
        self.models = {}  # what the last job of logits read, by directory
        self.seconds = SECONDS if self.cuda else SMALL_SECONDS

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def group(self, run, calls):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        self.wait()
        return (time.perf_counter() - start) / calls

    def timed(self, run):
        for _ in range(3):
            once = self.group(run, 1)
        calls = max(1, int(GROUP_SECONDS / max(once, 1e-7)))
        samples, limit = [], time.perf_counter() + self.seconds
        while len(samples) < 5 or time.perf_counter() < limit:
            samples.append(self.group(run, calls))
            if time.perf_counter() > limit + 5 * self.seconds:
                break
        return {"median_us": statistics.median(samples) * 1e6, "min_us": min(samples) * 1e6, "iterations": len(samples)}

    def measure(self, setting, key, make, **more):
        """Times make()'s function; what PyTorch refuses is an answer too."""
        try:
            run = make()
            say(setting=setting, key=key, **self.timed(run), **{name: value() for name, value in more.items()})
        except Exception as error:  # a refusal, no memory, a compiler's fault: the next setting may work
            say(setting=setting, key=key, error=f"{type(error).__name__}: {error}".split("\n")[0][:200])
        run = None
        if self.cuda:
            torch.cuda.empty_cache()

    def graphed(self, run):
        """A function that replays run() as one CUDA graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay


def operands(timer, job, precision):
    """Queries, and pairs of keys and values: of a cold job so many that each comes from memory in its turn."""
    draw = torch.rand if job["uniform"] else torch.randn

    def tensor(heads, tokens):
        return draw(job["batch"], heads, tokens, job["dim"], device=timer.device).to(DTYPES[precision])

    query = tensor(job["heads"], job["queries"])
    pair = (tensor(job["kv_heads"], job["keys"]), tensor(job["kv_heads"], job["keys"]))
    copies = 1 + COLD_BYTES // (2 * pair[0].nbytes) if job["cold"] and timer.cuda else 1
    return query, [pair] + [tuple(t.clone() for t in pair) for _ in range(copies - 1)]


def sdpa(timer, job):
    torch.manual_seed(1)
    for precision in job["precisions"]:
        query, pairs = operands(timer, job, precision)
        for name, backend in BACKENDS.items():
            attention(timer, job, precision, name, backend, query, pairs)


def attention(timer, job, precision, name, backend, query, pairs):
    grouped = job["heads"] != job["kv_heads"]
    calls, held = [0], [0]

    def run():
        keys, values = pairs[calls[0] % len(pairs)]
        calls[0] += 1
        return functional.scaled_dot_product_attention(query, keys, values, is_causal=job["causal"], enable_gqa=grouped)

    def make():
        if timer.cuda:
            held[0] = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        run()
        return run

    def workspace():
        """Above the inputs and the output, as `dunlin bench` counts."""
        return torch.cuda.max_memory_allocated() - held[0] - query.nbytes if timer.cuda else 0

    with sdpa_kernel(backend):
        timer.measure(name, {"precision": precision}, make, workspace_bytes=workspace,
                      resident_bytes=lambda: 2 * query.nbytes + 2 * pairs[0][0].nbytes)


def scored(timer, job):
    """Scores with a soft cap or ALiBi, which scaled_dot_product_attention does not take: by flex_attention, compiled, and
    by products and a softmax."""
    torch.manual_seed(1)
    for precision in job["precisions"]:
        query, pairs = operands(timer, job, precision)
        turns = itertools.cycle(pairs)
        attend = torch_models.ScoredAttention(job, timer.device)
        ways = {"eager": attend.eager}
        if timer.cuda:  # a compilation
            ways["flex_attention, compiled"] = attend.flex
        for name, way in ways.items():
            timer.measure(name, {"precision": precision}, lambda: lambda: way(query, *next(turns)))


def gemm(timer, job):
    torch.manual_seed(1)
    rows, columns, depth = job["shape"]
    key = {"precision": job["precision"]}
    a = torch.randn(rows, depth, device=timer.device)
    weight = torch.randn(columns, depth, device=timer.device) * 0.02
    if job["precision"] != "fp8":
        a, weight = a.to(DTYPES[job["precision"]]), weight.to(DTYPES[job["precision"]])
        timer.measure("mm", key, lambda: lambda: a @ weight.t())
        timer.measure("mm, FP32 out", key, lambda: lambda: torch.mm(a, weight.t(), out_dtype=torch.float32))
        return
    for name in ("tensor", "row"):
        a8, scale_a = torch_models.quantized(a, name)
        w8, scale_w = torch_models.quantized(weight, name)
        scale_w = scale_w.t() if name == "row" else scale_w
        for fast in (False, True):
            def run(fast=fast):
                return torch._scaled_mm(a8, w8.t(), scale_a=scale_a, scale_b=scale_w, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)
            timer.measure(f"_scaled_mm, scale per {name}{', fast' if fast else ''}", key, lambda: run)


def layer(timer, job):
    """Transformer Engine's modules in plain PyTorch. torch.compile comes last: it takes seconds."""
    ways = {"fp8": ("row", "tensor")}.get(job["precision"], (None,))
    for scaling in ways:
        dtype = DTYPES.get(job["precision"], torch.bfloat16)
        block = torch_models.Layer(job, dtype, scaling, timer.device)
        x = torch.randn(job["batch"], job["tokens"], job["hidden"], device=timer.device).to(dtype)
        suffix = f", scale per {scaling}" if scaling else ""
        for rung in torch_models.RUNGS:
            function = getattr(block, rung)
            timer.measure("eager" + suffix, {"precision": job["precision"], "layer": rung},
                          lambda: lambda: function(x))
        if timer.cuda and scaling is None:  # two compilations of FP8 took more than a minute on an H100
            compiled = torch.compile(block.transformer_layer, dynamic=False)
            timer.measure("compile" + suffix, {"precision": job["precision"], "layer": "transformer_layer"},
                          lambda: lambda: compiled(x))


def block(timer, job):
    for precision in job["precisions"]:
        shape = {**job, "ffn": job["hidden"]}
        module = torch_models.Layer(shape, DTYPES[precision], None, timer.device, biases=False)
        x = torch.randn(job["batch"], job["tokens"], job["hidden"], device=timer.device).to(DTYPES[precision])
        key = {"precision": precision}
        timer.measure("eager", key, lambda: lambda: module.attention(x))
        if timer.cuda:
            timer.measure("CUDA graph", key, lambda: timer.graphed(lambda: module.attention(x)))
            compiled = torch.compile(module.attention, dynamic=False)
            timer.measure("compile", key, lambda: lambda: compiled(x))
            timer.measure("compile, CUDA graph", key, lambda: timer.graphed(lambda: compiled(x)))


def llama(timer, job):
    """Prefill of one prompt, and a decode step in the middle of the new tokens, for each batch."""
    model = torch_models.Llama(job["shape"], job["precision"], timer.device)
    length = job["prompt"] + job["new_tokens"] // 2
    prefill = {"precision": job["precision"], "phase": "prefill"}
    cache = model.cache(1, job["prompt"])
    prompt = torch.arange(job["prompt"], device=timer.device).view(1, -1) % job["shape"]["vocab"]
    timer.measure("eager", prefill, lambda: lambda: model.prefill(prompt, cache))
    for compiled in (False, True) if timer.cuda else (False,):
        model.compile(compiled)
        for batch in job["batches"]:
            key = {"precision": job["precision"], "phase": "decode", "batch": batch}
            caches = model.cache(batch, length)
            tokens = torch.ones(batch, 1, dtype=torch.long, device=timer.device)

            def step():
                return model.decode(tokens, caches, length)

            name = "compile" if compiled else "eager"
            timer.measure(name, key, lambda: step)
            if timer.cuda:
                timer.measure(name + ", CUDA graph", key, lambda: timer.graphed(step))
    if timer.cuda:
        timer.measure("compile", prefill, lambda: lambda: model.prefill(prompt, cache))


def checkpoint(timer, job):
    torch_models.write_checkpoint(job["directory"], job["shape"], timer.device)
    say(written=True)


def logits(timer, job):
    """For each sequence, the log-probabilities in FP32 of the token ids that are asked for, by position."""
    if job["directory"] not in timer.models:
        timer.models = {job["directory"]: torch_models.read_model(job["directory"], timer.device)}
    model = timer.models[job["directory"]]
    for sequence in job["sequences"]:
        values = torch.log_softmax(model(torch.tensor([sequence["tokens"]], device=timer.device))[0].float(), -1).cpu()
        first = sequence["first"] - 1  # the position that predicts the first answer token
        say(logprobs=[[float(values[first + i, token]) for token in asked]
                      for i, asked in enumerate(sequence["asked"])])


JOBS = {"sdpa": sdpa, "scored": scored, "gemm": gemm, "layer": layer, "block": block, "llama": llama, "checkpoint": checkpoint,
        "logits": logits}


def main():
    device = sys.argv[sys.argv.index("--device") + 1]
    if device == "cuda" and not torch.cuda.is_available():
        say(unavailable=f"PyTorch {torch.__version__} has no CUDA device here")
        return
    say(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    timer = Timer(device)
    for line in sys.stdin:
        job = json.loads(line)
        if job["job"] != "logits":
            timer.models = {}
        try:
            with torch.inference_mode():
                JOBS[job["job"]](timer, job)
            say(done=True)
        except Exception as error:
            say(failed=f"{type(error).__name__}: {error}".split("\n")[0][:300])
        torch._dynamo.reset()
        if timer.cuda:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
