# SPDX-License-Identifier: Apache-2.0
"""How often the demo model's greedy answers to held-out questions are exactly right.

Questions are those of make_dialogues.py (questions.jsonl), whose words, subjects or values no training text combines, and
FOREIGN, whose tools and values are made of words that the generator does not have. A tool call is right if its name and
arguments are; the answer after a call is asked for with the right call and the tool's response in the chat. JSON is right
if it parses to the expected object. Other answers are right if they are the expected text.

Usage: evaluate_chat.py --model MODEL_DIR --work DIR [--failures]
"""

import argparse
import collections
import json
import pathlib
import re

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH = 32
MAX_NEW_TOKENS = 120
# tool, its parameters, question, arguments
FOREIGN = (
    ("get_current_weather", ("location",), "What is the weather in Reykjavik?", {"location": "Reykjavik"}),
    ("search_web", ("query",), "Search the web for penguins.", {"query": "penguins"}),
    ("send_email", ("to", "subject"), "Send an email to zoe with subject lunch.", {"to": "zoe", "subject": "lunch"}),
    ("get_stock_price", ("symbol",), "What is the stock price of ACME?", {"symbol": "ACME"}),
    ("translate", ("text", "language"), "Translate hello into Welsh.", {"text": "hello", "language": "Welsh"}),
    ("book_table", ("restaurant", "day"), "Book a table at Gusto on Friday.", {"restaurant": "Gusto", "day": "Friday"}),
    ("multiply", ("a", "b"), "Multiply 6 and 7.", {"a": 6, "b": 7}),
    ("get_time", ("timezone",), "What is the time in Honolulu?", {"timezone": "Honolulu"}),
    ("play_song", ("title",), "Play the song Yesterday.", {"title": "Yesterday"}),
    ("track_parcel", ("code",), "Where is the parcel XK99?", {"code": "XK99"}),
)


def foreign_questions():
    for name, parameters, question, arguments in FOREIGN:
        kind = "integer" if isinstance(arguments[parameters[0]], int) else "string"
        tool = {"type": "function", "function": {"name": name, "description": name.replace("_", " "), "parameters": {
            "type": "object", "properties": {p: {"type": kind} for p in parameters}, "required": list(parameters)}}}
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        yield {"kind": "tool of other words", "tools": [tool], "messages": [
            {"role": "user", "content": question}, {"role": "assistant", "content": "", "tool_calls": [call]}]}


def expectations(row):
    """(kind, chat so far, tools, expected message) for every assistant message of the question."""
    for at, message in enumerate(row["messages"]):
        if message["role"] == "assistant":
            calls, first = message.get("tool_calls"), at == 1
            kind = row["kind"] if first else "answer after " + row["kind"]
            yield kind, row["messages"][:at], row["tools"], calls or message["content"]


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_right(kind, expected, text):
    if isinstance(expected, list):
        calls = [parsed(c) for c in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, flags=re.S)]
        return calls == [c["function"] for c in expected]
    return parsed(text) == json.loads(expected) if kind == "json" else text == expected


@torch.no_grad()
def answers(model, tokenizer, prompts):
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    for first in range(0, len(prompts), BATCH):
        batch = tokenizer(prompts[first:first + BATCH], return_tensors="pt", padding=True, add_special_tokens=False)
        out = model.generate(**batch, max_new_tokens=MAX_NEW_TOKENS, do_sample=False, temperature=None, top_k=None, top_p=None)
        yield from tokenizer.batch_decode(out[:, batch.input_ids.shape[1]:], skip_special_tokens=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", type=pathlib.Path, required=True)
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--failures", action="store_true")
    args = arguments.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    rows = [json.loads(line) for line in open(args.work / "questions.jsonl", encoding="utf-8")]
    wanted = [e for row in [*rows, *foreign_questions()] for e in expectations(row)]
    wanted.sort(key=lambda e: len(str(e[1:3])))  # batches of similar length
    prompts = [tokenizer.apply_chat_template(chat, tools=tools or None, tokenize=False, add_generation_prompt=True)
               for _, chat, tools, _ in wanted]
    asked, right, valid = collections.Counter(), collections.Counter(), 0
    for (kind, chat, _, expected), text in zip(wanted, answers(model, tokenizer, prompts)):
        asked[kind] += 1
        right[kind] += is_right(kind, expected, text)
        valid += kind == "json" and parsed(text) is not None
        if args.failures and not is_right(kind, expected, text):
            print(f"{kind}: {chat[-1]['content']!r}: {text!r} instead of {expected!r}")
    for kind in sorted(asked):
        print(f"| {kind} | {asked[kind]} | {right[kind] / asked[kind]:.0%} |")
    print(f"valid JSON: {valid} of {asked['json']}")


if __name__ == "__main__":
    main()
