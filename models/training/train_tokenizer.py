# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE tokenizer on train.jsonl and dialogues_train.jsonl and packs all splits into token files.

Writes tokenizer.json and tokenizer_config.json to --out; to --work {prose,dialogues}_{train,heldout}.bin (uint16, every
text followed by <|endoftext|>) and the same names with .weight.bin (uint8, 1 where the token is to be learned well: all of
prose and pages, the assistant's part of a chat). Texts are shuffled with a fixed seed.

The markers of tools are added tokens that are not special, so that decoding keeps their text.

Usage: train_tokenizer.py --work DIR --out MODEL_DIR
"""

import argparse
import json
import pathlib
import random
import re

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCAB_SIZE = 4096
END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TOOL_MARKERS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
CONTEXT = 1024
SEED = 1
PROSE_FOR_MERGES = 4_000_000  # characters


def read_texts(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(TOOL_MARKERS), special_tokens=[END_OF_TEXT, START, END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in TOOL_MARKERS])
    return tokenizer


def learned(ids, tokenizer):
    """1 for tokens of prose and of the assistant, up to and with <|im_end|>, else 0."""
    start, end, newline = (tokenizer.token_to_id(t) for t in (START, END, "\u010a"))
    if start not in ids:
        return [1] * len(ids)
    assistant = tokenizer.encode("assistant").ids
    weights, speaking, at = [0] * len(ids), False, 0
    while at < len(ids):
        if ids[at] == start:
            header = [*assistant, newline]
            speaking = ids[at + 1:at + 1 + len(header)] == header
            at += 1 + len(header) if speaking else 1
            continue
        weights[at] = int(speaking)
        speaking = speaking and ids[at] != end
        at += 1
    return weights


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    args = arguments.parse_args()
    files = {"prose_train": "train", "prose_heldout": "heldout", "dialogues_train": "dialogues_train",
             "dialogues_heldout": "dialogues_heldout"}
    texts = {name: read_texts(args.work / (file + ".jsonl")) for name, file in files.items()}
    for rows in texts.values():
        random.Random(SEED).shuffle(rows)
    # The markers are tokens by themselves and take no part in merges.
    plain = [re.sub(r"<\|im_\w+\|>|</?tool_\w+>", "", t) for t in texts["dialogues_train"]]
    tokenizer = train(["\n\n".join(texts["prose_train"])[:PROSE_FOR_MERGES], *plain])
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    template = (pathlib.Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")
    config = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "bos_token": END_OF_TEXT,
              "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT,
              "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT, "chat_template": template}
    (args.out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    end = tokenizer.token_to_id(END_OF_TEXT)
    for name, rows in texts.items():
        encoded = [e.ids for e in tokenizer.encode_batch(rows)]
        ids = [i for row in encoded for i in row + [end]]
        weights = [w for row in encoded for w in learned(row, tokenizer) + [1]]
        np.array(ids, dtype=np.uint16).tofile(args.work / (name + ".bin"))
        np.array(weights, dtype=np.uint8).tofile(args.work / (name + ".weight.bin"))
        print(name, len(rows), "texts", len(ids), "tokens", sum(map(len, rows)) / len(ids), "chars/token",
              sum(weights) / len(ids), "learned")


if __name__ == "__main__":
    main()
