#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of tokenizers that are built from a vocabulary (engine/text/rust/src/vocabulary).

vocabularies/sentencepiece: tokenizer.model, trained here by `sentencepiece`; vocabulary.json, the same pieces in the
form of GGUF; cases.json, what the Hugging Face tokenizer with transformers' merges of this model does.
vocabularies/wordpiece: vocabulary.json of a trained WordPiece in the form of GGUF, and cases.json.
vocabularies/splits.json: for each name of tokenizer.ggml.pre the ids that the published pre-tokenizer gives to each of
its texts with the vocabulary of byte_level_gpt2.

Needs tokenizers, transformers, sentencepiece, protobuf. Training is deterministic: a second run changes nothing.
"""

import json
import pathlib
import tempfile

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE
from transformers.convert_slow_tokenizer import SentencePieceExtractor

from make_text_goldens import AWKWARD, CORPUS, LLAMA3_SPLIT, HERE, cases_of, encode_case, write_json

FOLDER = HERE / "vocabularies"
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
# Source: tokenizer.json of Qwen 2, Mistral Nemo, GPT-OSS, Seed Coder, BLOOM, DeepSeek Coder and V3.
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + GPT4O_WORD +
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + GPT4O_WORD +
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM_SPLIT = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_CODER_SPLITS = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+")
DEEPSEEK_V3_SPLITS = (
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")
EACH_DIGIT = pre_tokenizers.Digits(individual_digits=True)


def splits(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def split(*patterns):
    return pre_tokenizers.Sequence([*splits(*patterns), BYTES])


# Name -> (pre-tokenizer, normalizer, ignore_merges).
SPLITS = {
    "gpt-2": (GPT2, None, False),
    "olmo": (GPT2, normalizers.NFC(), False),
    "llama-bpe": (split(LLAMA3_SPLIT), None, True),
    "qwen2": (split(QWEN2_SPLIT), normalizers.NFC(), False),
    "smollm": (pre_tokenizers.Sequence([EACH_DIGIT, GPT2]), None, False),
    "tekken": (split(TEKKEN_SPLIT), None, True),
    "smaug-bpe": (split(LLAMA3_SPLIT), None, True),
    "dbrx": (split(LLAMA3_SPLIT), None, False),
    "gpt-4o": (split(GPT4O_SPLIT), None, False),
    "command-r": (pre_tokenizers.Sequence([EACH_DIGIT, GPT2]), normalizers.NFC(), False),
    "seed-coder": (split(SEED_SPLIT), None, False),
    "deepseek-coder": (pre_tokenizers.Sequence([*splits(*DEEPSEEK_CODER_SPLITS), EACH_DIGIT, BYTES]), None, False),
    "deepseek-v3": (split(*DEEPSEEK_V3_SPLITS), None, False),
    "falcon": (pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), GPT2,
                                        pre_tokenizers.Digits(individual_digits=False), *splits("[0-9][0-9][0-9]")]), None, False),
    "bloom": (split(BLOOM_SPLIT), None, False),
    "superbpe": (split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), None, False),
}


def make_splits():
    base = json.loads((HERE / "byte_level_gpt2" / "tokenizer.json").read_text(encoding="utf-8"))
    texts = AWKWARD + CORPUS[:22]
    rows = {}
    for name, (pre_tokenizer, normalizer, ignore_merges) in SPLITS.items():
        document = base | {"model": base["model"] | {"ignore_merges": ignore_merges}}
        tok = Tokenizer.from_str(json.dumps(document))
        tok.pre_tokenizer = pre_tokenizer
        if normalizer is not None:
            tok.normalizer = normalizer
        rows[name] = [encode_case(tok, text, False, False)["ids"] for text in texts]
    write_json(FOLDER / "splits.json", {"texts": texts, "ids": rows})


def make_sentencepiece():
    folder = FOLDER / "sentencepiece"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_prefix=f"{temp}/m", model_type="bpe", vocab_size=900,
            byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
            remove_extra_whitespaces=False, user_defined_symbols=["<tool>"], num_threads=1, minloglevel=2)
        (folder / "tokenizer.model").write_bytes(pathlib.Path(f"{temp}/m.model").read_bytes())
    extractor = SentencePieceExtractor(str(folder / "tokenizer.model"))
    proto, parts = extractor.proto, extractor.extract(BPE)
    tok = Tokenizer(BPE(vocab=parts["vocab"], merges=parts["merges"], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens(["<unk>"])
    tok.add_tokens(parts["additional_special_tokens"])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    write_json(folder / "cases.json", cases_of(tok, 3))
    write_json(folder / "vocabulary.json", {
        "model": "llama", "pre": "default", "tokens": [p.piece for p in proto.pieces],
        "scores": [p.score for p in proto.pieces], "types": [float(p.type) for p in proto.pieces], "merges": [],
        "unk_token": 0, "bos_token": 1, "eos_token": 2, "add_bos": True, "add_eos": False})


def make_wordpiece():
    folder = FOLDER / "wordpiece"
    folder.mkdir(exist_ok=True)
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix="##")
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False))
    document = json.loads(tok.to_str())
    document["added_tokens"] = [t for t in document["added_tokens"] if t["content"] != "[unused0]"]
    tok = Tokenizer.from_str(json.dumps(document))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 4)])
    write_json(folder / "cases.json", cases_of(tok, 4))
    words = [token for token, _ in sorted(tok.get_vocab().items(), key=lambda row: row[1])]
    spelled = [w if w in special else w[2:] if w.startswith("##") else "▁" + w for w in words]
    types = [1.0 if w not in special or w == "[unused0]" else 2.0 if w == "[UNK]" else 3.0 for w in words]
    write_json(folder / "vocabulary.json", {
        "model": "bert", "pre": "", "tokens": spelled, "scores": [], "types": types, "merges": [],
        "unk_token": 2, "cls_token": 3, "sep_token": 4})


def main():
    FOLDER.mkdir(exist_ok=True)
    make_splits()
    make_sentencepiece()
    make_wordpiece()


if __name__ == "__main__":
    main()
