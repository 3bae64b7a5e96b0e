// SPDX-License-Identifier: Apache-2.0
//! Limits on the components around the model, which the library does not bound: their number, how much a normalizer may
//! expand text, and the longest word that WordPiece searches.

use serde_json::Value;

use super::document::Document;
use crate::error::{Error, Result};
use crate::limits::{MAX_COMPONENT_PARTS, MAX_NORMALIZER_GROWTH, MAX_WORDPIECE_WORD_CHARS};

pub(super) fn check(document: &Document) -> Result<()> {
    let components = [
        ("normalizer", &document.normalizer),
        ("pre_tokenizer", &document.pre_tokenizer),
        ("post_processor", &document.post_processor),
        ("decoder", &document.decoder),
    ];
    for (name, component) in components {
        let parts = count_parts(component);
        if parts > MAX_COMPONENT_PARTS {
            return refuse(format!("{name} has {parts} parts; limit is {MAX_COMPONENT_PARTS}"));
        }
    }
    let growth = growth(&document.normalizer);
    if growth > MAX_NORMALIZER_GROWTH {
        return refuse(format!(
            "the normalizer can make the text {growth} times longer; limit is {MAX_NORMALIZER_GROWTH}"
        ));
    }
    match document.model.max_input_chars_per_word {
        Some(chars) if chars > MAX_WORDPIECE_WORD_CHARS => {
            refuse(format!("model.max_input_chars_per_word is {chars}; limit is {MAX_WORDPIECE_WORD_CHARS}"))
        }
        _ => Ok(()),
    }
}

/// Objects with a `type`, at any depth.
fn count_parts(component: &Value) -> usize {
    match component {
        Value::Object(fields) => {
            usize::from(fields.contains_key("type")) + fields.values().map(count_parts).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_parts).sum(),
        _ => 0,
    }
}

/// Product over all parts of the bytes that one matched byte may become.
fn growth(component: &Value) -> usize {
    match component {
        Value::Object(fields) => {
            let content = fields.get("content").and_then(Value::as_str).map_or(1, str::len).max(1);
            let prepended = fields.get("prepend").and_then(Value::as_str).map_or(1, str::len).max(1);
            let matched = fields.get("pattern").and_then(|pattern| pattern.get("String"));
            let matched = matched.and_then(Value::as_str).map_or(1, str::len).max(1);
            let own = content.div_ceil(matched).saturating_mul(prepended);
            fields.values().map(growth).fold(own, usize::saturating_mul)
        }
        Value::Array(items) => items.iter().map(growth).fold(1, usize::saturating_mul),
        _ => 1,
    }
}

fn refuse(problem: String) -> Result<()> {
    Err(Error::invalid(format!("tokenizer.json: {problem}")))
}
