#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of tokenizers that are built from a vocabulary (text/rust/src/vocabulary).

vocabularies/sentencepiece: tokenizer.model, trained here by `sentencepiece`; vocabulary.json, the same pieces in the
form of GGUF; cases.json, what the Hugging Face tokenizer with transformers' merges of this model does.
vocabularies/wordpiece: vocabulary.json of a trained WordPiece in the form of GGUF, and cases.json.
vocabularies/merged_pieces: the same of pieces with merges, as Gemma 4 has them.
vocabularies/tiktoken: tiktoken.model and tokenizer_config.json as Kimi's, and cases.json, what `tiktoken` does.
vocabularies/splits.json: for each name of tokenizer.ggml.pre the ids that the published pre-tokenizer gives to each of
its texts with the vocabulary of byte_level_gpt2.

Needs tokenizers, transformers, sentencepiece, protobuf, tiktoken. Training is deterministic: a second run changes nothing.
"""

import base64
import json
import pathlib
import random
import tempfile

import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE
from transformers.convert_slow_tokenizer import SentencePieceExtractor, bytes_to_unicode

from make_text_goldens import AWKWARD, CORPUS, LLAMA3_SPLIT, HERE, cases_of, encode_case, write_json

FOLDER = HERE / "vocabularies"
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
# Source: tokenizer.json of Qwen 2, Qwen 3.5, Mistral Nemo, GPT-OSS, Seed Coder, BLOOM, DeepSeek Coder, V2 and V3.
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + GPT4O_WORD +
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + GPT4O_WORD +
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Source: the tokenizer class that Kimi K2 brings with its weights.
KIMI_SPLIT = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + GPT4O_WORD,
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + GPT4O_WORD,
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
SEED_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM_SPLIT = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_CODER_SPLITS = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+")
DEEPSEEK_LLM_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+")
DEEPSEEK_LLM_SPLITS = ("[\r\n]", DEEPSEEK_LLM_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$",
                       "[一-龥\u0800-一가-\ud7ff]+")
DEEPSEEK_V3_SPLITS = (
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")
EACH_DIGIT = pre_tokenizers.Digits(individual_digits=True)


# Marks among and without letters, and Chinese characters next to others.
MARKED = ["हिन्दी में लिखा है।", "क्षत्रिय 'िa ़x", "\u0301a \u0301\u0301 1\u0301 .\u0301x", "ภาษาไทยที่นี่", "tiếng Viê\u0323t",
          "漢字かな交じり文ABC漢字", "A漢b字C 漢字's", "X\u20e3y ☎\ufe0f ❤\ufe0fa", "العَرَبِيَّةُ", "שָׁלוֹם עוֹלָם"]


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
    "qwen35": (split(QWEN35_SPLIT), normalizers.NFC(), False),
    "kimi-k2": (split(KIMI_SPLIT), None, True),
    "minimax-m2": (split(GPT4O_SPLIT), None, False),
    "lfm2": (split(LLAMA3_SPLIT), None, True),
    "smollm": (pre_tokenizers.Sequence([EACH_DIGIT, GPT2]), None, False),
    "tekken": (split(TEKKEN_SPLIT), None, True),
    "smaug-bpe": (split(LLAMA3_SPLIT), None, True),
    "dbrx": (split(LLAMA3_SPLIT), None, False),
    "gpt-4o": (split(GPT4O_SPLIT), None, False),
    "command-r": (pre_tokenizers.Sequence([EACH_DIGIT, GPT2]), normalizers.NFC(), False),
    "seed-coder": (split(SEED_SPLIT), None, False),
    "deepseek-coder": (pre_tokenizers.Sequence([*splits(*DEEPSEEK_CODER_SPLITS), EACH_DIGIT, BYTES]), None, False),
    "deepseek-llm": (pre_tokenizers.Sequence([*splits(*DEEPSEEK_LLM_SPLITS), EACH_DIGIT, BYTES]), None, False),
    "deepseek-v3": (split(*DEEPSEEK_V3_SPLITS), None, False),
    "falcon": (pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), GPT2,
                                        pre_tokenizers.Digits(individual_digits=False), *splits("[0-9][0-9][0-9]")]), None, False),
    "bloom": (split(BLOOM_SPLIT), None, False),
    "superbpe": (split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), None, False),
}


def make_splits():
    base = json.loads((HERE / "byte_level_gpt2" / "tokenizer.json").read_text(encoding="utf-8"))
    texts = AWKWARD + CORPUS[:22] + MARKED
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


def make_merged_pieces():
    folder = FOLDER / "merged_pieces"
    folder.mkdir(exist_ok=True)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
    visible = ["<|tool_call>", "<tool_call|>", "<|\"|>"]
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained.train_from_iterator(CORPUS + [f"{a}\n\n{b}" for a, b in zip(CORPUS, CORPUS[1:])], trainers.BpeTrainer(
        vocab_size=1000, special_tokens=special + visible + byte_tokens, show_progress=False, limit_alphabet=150))
    document = json.loads(trained.to_str())
    document["added_tokens"] = [t | {"special": t["content"] in special} for t in document["added_tokens"]
                                if t["content"] in special + visible]
    document["pre_tokenizer"] = None
    tok = Tokenizer.from_str(json.dumps(document))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    write_json(folder / "cases.json", cases_of(tok, 5))
    pieces = [piece for piece, _ in sorted(tok.get_vocab().items(), key=lambda row: row[1])]
    kinds = {"<unk>": 2.0} | {t: 3.0 for t in special if t != "<unk>"} | {t: 4.0 for t in visible} | {t: 6.0 for t in byte_tokens}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in document["model"]["merges"]]
    write_json(folder / "vocabulary.json", {
        "model": "gemma4", "pre": "", "tokens": pieces, "scores": [-1000.0] * len(pieces),
        "types": [kinds.get(piece, 1.0) for piece in pieces], "merges": merges, "unk_token": 3, "bos_token": 2,
        "eos_token": 1, "add_bos": True, "add_space_prefix": False})


def make_tiktoken():
    folder = FOLDER / "tiktoken"
    folder.mkdir(exist_ok=True)
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = split(KIMI_SPLIT)
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in trained.get_vocab().items()}
    # A token that no merges make: a part of a text that is a token as a whole is that token.
    ranks["bécasseau".encode()] = len(ranks)
    ranks["zqx".encode()] = len(ranks)
    rows = sorted(ranks.items(), key=lambda row: row[1])
    (folder / "tiktoken.model").write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % rank for t, rank in rows))
    base = len(ranks)
    named = {"[BOS]": (0, True), "[EOS]": (1, True), "<|im_end|>": (2, True), "<|tool_call_begin|>": (9, False), "[PAD]": (255, True)}
    by_id = {base + at: name for name, (at, _) in named.items()}
    special = {by_id.get(i, f"<|reserved_token_{i}|>"): i for i in range(base, base + 258)}
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
        "added_tokens_decoder": {str(base + at): {"content": name, "special": is_special, "lstrip": False, "normalized": False,
                                                  "rstrip": False, "single_word": False}
                                 for name, (at, is_special) in named.items()}})
    tok = tiktoken.Encoding("kimi", pat_str=KIMI_SPLIT, mergeable_ranks=ranks, special_tokens=special)
    texts = AWKWARD + CORPUS[:22] + [
        "bécasseau zqx zqxy bécasseaux", "[BOS]a<|im_end|>b", f"<|reserved_token_{base + 3}|>", "<|tool_call_begin|>x",
        "漢字かな交じり文ABC漢字", "A漢b字C", " 漢字", "don'T漢字's", "हिन्दी漢字", "\u3007\u4e00\u303b"]
    rng = random.Random(6)
    letters = list("aZé'sn ,.\n\t0漢字かहि़\u0301ǅ") + ["'LL", "\r\n", "  "]
    texts += ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 30))) for _ in range(150)]
    always = {name for name, (_, is_special) in named.items() if not is_special}  # are tokens in any text, as in transformers
    encode = [{"text": text, "add_special_tokens": False, "parse_special": parse, "ids":
               tok.encode(text, allowed_special="all" if parse else always, disallowed_special=())}
              for text in texts for parse in (False, True)]
    lists = [[rng.randrange(base + 258) for _ in range(rng.randrange(1, 20))] for _ in range(60)]
    decode = [{"ids": ids, "skip_special": False, "text": tok.decode(ids)} for ids in lists]
    write_json(folder / "cases.json", {"tiktoken_version": tiktoken.__version__, "encode": encode, "decode": decode})


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
    make_merged_pieces()
    make_tiktoken()
    make_wordpiece()


if __name__ == "__main__":
    main()
