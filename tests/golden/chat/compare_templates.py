#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares chat templates of published models, as transformers renders them, with what Dunlin renders.

    cargo build --release --manifest-path text/rust/Cargo.toml --example render_chats
    python3 tests/golden/chat/compare_templates.py FOLDER --renderer .../release/examples/render_chats

FOLDER has *.jinja files, at any depth: the source package of llama-cpp-python has some 70 (vendor/llama.cpp/models/templates).
They belong to others and stay out of this tree. Needs a Python with transformers == 5.24.0 and jinja2. Every template is
rendered with every conversation below; prints the counts and each difference, and exits with 1 if there is one.
"""

import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import sys

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2026, 7, 26, 9, 5, 3)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather at a place, \"now\" & here", "parameters": {
    "type": "object", "properties": {
        "place": {"type": "string", "description": "Town, e.g. 東京"}, "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
        "days": {"type": "integer", "default": 1}, "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}, "required": ["lat"]}},
    "required": ["place"]}}}
COUNT = {"type": "function", "function": {"name": "count_birds", "description": "Counts.", "parameters": {
    "type": "object", "properties": {"zone": {"type": "integer"}}, "required": ["zone"]}}}


def message(role, content=None, **more):
    return {"role": role, **({} if content is None else {"content": content}), **more}


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = message("system", "  You watch birds.\nBe brief. ")
CALL = call("get_weather", {"place": "Sylt", "days": 3, "tags": ["a", "b"], "at": {"lat": 54.9}, "deep": None, "on": True}, "call12345")
RESULT = message("tool", '{"wind": "strong", "°C": 12}', tool_call_id="call12345", name="get_weather")
COUNTED = [call("count_birds", {"zone": 7}, "call67890"), message("tool", "42", tool_call_id="call67890", name="count_birds")]

CONVERSATIONS = {
    "one question": {"messages": [message("user", "What is a dunlin?")]},
    "system": {"messages": [SYSTEM, message("user", "Hello THERE")]},
    "turns": {"messages": [SYSTEM, message("user", "Hi"), message("assistant", " Hello! "), message("user", "And\nnow?")]},
    "awkward": {"messages": [message("user", " \t<b>\"q\" & 't'</b>\r\n東京 🐦 {{ x }} {% y %} </think> \x1c\n ")]},
    "answered": {"messages": [message("user", "Hi"), message("assistant", "Ho")], "add_generation_prompt": False},
    "tools": {"messages": [SYSTEM, message("user", "Weather?")], "tools": [WEATHER, COUNT]},
    "call": {"messages": [message("user", "Weather?"), message("assistant", "", tool_calls=[CALL]), RESULT], "tools": [WEATHER]},
    "calls": {"messages": [message("user", "Both?"), message("assistant", "Let me see.", tool_calls=[CALL, COUNTED[0]]), RESULT, COUNTED[1],
                           message("assistant", "Windy; 42."), message("user", "Thanks")], "tools": [COUNT, WEATHER]},
    "call without content": {"messages": [message("user", "Weather?"), message("assistant", tool_calls=[CALL]), RESULT,
                                          message("user", "So?")], "tools": [WEATHER]},
    "thoughts": {"messages": [message("user", "2+2?"), message("assistant", "<think>\nfour\n</think>\n\n4"), message("user", "3+3?"),
                              message("assistant", "6", reasoning_content="six\n"), message("user", "x")]},
    "without thinking": {"messages": [SYSTEM, message("user", "2+2?")], "options": {"enable_thinking": False, "thinking": False}},
    "with thinking": {"messages": [message("user", "2+2?"), message("assistant", "4", reasoning_content="easy"), message("user", "Sure?")],
                      "options": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    "wrong order": {"messages": [message("user", "a"), message("user", "b"), message("assistant", "c"), SYSTEM]},
}


def make_tokenizer():
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>")), **TOKENS)


def by_transformers(tokenizer, template, chat):
    """The text; None: refused."""
    try:
        return tokenizer.apply_chat_template(json.loads(json.dumps(chat["messages"])), tools=chat.get("tools"), chat_template=template,
                                             add_generation_prompt=chat.get("add_generation_prompt", True), tokenize=False,
                                             **chat.get("options", {}))
    except Exception:  # whatever Python raises is a refusal
        return None


def by_dunlin(renderer, jobs):
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    done = subprocess.run([renderer], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--show", type=int, default=5, help="differences to show in full")
    args = parser.parse_args()
    chat_template_utils.datetime = type("Clock", (datetime.datetime,), {"now": classmethod(lambda cls, tz=None: NOW)})
    seconds = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
    templates = sorted(args.folder.rglob("*.jinja"))
    cases = [(path, name) for path in templates for name in CONVERSATIONS]
    jobs = [{"template": path.read_text(encoding="utf-8"), "tokens": TOKENS, "unix_seconds": seconds, "add_generation_prompt": True,
             **CONVERSATIONS[name]} for path, name in cases]
    tokenizer = make_tokenizer()
    counts = collections.Counter()
    for (path, name), job, found in zip(cases, jobs, by_dunlin(args.renderer, jobs)):
        expected = by_transformers(tokenizer, job["template"], CONVERSATIONS[name])
        outcome = "differ" if found.get("text") != expected else "equal" if expected is not None else "both refuse"
        counts[outcome] += 1
        if outcome == "differ":
            print(f"{path.name}, {name}" if counts[outcome] > args.show else f"{path.name}, {name}:\n  {expected!r}\n  {found}")
    print(f"{len(templates)} templates x {len(CONVERSATIONS)} conversations: "
          + ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("equal", "both refuse", "differ")))
    sys.exit(counts["differ"] > 0 or not cases)


if __name__ == "__main__":
    main()
