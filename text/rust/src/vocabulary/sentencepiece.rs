// SPDX-License-Identifier: Apache-2.0
//! SentencePiece BPE: pieces with scores, "▁" for a space, bytes where a character has no piece. Gemma 4's has merges in
//! place of the scores, and no space before a text.
//!
//! Source: transformers 5.23, convert_slow_tokenizer.py (SentencePieceExtractor, LlamaConverter), and generate_merges;
//! of Gemma 4 tokenizer.json, and its form in GGUF files that of llama.cpp's converter.

use std::cmp::Ordering;

use ahash::AHashMap;
use serde_json::{json, Value};

use super::{types, ModelJson, TokenizerJson, Vocabulary};
use crate::error::{Error, Result};

/// Merges that one vocabulary may give; Gemma's 256,000 pieces give some 600,000.
const MAX_MERGES: usize = 1 << 23;

pub(super) fn write(vocabulary: &Vocabulary) -> Result<TokenizerJson<'_>> {
    if vocabulary.scores.len() != vocabulary.tokens.len() {
        let (scores, tokens) = (vocabulary.scores.len(), vocabulary.tokens.len());
        return Err(Error::invalid(format!("the vocabulary has {scores} scores for {tokens} pieces")));
    }
    let ids = vocabulary.ids()?;
    let merges = merges(vocabulary, &ids)?;
    write_as(vocabulary, merges, vocabulary.add_space_prefix.unwrap_or(true))
}

pub(super) fn write_with_merges(vocabulary: &Vocabulary) -> Result<TokenizerJson<'_>> {
    vocabulary.ids()?;
    write_as(vocabulary, vocabulary.listed_merges()?, vocabulary.add_space_prefix.unwrap_or(false))
}

fn write_as<'a>(vocabulary: &'a Vocabulary, merges: Vec<[&'a str; 2]>, prefix: bool) -> Result<TokenizerJson<'a>> {
    let unknown = (0..vocabulary.tokens.len()).find(|id| vocabulary.type_of(*id) == types::UNKNOWN);
    let unknown = vocabulary.unk_token.or(unknown).and_then(|id| vocabulary.tokens.get(id));
    let byte_fallback = vocabulary.types.contains(&types::BYTE);
    Ok(TokenizerJson {
        added_tokens: vocabulary.added(),
        normalizer: normalizer(prefix, vocabulary.remove_extra_whitespaces.unwrap_or(false)),
        post_processor: vocabulary.bos_and_eos(true, false)?,
        decoder: decoder(prefix),
        ..TokenizerJson::of(ModelJson {
            rules: json!({"type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
                          "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": byte_fallback,
                          "ignore_merges": false}),
            vocab: vocabulary.vocab(|_| true, |_, token| token.into()),
            merges: Some(merges),
        })
    })
}

fn normalizer(prefix: bool, collapse: bool) -> Value {
    let mut steps = Vec::new();
    if collapse {
        steps.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
        steps.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}));
    }
    if prefix {
        steps.push(json!({"type": "Prepend", "prepend": "▁"}));
    }
    steps.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
    json!({"type": "Sequence", "normalizers": steps})
}

fn decoder(prefix: bool) -> Value {
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

/// Every way in which two pieces make a third: the best score first, equal ones in the order of the pieces, a shorter
/// left part first.
fn merges<'a>(vocabulary: &'a Vocabulary, ids: &AHashMap<&str, usize>) -> Result<Vec<[&'a str; 2]>> {
    let mut merges: Vec<(f64, &'a str, &'a str)> = Vec::new();
    for (piece, score) in vocabulary.tokens.iter().zip(&vocabulary.scores) {
        for (at, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                merges.push((*score, left, right));
            }
        }
        if merges.len() > MAX_MERGES {
            return Err(Error::invalid(format!("the pieces of the vocabulary give more than {MAX_MERGES} merges")));
        }
    }
    merges.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
    Ok(merges.iter().map(|(_, left, right)| [*left, *right]).collect())
}
