# SPDX-License-Identifier: Apache-2.0
"""Rates of llama.cpp's own speculation: one run of llama-speculative-simple, built of the sources of llama-cpp-python.

plain is ngram-simple with more hits asked for than there are. Prompts are in the form of ChatML with SmolLM2's system message,
as the model's own template has them. Standard library only.
"""

import os
import re
import subprocess

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
NO_GUESSES = ("--spec-type", "ngram-simple", "--spec-ngram-simple-min-hits", "1000")


def chat(prompt):
    return (f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n"
            "<|im_start|>assistant\n")


def mode_arguments(mode, draft):
    if mode == "plain":
        return NO_GUESSES
    if mode == "draft-simple":
        return ("--spec-type", mode, "--spec-draft-model", draft)
    return ("--spec-type", mode)


def rate(options, prompt, temperature, mode):
    """Tokens a second of the decode. options: llama_cpp, model, draft, tokens of speculation_gains.py."""
    threads = str(len(os.sched_getaffinity(0)))
    command = [options.llama_cpp / "llama-speculative-simple", "-m", options.model, "-p", chat(prompt), "-n",
               str(options.tokens), "-c", "1024", "-t", threads, "--temp", str(temperature), "--seed", "7", "--ignore-eos",
               *mode_arguments(mode, options.draft)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300,
                          check=False)
    found = re.search(r"decoded +\d+ tokens in +[\d.]+ seconds, speed: +([\d.]+) t/s", done.stdout)
    if found is None:
        raise RuntimeError(f"llama.cpp, {mode}: exit code {done.returncode}: {done.stdout[-500:]}")
    return float(found.group(1))
