# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE tokenizer on train.jsonl and packs both splits into token files.

Writes tokenizer.json and tokenizer_config.json to --out, train.bin and heldout.bin (uint16, every
document followed by <|endoftext|>) to --work. Documents are shuffled with a fixed seed.

Usage: train_tokenizer.py --work DIR --out MODEL_DIR
"""

import argparse
import json
import pathlib
import random

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCAB_SIZE = 4096
END_OF_TEXT = "<|endoftext|>"
CONTEXT = 1024
SEED = 1


def read_texts(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=[END_OF_TEXT], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=pathlib.Path, required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    args = arguments.parse_args()
    texts = {split: read_texts(args.work / (split + ".jsonl")) for split in ("train", "heldout")}
    tokenizer = train(texts["train"])
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    config = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "bos_token": END_OF_TEXT,
              "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT, "clean_up_tokenization_spaces": False,
              "model_max_length": CONTEXT}
    (args.out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    end = tokenizer.token_to_id(END_OF_TEXT)
    for split, documents in texts.items():
        random.Random(SEED).shuffle(documents)
        ids = [i for e in tokenizer.encode_batch(documents) for i in e.ids + [end]]
        np.array(ids, dtype=np.uint16).tofile(args.work / (split + ".bin"))
        print(split, len(documents), "documents", len(ids), "tokens", sum(map(len, documents)) / len(ids), "chars/token")


if __name__ == "__main__":
    main()
