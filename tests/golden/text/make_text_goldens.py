#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the text goldens: three small tokenizers and what Hugging Face `tokenizers` does with them.

Run with a Python that has tokenizers == 0.23.2 (the version of the Rust crate in text/rust):
    python3 tests/golden/text/make_text_goldens.py
It writes, next to itself, <style>/tokenizer.json, <style>/tokenizer_config.json and <style>/cases.json.
Training is deterministic: a second run changes nothing.
"""

import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
REQUIRED_VERSION = "0.23.2"
VOCAB_SIZE = 900

# Source: tokenizer.json of the Llama 3 models, pre_tokenizer.
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CORPUS = """
The dunlin is a small wader that breeds in the north and winters along the coasts of the south.
It flies in large flocks that turn together, now dark, now white, as if one mind moved them all.
There's no bird like it: they're fast, they've no leader, and I'd say you'll never see one alone.
A server should be like that. It takes requests, forms a step, and answers each of them in turn.
The time to the first token is 12 ms, the second takes 3 ms, and 1024 of them take 2.5 seconds.
In 2019, 2020 and 2021 the count was 100, 1000 and 10000; in 1999 it was 7.
for (int i = 0; i < num_tokens; ++i) {
    out[i] = in[i] / sqrt(mean + epsilon) * weight[i];
}
def decode(ids, skip_special_tokens=True):
\treturn "".join(token_bytes[i] for i in ids).decode("utf-8", errors="replace")
{"model": "demo", "prompt": "Hello, world!", "max_tokens": 16, "temperature": 0.7, "stop": ["\\n"]}
Der Alpenstrandläufer ist ein kleiner Watvogel. Er brütet im Norden, überwintert an den Küsten.
Le bécasseau variable niche dans la toundra; l'hiver, on le voit sur les côtes européennes.
El correlimos común vive en las costas. ¿Dónde está el niño? ¡Mañana será otro día!
Чернозобик живёт на побережье и летает большими стаями над морем.
Ο λασποσκαλίδρας ζει στις ακτές και πετά σε μεγάλα σμήνη.
黒いお腹の小さな鳥は海辺で群れをなして飛びます。 群れは一つの心で動くようです。
黑腹滨鹬是一种小型涉禽，冬天成群飞在海边。它们飞得很快，没有首领。
흑꼬리도요가 아니라 민물도요입니다. 바닷가에서 무리를 지어 납니다.
الدريجة طائر صغير يعيش على السواحل ويطير في أسراب كبيرة.
הביצנית היא עוף קטן שחי על החוף.
😀 🎉 👍 the emoji of the day are 😀 and 🐦.
""".strip("\n").split("\n") * 3

AWKWARD = [
    "", " ", "  ", "   a", "a   ", "a b", "Hello, world!", "hello world", "The dunlin flies.",
    "they're we've I'll HE'S it's 'tis 's", "don't DON'T don\u2019t", "\u017f '\u017f I'\u017f \u212a",
    "12345678901 3.14159 1,000,000 ½ ² Ⅷ ٣٤٥", "a1b2c3", "x=1;y=2;", "tab\there\t\tand", "line\nbreak\r\nand\n\n\nmore\n",
    " \n \n  x", "\n", "\r\n\r\n", "trailing \n ", "\t\n\x0b\x0c\r\x1c\x85\u00a0x", "nul\x00inside\x00", "\x01\x02\x1b[31mred\x7f",
    "e\u0301 vs é", "a\u0300\u0301\u0302\u0303\u0304\u0305b", "Z\u0351\u036b\u0343a\u0328\u030bl\u0348g\u0334o",
    "👨\u200d👩\u200d👧\u200d👦 family", "👍🏽", "🏳️\u200d🌈", "🇩🇪🇫🇷", "❤️", "😀😀😀", "1\ufe0f\u20e3",
    "日本語のテキスト", "中文，没有空格", "한국어 텍스트", "ภาษาไทย", "हिन्दी में", "தமிழ்",
    "العربية من اليمين", "עברית", "mixed עברית and english", "\u202ertl override\u202c",
    "\ufeffbom", "zero\u200bwidth\u200cjoin\u200d\u2060", "\u00a0nbsp\u2003em\u3000ideographic",
    "\ufffd", "a\ufffdb", "\U0010ffff \ue000 \ufdd0", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙", "ǅ ﬁ ß İ ı",
    "▁", "▁▁a", "a▁b", "Ġ", "ĠaĊ", "<0x0A>", "<0xE2><0x82><0xAC>",
    "<s>", "</s>", "<unk>", "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|begin_of_text|>hi<|eot_id|>",
    "<s>[INST] hi [/INST]</s>", "<tool>call</tool>", "x <tool> y", "<|endoftext|", "|endoftext|>", "<<|endoftext|>>",
    "a" * 400, " " * 300, "ab " * 120, "\n" * 60, "-" * 200, "é" * 120, "あ" * 80, "\u0301" * 80, "😀" * 40, "0" * 100,
    "a\u0000" * 40, "!?" * 60, "a  b   c    d     e      f", "https://example.org/path?q=1&r=%20#frag",
    "camelCaseAndSNAKE_CASE_and-kebab", "\\n \\u00e9 \"quoted\" 'single'", "{}[]()<>#$%^&*~`",
]


def byte_level_gpt2():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
    config = {"add_bos_token": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    return tok, config


def byte_level_llama3():
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tok.add_special_tokens(special)
    bos = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)])])
    config = {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>", "special": True}}
    return tok, config


def sentencepiece_llama2():
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    special = ["<unk>", "<s>", "</s>"]
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE + 100, special_tokens=special + byte_tokens, show_progress=False, limit_alphabet=150))
    # The converted Llama 2 form: no pre-tokenizer, a normalizer adds the space, only the real
    # special tokens are added tokens.
    doc = json.loads(trained.to_str())
    doc["pre_tokenizer"] = None
    doc["added_tokens"] = [t for t in doc["added_tokens"] if t["content"] in special]
    tok = Tokenizer.from_str(json.dumps(doc))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    config = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return tok, config


def encode_case(tok, text, add_special_tokens, parse_special):
    tok.encode_special_tokens = not parse_special
    ids = tok.encode(text, add_special_tokens=add_special_tokens).ids
    return {"text": text, "add_special_tokens": add_special_tokens, "parse_special": parse_special, "ids": ids}


def decode_case(tok, ids, skip_special):
    return {"ids": ids, "skip_special": skip_special, "text": tok.decode(ids, skip_special_tokens=skip_special)}


def cases_of(tok, seed):
    rng = random.Random(seed)
    encodes = [encode_case(tok, text, *flags) for text in AWKWARD + CORPUS[:22]
               for flags in ((False, False), (True, True))]
    id_lists = [case["ids"] for case in encodes if len(case["ids"]) <= 80]
    for _ in range(60):  # token salad: broken UTF-8, special tokens anywhere
        id_lists.append([rng.randrange(tok.get_vocab_size()) for _ in range(rng.randrange(1, 24))])
    for _ in range(60):  # the first ids hold the byte tokens: dense broken UTF-8
        id_lists.append([rng.randrange(min(260, tok.get_vocab_size())) for _ in range(rng.randrange(1, 16))])
    decodes = [decode_case(tok, ids, skip) for i, ids in enumerate(id_lists)
               for skip in ((True, False) if i % 4 == 0 else (True,))]
    return {"tokenizers_version": tokenizers.__version__, "encode": encodes, "decode": decodes}


def code_points_digest(tok):
    """FNV-1a over the sizes of the pre-tokens around every code point: how each one is classified, in one number."""
    if tok.pre_tokenizer is None:
        return None
    digest = 0xCBF29CE484222325
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        for piece, _ in tok.pre_tokenizer.pre_tokenize_str(f"a{chr(code)}b {chr(code)}1'{chr(code)}"):
            digest = ((digest ^ len(piece.encode("utf-8"))) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{digest:016x}"


def write_json(path, value, **kwargs):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), **kwargs) + "\n", encoding="utf-8")


def main():
    if tokenizers.__version__ != REQUIRED_VERSION:
        raise SystemExit(f"needs tokenizers {REQUIRED_VERSION}, found {tokenizers.__version__}")
    for seed, make in enumerate((byte_level_gpt2, byte_level_llama3, sentencepiece_llama2)):
        tok, config = make()
        folder = HERE / make.__name__
        folder.mkdir(exist_ok=True)
        tok.encode_special_tokens = False
        write_json(folder / "tokenizer.json", json.loads(tok.to_str()))
        write_json(folder / "tokenizer_config.json", config)
        cases = cases_of(tok, seed)
        cases["code_points_digest"] = code_points_digest(tok)
        write_json(folder / "cases.json", cases)
        print(f"{make.__name__}: {tok.get_vocab_size()} tokens, {len(cases['encode'])} encodes, {len(cases['decode'])} decodes")


if __name__ == "__main__":
    main()
