# SPDX-License-Identifier: Apache-2.0
"""A synthetic byte-level BPE vocabulary of any size, so that servers of models with random weights can accept and
return text. It has the bytes, two-letter words (with and without a leading space) as in `dunlin load --prompt-form words`, and
fillers: every word of a prompt is one token, and every sampled token is some text.

Standard library only.
"""

import json

CONSONANTS, VOWELS = "bdfghlmnprst", "aeiou"
END = "<|endoftext|>"


def byte_characters():
    """GPT-2's printable stand-ins of the 256 bytes, in its order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def make(size):
    """(tokens by id, merges); the last token is END."""
    space = "\u0120"
    tokens, merges = byte_characters(), []
    for consonant in CONSONANTS:
        merges.append(f"{space} {consonant}")
        tokens.append(space + consonant)
    for consonant in CONSONANTS:
        for vowel in VOWELS:
            merges.append(f"{space}{consonant} {vowel}")
            tokens.append(space + consonant + vowel)
            merges.append(f"{consonant} {vowel}")
            tokens.append(consonant + vowel)
    tokens += [f"{space}w{i}" for i in range(size - 1 - len(tokens))]
    return tokens + [END], merges


def write_tokenizer(directory, size):
    """tokenizer.json and tokenizer_config.json as Hugging Face writes them for GPT-2."""
    tokens, merges = make(size)
    special = {"id": size - 1, "content": END, "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": merges}}))
    (directory / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "GPT2Tokenizer", "bos_token": END, "eos_token": END, "add_prefix_space": False}))


def add_to_gguf(writer, size):
    tokens, merges = make(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (size - 1) + [3])  # normal, control
    writer.add_token_merges(merges)
    writer.add_bos_token_id(size - 1)
    writer.add_eos_token_id(size - 1)
    writer.add_add_bos_token(False)
