// SPDX-License-Identifier: Apache-2.0
//! How many tokens a post-processor may put around a text. The library multiplies them out for every text, and one token
//! of a template may stand for a list.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::limits::MAX_POST_PROCESSOR_TOKENS;

pub(super) fn check(post_processor: &Value) -> Result<()> {
    let added = added_by(post_processor);
    if added <= MAX_POST_PROCESSOR_TOKENS {
        return Ok(());
    }
    let limit = MAX_POST_PROCESSOR_TOKENS;
    Err(Error::invalid(format!("tokenizer.json: post_processor adds {added} tokens and texts; limit is {limit}")))
}

/// Of all its parts, at any depth.
fn added_by(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(added_by).fold(0, usize::saturating_add),
        Value::Object(fields) => {
            let tokens = fields.get("special_tokens").unwrap_or(&Value::Null);
            let templates = ["single", "pair"].iter().filter_map(|name| fields.get(*name)?.as_array()).flatten();
            let own = templates.map(|piece| added_by_piece(piece, tokens)).fold(0, usize::saturating_add);
            let inner = fields.iter().filter(|(name, _)| *name == "processors").map(|(_, list)| added_by(list));
            inner.fold(own, usize::saturating_add)
        }
        _ => 0,
    }
}

/// A text counts as one.
fn added_by_piece(piece: &Value, tokens: &Value) -> usize {
    let name = piece.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str);
    let lists = ["ids", "tokens"].map(|list| tokens.get(name?)?.get(list)?.as_array().map(Vec::len));
    lists.into_iter().flatten().max().unwrap_or(1)
}
