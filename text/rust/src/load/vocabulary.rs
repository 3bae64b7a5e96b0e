// SPDX-License-Identifier: Apache-2.0
//! Rules for ids, tokens and merges: every id is used once and, but for added tokens, inside the embedding table; every
//! token occurs once; every merge consists of existing tokens.

use ahash::AHashMap;
use serde_json::Value;

use super::document::{Document, Merge};
use crate::error::{quote, Error, Result};
use crate::limits::MAX_VOCAB_SIZE;

/// `rows`: ids below have an embedding. An added token may be beyond them: Gemma 3 1B and many fine-tunes have one, and
/// the model is served without it.
pub(super) fn check(document: &Document, rows: u32) -> Result<()> {
    let added: AHashMap<&str, &Value> =
        document.added_tokens.iter().map(|added| (added.content.as_str(), &added.id)).collect();
    let mut tokens = AHashMap::with_capacity(document.model.vocab.0.len());
    let mut owners: AHashMap<u32, &str> = AHashMap::with_capacity(document.model.vocab.0.len());
    for (token, id) in &document.model.vocab.0 {
        let place = || format!("model.vocab[{}]", quote(token));
        let limit = if added.get(token.as_str()) == Some(&id) { MAX_VOCAB_SIZE } else { rows };
        let id = checked_id(id, limit, place)?;
        if tokens.insert(token.as_str(), id).is_some() {
            return refuse(format!("{} stands there twice", place()));
        }
        if let Some(other) = owners.insert(id, token) {
            return refuse(format!("{} has id {id}, and so has {}", place(), quote(other)));
        }
    }
    check_added_tokens(document, &mut owners)?;
    check_merges(document, &tokens)
}

fn check_added_tokens<'a>(document: &'a Document, owners: &mut AHashMap<u32, &'a str>) -> Result<()> {
    for (i, added) in document.added_tokens.iter().enumerate() {
        let place = || format!("added_tokens[{i}] {}", quote(&added.content));
        let id = checked_id(&added.id, MAX_VOCAB_SIZE, place)?;
        if added.content.is_empty() {
            return refuse(format!("added_tokens[{i}] is empty"));
        }
        match owners.insert(id, &added.content) {
            Some(other) if other != added.content => {
                return refuse(format!("{} has id {id}, and so has {}", place(), quote(other)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_merges(document: &Document, tokens: &AHashMap<&str, u32>) -> Result<()> {
    let prefix = document.model.continuing_subword_prefix.as_deref().unwrap_or("");
    let mut merged = String::new();
    for (i, merge) in document.model.merges.iter().enumerate() {
        let (left, right) = match merge {
            Merge::Pair(left, right) => (left.as_str(), right.as_str()),
            Merge::Line(line) if line.starts_with("#version") => continue,
            Merge::Line(line) => match line.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => (left, right),
                _ => return refuse(format!("model.merges[{i}] {} is not two tokens", quote(line))),
            },
        };
        for token in [left, right] {
            if !tokens.contains_key(token) {
                return refuse(format!("model.merges[{i}] names {}, which is not in model.vocab", quote(token)));
            }
        }
        let Some(tail) = right.get(prefix.len()..) else {
            return refuse(format!("model.merges[{i}] {} is shorter than the subword prefix", quote(right)));
        };
        merged.clear();
        merged.push_str(left);
        merged.push_str(tail);
        if !tokens.contains_key(merged.as_str()) {
            return refuse(format!("model.merges[{i}] makes {}, which is not in model.vocab", quote(&merged)));
        }
    }
    Ok(())
}

fn checked_id(id: &Value, id_limit: u32, place: impl Fn() -> String) -> Result<u32> {
    match id.as_u64() {
        Some(value) if value < u64::from(id_limit) => Ok(value as u32),
        Some(value) => {
            refuse(format!("{} has id {value}; the model has {id_limit} token ids (embedding rows)", place()))
        }
        None => refuse(format!("{} has id {}, which is no integer from 0 up", place(), short(id))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}

fn refuse<T>(problem: String) -> Result<T> {
    Err(Error::invalid(format!("tokenizer.json: {problem}")))
}
