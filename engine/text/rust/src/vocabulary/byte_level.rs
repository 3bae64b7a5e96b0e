// SPDX-License-Identifier: Apache-2.0
//! Byte-level BPE: the letters of the tokens stand for bytes. How a text is split first has a name in GGUF files
//! (tokenizer.ggml.pre).
//!
//! Source of the names: llama.cpp, src/llama-vocab.cpp; of the rules: tokenizer.json of the models themselves.

use serde_json::{json, Value};

use super::{document, types, Vocabulary};
use crate::error::{quote, Error, Result};
use crate::load::patterns;

/// What splits a text before the bytes of its parts are merged.
enum Split {
    /// GPT-2's pattern, which the library has.
    Gpt2,
    /// Each digit, then GPT-2's pattern.
    DigitsThenGpt2,
    Pattern(&'static str),
}

struct Rule {
    names: &'static [&'static str],
    split: Split,
    nfc: bool,
    /// A part that is a token as a whole is that token, whatever the merges say.
    ignore_merges: bool,
    /// Where the file has no flag.
    add_bos: bool,
}

/// Mistral's pattern of Nemo and later: GPT-4o's without contractions, each digit alone.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const RULES: [Rule; 6] = [
    Rule {
        names: &["", "default", "gpt-2", "phi-2"],
        split: Split::Gpt2,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
    Rule { names: &["olmo"], split: Split::Gpt2, nfc: true, ignore_merges: false, add_bos: false },
    Rule {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"],
        split: Split::Pattern(patterns::LLAMA3),
        nfc: false,
        ignore_merges: true,
        add_bos: true,
    },
    Rule {
        names: &["qwen2", "deepseek-r1-qwen"],
        split: Split::Pattern(patterns::QWEN2),
        nfc: true,
        ignore_merges: false,
        add_bos: false,
    },
    Rule {
        names: &["smollm", "starcoder", "refact"],
        split: Split::DigitsThenGpt2,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
    Rule { names: &["tekken"], split: Split::Pattern(TEKKEN), nfc: false, ignore_merges: true, add_bos: true },
];

pub(super) fn write(vocabulary: &Vocabulary) -> Result<Value> {
    let rule = find(&vocabulary.pre)?;
    vocabulary.ids()?;
    let mut merges = Vec::with_capacity(vocabulary.merges.len());
    for (i, merge) in vocabulary.merges.iter().enumerate() {
        // A token may be a space: the separator is the first one after the first character.
        let start = merge.chars().next().map_or(0, char::len_utf8);
        let space = merge[start..].find(' ').map(|at| at + start);
        let Some(space) = space else {
            return Err(Error::invalid(format!("merges[{i}] of the vocabulary, {}, is not two tokens", quote(merge))));
        };
        merges.push(json!([merge[..space], merge[space + 1..]]));
    }
    let prefix_space = vocabulary.add_space_prefix.unwrap_or(false);
    // Rows of the embedding without a token have a name here; no text has them.
    let vocab = vocabulary.vocab(|id| vocabulary.type_of(id) != types::UNUSED, |_, token| token.to_string());
    Ok(document(
        vocabulary.added(),
        if rule.nfc { json!({"type": "NFC"}) } else { Value::Null },
        pre_tokenizer(&rule.split, prefix_space),
        vocabulary.bos_and_eos(rule.add_bos, false)?,
        byte_level(prefix_space, true),
        json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
               "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
               "ignore_merges": rule.ignore_merges, "vocab": vocab, "merges": merges}),
    ))
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

fn pre_tokenizer(split: &Split, prefix_space: bool) -> Value {
    let first = match split {
        Split::Gpt2 => return byte_level(prefix_space, true),
        Split::DigitsThenGpt2 => json!({"type": "Digits", "individual_digits": true}),
        Split::Pattern(pattern) => {
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
        }
    };
    let use_regex = matches!(split, Split::DigitsThenGpt2);
    json!({"type": "Sequence", "pretokenizers": [first, byte_level(prefix_space, use_regex)]})
}
