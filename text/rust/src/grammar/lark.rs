// SPDX-License-Identifier: Apache-2.0
//! What a client's Lark may not have: parts of llguidance's dialect that leave the text (special tokens, other grammars,
//! tokens that are hidden or counted) or that would pass a JSON Schema by the checks of schema.rs.

use crate::error::{Error, Result};
use crate::limits::{
    MAX_GRAMMAR_DEPTH, MAX_GRAMMAR_PARTS, MAX_GRAMMAR_TERMINALS, MAX_INTERSECTED_PATTERNS, MAX_REGEX_BYTES,
};

const REFUSED_WORDS: [(&str, &str); 5] = [
    ("%json", "%json; a schema goes into json_schema"),
    ("%llguidance", "%llguidance"),
    ("%regex", "%regex"),
    ("%lark", "%lark"),
    ("@", "a reference to another grammar"),
];
const ATTRIBUTES: [&str; 6] = ["stop", "stop_capture", "suffix", "max_tokens", "temperature", "capture"];

/// Refuses what is not supported by name, and bounds what the compiler descends into.
pub(super) fn check(source: &str) -> Result<()> {
    check_as(source, true)
}

/// Of a grammar of the server's own: the bounds only.
pub(super) fn check_bounds(source: &str) -> Result<()> {
    check_as(source, false)
}

fn check_as(source: &str, of_client: bool) -> Result<()> {
    let bytes = source.as_bytes();
    let (mut at, mut depth, mut parts, mut terminals, mut intersections) = (0, 0usize, 0usize, 0usize, 0usize);
    while at < bytes.len() {
        let rest = &source[at..];
        if let Some((_, what)) = REFUSED_WORDS.iter().find(|(word, _)| of_client && rest.starts_with(word)) {
            return Err(refused(source, at, what));
        }
        match bytes[at] {
            b'"' => {
                at = string_end(source, at, b'"');
                terminals += 1;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = line_end(bytes, at),
            b'/' => {
                let end = string_end(source, at, b'/');
                if end - at > MAX_REGEX_BYTES {
                    return Err(refused(source, at, &format!("a regular expression of {} bytes", end - at)));
                }
                at = end;
                terminals += 1;
            }
            b'#' => at = line_end(bytes, at),
            b'<' if of_client => return Err(refused(source, at, "a special token")),
            b'(' | b'[' | b'{' => {
                depth += 1;
                parts += 1;
                if let Some(name) = attribute(source, at).filter(|_| of_client) {
                    return Err(refused(source, at, &format!("the attribute \"{name}\"")));
                }
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' => parts += 1,
            b'&' => intersections += 1,
            _ => {}
        }
        if depth > MAX_GRAMMAR_DEPTH {
            return Err(Error::exhausted(format!("nests deeper than {MAX_GRAMMAR_DEPTH} groups")));
        }
        if parts > MAX_GRAMMAR_PARTS {
            return Err(Error::exhausted(format!("has more than {MAX_GRAMMAR_PARTS} rules and groups")));
        }
        if intersections > MAX_INTERSECTED_PATTERNS {
            return Err(Error::exhausted(format!("has more than {MAX_INTERSECTED_PATTERNS} operators &")));
        }
        if terminals > MAX_GRAMMAR_TERMINALS {
            return Err(Error::exhausted(format!("has more than {MAX_GRAMMAR_TERMINALS} strings and expressions")));
        }
        at += 1;
        while !source.is_char_boundary(at) {
            at += 1;
        }
    }
    Ok(())
}

fn refused(source: &str, at: usize, what: &str) -> Error {
    let line = source[..at].matches('\n').count() + 1;
    Error::unsupported(format!("has {what}, in line {line}"))
}

/// Index of the closing byte, or of the last one.
fn string_end(source: &str, start: usize, close: u8) -> usize {
    let bytes = source.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != close {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len() - 1)
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..].iter().position(|b| *b == b'\n').map_or(bytes.len() - 1, |size| start + size)
}

/// The attribute of a rule that a '[' behind a name begins with; none: it is an optional group, or harmless.
fn attribute(source: &str, at: usize) -> Option<&'static str> {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    if source.as_bytes()[at] != b'[' || !source.as_bytes()[..at].last().is_some_and(is_name) {
        return None;
    }
    let list = source[at + 1..].split(']').next().unwrap_or_default();
    let keys = list.split(',').map(|item| item.split('=').next().unwrap_or_default().trim());
    keys.filter_map(|key| ATTRIBUTES.into_iter().find(|name| *name == key)).next()
}
