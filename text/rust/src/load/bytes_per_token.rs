// SPDX-License-Identifier: Apache-2.0
//! How many bytes of text one token can stand for. A text of B bytes then has at least B / bound tokens, so that a text
//! that cannot fit is refused by its size.
//!
//! The bound exists only where nothing of a text vanishes on its way to the model. Every other case gives none: white
//! space that a pre-tokenizer or an added token absorbs, characters that are dropped or fused into one unknown token.

use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::models::ModelWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{Model, NormalizedString, Normalizer, Tokenizer};

use super::cut_points::is_known_regex;

pub(super) fn bound(tokenizer: &Tokenizer) -> Option<usize> {
    let shrinks = shrink(&serde_json::to_value(tokenizer.get_normalizer()).ok()?)?;
    let byte_level = keeps_all(&serde_json::to_value(tokenizer.get_pre_tokenizer()).ok()?)?;
    let ModelWrapper::BPE(bpe) = tokenizer.get_model() else { return None };
    let own = longest_token(bpe, byte_level)?;
    Some(own.max(longest_added(tokenizer)?).saturating_mul(shrinks))
}

/// Most bytes before normalization per byte after it; none: characters can vanish.
///
/// NFD and NFKD: the largest quotient over all characters. NFC: a text and its NFC have the same NFD, which is at least
/// a third of the text and at most three times the NFC. NFKC likewise. `tests/time_tests/cuts.rs` checks every character.
fn shrink(normalizer: &Value) -> Option<usize> {
    let parts = |name: &str| normalizer.get(name)?.as_array()?.iter().map(shrink).try_fold(1, |a, b| Some(a * b?));
    match normalizer.get("type").and_then(Value::as_str) {
        None if normalizer.is_null() => Some(1),
        Some("Sequence") => parts("normalizers"),
        Some("Prepend") => Some(1),
        Some("NFD") => Some(3),
        Some("NFC") => Some(9),
        Some("NFKD") => Some(4),
        Some("NFKC") => Some(12),
        Some("Lowercase") => Some(3),
        Some("Replace") => {
            let matched = normalizer.get("pattern")?.get("String")?.as_str()?.len();
            let content = normalizer.get("content")?.as_str()?.len();
            (content > 0).then(|| matched.div_ceil(content).max(1))
        }
        _ => None,
    }
}

/// Whether the pre-tokenizer writes bytes as letters; none: it can drop characters.
fn keeps_all(pre_tokenizer: &Value) -> Option<bool> {
    let text = |name: &str| pre_tokenizer.get(name).and_then(Value::as_str);
    let removes = text("behavior") == Some("Removed");
    match text("type") {
        None if pre_tokenizer.is_null() => Some(false),
        Some("Sequence") => {
            let parts = pre_tokenizer.get("pretokenizers")?.as_array()?;
            parts.iter().map(keeps_all).try_fold(false, |any, part| Some(any | part?))
        }
        Some("ByteLevel") => Some(true),
        Some("Metaspace" | "Digits") => Some(false),
        Some("Punctuation") => (!removes).then_some(false),
        // What is removed is what the pattern does not match, and the known ones match everything.
        Some("Split") => {
            (!removes || (pre_tokenizer.get("invert")? == true && is_known_regex(pre_tokenizer))).then_some(false)
        }
        _ => None,
    }
}

/// None: the model can drop or fuse characters that its vocabulary lacks.
fn longest_token(bpe: &BPE, byte_level: bool) -> Option<usize> {
    let affix = |affix: &Option<String>| affix.as_ref().is_some_and(|affix| !affix.is_empty());
    if affix(&bpe.continuing_subword_prefix) || affix(&bpe.end_of_word_suffix) {
        return None;
    }
    let has = |token: String| bpe.token_to_id(&token).is_some();
    let spells_all = match byte_level {
        true => ByteLevel::alphabet().into_iter().all(|letter| has(letter.to_string())),
        false => bpe.byte_fallback && (0..=255u8).all(|byte| has(format!("<{byte:#04X}>"))),
    };
    let size = |token: &String| if byte_level { token.chars().count() } else { token.len() };
    spells_all.then(|| bpe.get_vocab().keys().map(size).max())?
}

/// None: one of them absorbs the white space beside it.
fn longest_added(tokenizer: &Tokenizer) -> Option<usize> {
    let mut longest = 1;
    for token in tokenizer.get_added_vocabulary().get_added_tokens_decoder().values() {
        if token.lstrip || token.rstrip {
            return None;
        }
        let mut content = NormalizedString::from(token.content.as_str());
        if let Some(normalizer) = tokenizer.get_normalizer() {
            normalizer.normalize(&mut content).ok()?;
        }
        longest = longest.max(token.content.len()).max(content.get().len());
    }
    Some(longest)
}
