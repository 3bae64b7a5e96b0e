# SPDX-License-Identifier: Apache-2.0
"""The CTranslate2 worker. One job per process; results and turns as in worker.py.

The library has no call for one decoding step: the time of the new tokens is that of a whole generation less
that of the first token. It converts the checkpoint itself, once, into the shape's ct2 folder.
Runs inside the peers' environment.
"""

import json
import pathlib
import sys
import time

import ctranslate2

import worker


def convert(source, target):
    """The loaders of ctranslate2.converters, without the tokenizer that their command line requires."""
    import torch
    from ctranslate2.converters import transformers as converters
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    loader = {"gpt2": converters.GPT2Loader, "llama": converters.LlamaLoader}[model.config.model_type]()
    with torch.inference_mode():
        spec = loader.get_model_spec(model)
    words = [f"t{i}" for i in range(model.config.vocab_size)]
    spec.register_vocabulary(words)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = words[-1]
    spec.validate()
    spec.optimize(quantization="float32")
    temporary = target.with_name("ct2.part")
    temporary.mkdir(exist_ok=True)
    spec.save(str(temporary))
    temporary.rename(target)


class Timer:
    def __init__(self, generator, prompt):
        self.generator, self.prompt = generator, [f"t{token}" for token in prompt]

    def run(self, batch, new_tokens):
        """(seconds, token ids of the first row)"""
        start = time.perf_counter()
        results = self.generator.generate_batch(
            [self.prompt] * batch, max_batch_size=batch, beam_size=1, sampling_topk=1, min_length=new_tokens,
            max_length=new_tokens, end_token=[], include_prompt_in_result=False)
        return time.perf_counter() - start, [int(ids) for ids in results[0].sequences_ids[0]]


def measure_decode(timer, job, batch):
    worker.turn()
    first, _ = timer.run(batch, 1)
    worker.say(metric="first", value=first, unit="s")
    worker.turn()
    whole, row = timer.run(batch, job["new_tokens"])
    worker.say_rate(f"decode_b{batch}", batch * (job["new_tokens"] - 1), [whole - first], tokens=row[:16])


def main():
    job = json.loads(sys.argv[1])
    target = pathlib.Path(job["ct2"])
    if not target.exists():
        convert(job["directory"], target)
    start = time.perf_counter()
    generator = ctranslate2.Generator(str(target), device="cpu", compute_type=job["compute_type"],
                                      intra_threads=job["threads"], inter_threads=1)
    worker.say(metric="load", value=time.perf_counter() - start, unit="s")
    timer = Timer(generator, job["prompt"])
    timer.run(1, 1)
    worker.turn()
    worker.say_rate("prefill", len(job["prompt"]), worker.timed(lambda: timer.run(1, 1), job["seconds"]))
    for batch in job["batches"]:
        measure_decode(timer, job, batch)
    worker.say_memory()


if __name__ == "__main__":
    main()
