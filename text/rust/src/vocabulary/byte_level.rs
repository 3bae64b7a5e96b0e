// SPDX-License-Identifier: Apache-2.0
//! Byte-level BPE: the letters of the tokens stand for bytes. How a text is split first has a name in GGUF files
//! (tokenizer.ggml.pre).
//!
//! Source of the names: llama.cpp, src/llama-vocab.cpp; of the rules: tokenizer.json of the models themselves.

use serde_json::{json, Value};

use super::{types, ModelJson, TokenizerJson, Vocabulary};
use crate::error::{quote, Error, Result};
use crate::load::patterns;

/// One of the pre-tokenizers that split a text, in order, before the bytes of its parts are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Split(&'static str),
    EachDigit,
    Digits,
    Punctuation,
    /// GPT-2's pattern, which the library has; letters stand for bytes from here on. Without it they do at the end.
    Gpt2,
}
use Step::{Digits, EachDigit, Gpt2, Punctuation, Split};

struct Rule {
    names: &'static [&'static str],
    steps: &'static [Step],
    nfc: bool,
    /// A part that is a token as a whole is that token, whatever the merges say.
    ignore_merges: bool,
    /// Where the file has no flag.
    add_bos: bool,
    add_eos: bool,
}

const PLAIN: Rule =
    Rule { names: &[], steps: &[Gpt2], nfc: false, ignore_merges: false, add_bos: false, add_eos: false };

const RULES: [Rule; 21] = [
    Rule { names: &["", "default", "gpt-2", "phi-2", "exaone4"], ..PLAIN },
    Rule { names: &["roberta-bpe"], add_bos: true, add_eos: true, ..PLAIN },
    Rule { names: &["olmo", "mpt"], nfc: true, ..PLAIN },
    Rule { names: &["modern-bert"], nfc: true, add_bos: true, add_eos: true, ..PLAIN },
    Rule {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"],
        steps: &[Split(patterns::LLAMA3)],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    // Llama 3's tokenizer without a BOS, and that of GLM 4 and 5.
    Rule { names: &["smaug-bpe", "glm4"], steps: &[Split(patterns::LLAMA3)], ignore_merges: true, ..PLAIN },
    Rule { names: &["dbrx", "chatglm-bpe"], steps: &[Split(patterns::LLAMA3)], ..PLAIN },
    Rule { names: &["qwen2", "deepseek-r1-qwen", "stablelm2"], steps: &[Split(patterns::QWEN2)], nfc: true, ..PLAIN },
    Rule { names: &["qwen35"], steps: &[Split(patterns::QWEN35)], nfc: true, ..PLAIN },
    Rule { names: &["kimi-k2"], steps: &[Split(patterns::KIMI)], ignore_merges: true, ..PLAIN },
    Rule { names: &["gpt-4o", "llama4", "minimax-m2"], steps: &[Split(patterns::GPT4O)], ..PLAIN },
    Rule { names: &["smollm", "starcoder", "refact"], steps: &[EachDigit, Gpt2], ..PLAIN },
    Rule { names: &["command-r"], steps: &[EachDigit, Gpt2], nfc: true, ..PLAIN },
    Rule { names: &["tekken"], steps: &[Split(patterns::TEKKEN)], ignore_merges: true, add_bos: true, ..PLAIN },
    Rule { names: &["seed-coder"], steps: &[Split(patterns::SEED)], ..PLAIN },
    Rule {
        names: &["deepseek-coder"],
        steps: &[
            Split(patterns::LINE_BREAK),
            Split(patterns::LETTERS),
            Split(patterns::MARKS),
            Split(patterns::CJK),
            EachDigit,
        ],
        ..PLAIN
    },
    Rule {
        names: &["deepseek-llm"],
        steps: &[
            Split(patterns::LINE_BREAK),
            Split(patterns::CASED_LETTERS),
            Split(patterns::ASCII_AND_WIDE_MARKS),
            Split(patterns::SPACES_AT_END),
            Split(patterns::CJK),
            EachDigit,
        ],
        ..PLAIN
    },
    Rule {
        names: &["deepseek-v3"],
        steps: &[Split(patterns::UP_TO_THREE_DIGITS), Split(patterns::CJK_AND_KANA), Split(patterns::DEEPSEEK_V3)],
        ..PLAIN
    },
    Rule { names: &["falcon"], steps: &[Punctuation, Gpt2, Digits, Split(patterns::THREE_DIGITS)], ..PLAIN },
    Rule { names: &["bloom"], steps: &[Split(patterns::BLOOM)], ..PLAIN },
    Rule { names: &["superbpe"], steps: &[Split(patterns::NUMBERS), Split(patterns::THOUSANDS)], ..PLAIN },
];

pub(super) fn write(vocabulary: &Vocabulary) -> Result<TokenizerJson<'_>> {
    let rule = find(&vocabulary.pre)?;
    vocabulary.ids()?;
    let merges = vocabulary.listed_merges()?;
    let prefix_space = vocabulary.add_space_prefix.unwrap_or(false);
    // Rows of the embedding without a token have a name here; no text has them.
    let vocab = vocabulary.vocab(|id| vocabulary.type_of(id) != types::UNUSED, |_, token| token.into());
    Ok(TokenizerJson {
        added_tokens: vocabulary.added(),
        normalizer: if rule.nfc { json!({"type": "NFC"}) } else { Value::Null },
        pre_tokenizer: pre_tokenizer(rule.steps, prefix_space),
        post_processor: vocabulary.bos_and_eos(rule.add_bos, rule.add_eos)?,
        decoder: byte_level(prefix_space, true),
        ..TokenizerJson::of(ModelJson {
            rules: json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                          "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                          "ignore_merges": rule.ignore_merges}),
            vocab,
            merges: Some(merges),
        })
    })
}

fn find(name: &str) -> Result<&'static Rule> {
    let known = || RULES.iter().flat_map(|rule| rule.names).filter(|name| !name.is_empty());
    RULES.iter().find(|rule| rule.names.contains(&name)).ok_or_else(|| {
        let known: Vec<&str> = known().copied().collect();
        Error::invalid(format!("tokenizer.ggml.pre {} is not known; known: {}", quote(name), known.join(", ")))
    })
}

fn byte_level(prefix_space: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": true, "use_regex": use_regex})
}

fn pre_tokenizer(steps: &[Step], prefix_space: bool) -> Value {
    let write = |step: &Step| match step {
        Split(pattern) => {
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
        }
        EachDigit => json!({"type": "Digits", "individual_digits": true}),
        Digits => json!({"type": "Digits", "individual_digits": false}),
        Punctuation => json!({"type": "Punctuation", "behavior": "Contiguous"}),
        Gpt2 => byte_level(prefix_space, true),
    };
    let mut parts: Vec<Value> = steps.iter().map(write).collect();
    if !steps.contains(&Gpt2) {
        parts.push(byte_level(prefix_space, false));
    }
    match parts.len() {
        1 => parts.remove(0),
        _ => json!({"type": "Sequence", "pretokenizers": parts}),
    }
}
