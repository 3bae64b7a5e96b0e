// SPDX-License-Identifier: Apache-2.0
//! The state of each stage between tokens, and its output. The functions mirror the library's decoders of the same
//! names; tests/text_tests/decode_stream.rs compares them on random ids.

use super::plan::{decode_one, Plan, StageKind};
use super::{byte_level, utf8};
use crate::error::Result;

/// State of one stage of one stream. The default is the start of a text.
#[derive(Default)]
pub(super) struct StageState {
    /// Held bytes: an open run of byte tokens, or an unfinished character.
    bytes: Vec<u8>,
    /// Whether a token has passed, or stripping of leading characters is complete.
    started: bool,
    /// Leading characters stripped so far.
    stripped: usize,
}

/// The value of a byte token, `<0x00>` to `<0xFF>`.
pub(super) fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Passes one token through `states[at..]` and appends the output to `text`.
pub(super) fn pass(plan: &Plan, states: &mut [StageState], at: usize, token: String, text: &mut String) -> Result<()> {
    let Some(stage) = plan.stages.get(at) else {
        text.push_str(&token);
        return Ok(());
    };
    let state = &mut states[at];
    let first = !std::mem::replace(&mut state.started, true);
    let token = match stage {
        StageKind::EachToken(decoder) => decode_one(decoder, vec![token])?,
        StageKind::FirstDiffers(decoder) if first => decode_one(decoder, vec![token])?,
        StageKind::FirstDiffers(decoder) => decode_one(decoder, vec![String::new(), token])?,
        StageKind::JoinWithSpace if first => token,
        StageKind::JoinWithSpace => format!(" {token}"),
        StageKind::ByteFallback => match byte_of(&token) {
            Some(byte) => {
                state.bytes.push(byte);
                return Ok(());
            }
            None => {
                close_run(plan, states, at, text)?;
                token
            }
        },
        StageKind::ByteLevel => {
            state.bytes.extend(byte_level::token_bytes(&token));
            utf8::take_certain(&mut state.bytes)
        }
        StageKind::StripStart { content, max } => {
            state.started = !first; // decided by strip_start, not by the passing token
            strip_start(state, *content, *max, token)
        }
    };
    pass(plan, states, at + 1, token, text)
}

/// Ends the text: every stage, from the first to the last, returns what it holds.
pub(super) fn finish(plan: &Plan, states: &mut [StageState], text: &mut String) -> Result<()> {
    for at in 0..plan.stages.len() {
        match plan.stages[at] {
            StageKind::ByteFallback => close_run(plan, states, at, text)?,
            StageKind::ByteLevel => {
                let rest = String::from_utf8_lossy(&std::mem::take(&mut states[at].bytes)).into_owned();
                pass(plan, states, at + 1, rest, text)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ends the context: its text is dropped, an unfinished character is kept.
pub(super) fn end_context(plan: &Plan, states: &mut [StageState]) -> Result<()> {
    let mut unseen = String::new();
    for at in 0..plan.stages.len() {
        if matches!(plan.stages[at], StageKind::ByteFallback) {
            let unfinished = utf8::unfinished_tail(&states[at].bytes).to_vec();
            close_run(plan, states, at, &mut unseen)?;
            states[at].bytes = unfinished;
        }
    }
    Ok(())
}

/// A run of byte tokens is valid text as a whole, or becomes one U+FFFD per byte, as in the library.
fn close_run(plan: &Plan, states: &mut [StageState], at: usize, text: &mut String) -> Result<()> {
    let run = std::mem::take(&mut states[at].bytes);
    if run.is_empty() {
        return Ok(());
    }
    match String::from_utf8(run) {
        Ok(characters) => pass(plan, states, at + 1, characters, text),
        Err(broken) => broken
            .as_bytes()
            .iter()
            .try_for_each(|_| pass(plan, states, at + 1, char::REPLACEMENT_CHARACTER.to_string(), text)),
    }
}

fn strip_start(state: &mut StageState, content: char, max: usize, token: String) -> String {
    let mut rest = token.as_str();
    while !state.started && !rest.is_empty() {
        match rest.strip_prefix(content) {
            Some(tail) if state.stripped < max => {
                state.stripped += 1;
                rest = tail;
            }
            _ => state.started = true,
        }
    }
    rest.to_string()
}
