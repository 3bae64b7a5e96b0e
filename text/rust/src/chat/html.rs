// SPDX-License-Identifier: Apache-2.0
//! Jinja2's filters of HTML and of addresses.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{bind_split, charge, flag, refuse};
use super::python_text;

/// `escape(s)`, as markupsafe writes it; what is escaped stays as it is.
pub(super) fn escape(state: &State, value: &Value) -> Result<Value, Error> {
    match value.is_safe() {
        true => Ok(value.clone()),
        false => force_escape(state, value),
    }
}

/// `forceescape(value)`.
pub(super) fn force_escape(state: &State, value: &Value) -> Result<Value, Error> {
    let text = escaped(&python_text::str_of(value));
    charge(state, text.len())?;
    Ok(Value::from_safe_string(text))
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `striptags(value)`: without comments, tags and repeated white space; character references become characters.
pub(super) fn strip_tags(state: &State, value: &Value) -> Result<String, Error> {
    let text = python_text::str_of(value);
    charge(state, text.len())?;
    let text = without(&without(&text, "<!--", "-->"), "<", ">");
    let words: Vec<&str> = text.split(super::is_python_space).filter(|word| !word.is_empty()).collect();
    Ok(unescaped(&words.join(" ")))
}

/// Without what stands between `open` and the next `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(open) {
        let Some((_, after)) = inside.split_once(close) else { break };
        out.push_str(before);
        rest = after;
    }
    out + rest
}

/// References of XML, and those by number.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest[1..].split_once(';').map(|(name, _)| name).filter(|name| name.len() <= 8);
        match name.and_then(|name| Some((name, reference(name)?))) {
            Some((name, c)) => {
                out.push(c);
                rest = &rest[name.len() + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn reference(name: &str) -> Option<char> {
    let number = name.strip_prefix('#');
    let hex = number.and_then(|number| number.strip_prefix(['x', 'X']));
    match (number, hex) {
        (_, Some(hex)) => char::from_u32(u32::from_str_radix(hex, 16).ok()?),
        (Some(number), None) => char::from_u32(number.parse().ok()?),
        _ => [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", '\u{A0}')]
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, c)| *c),
    }
}

/// `urlencode(value)`: a text, or a query of pairs.
pub(super) fn url_encode(state: &State, value: &Value) -> Result<String, Error> {
    let is_pairs = matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable);
    let text = match is_pairs {
        false => quoted(&python_text::str_of(value), "/", "%20"),
        true => {
            let pairs = pairs_of(value)?;
            let part = |value: &Value| quoted(&python_text::str_of(value), "", "+");
            pairs.iter().map(|(key, value)| format!("{}={}", part(key), part(value))).collect::<Vec<_>>().join("&")
        }
    };
    charge(state, text.len())?;
    Ok(text)
}

fn pairs_of(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    let pair = |item: Value| match value.kind() {
        ValueKind::Map => Ok((item.clone(), value.get_item(&item)?)),
        _ => Ok((item.get_item_by_index(0)?, item.get_item_by_index(1)?)),
    };
    value.try_iter()?.map(pair).collect()
}

fn quoted(text: &str, safe: &str, blank: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "_.-~".contains(c) || safe.contains(c) => out.push(c),
            ' ' => out.push_str(blank),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `xmlattr(d, autospace=True)`.
pub(super) fn xml_attributes(state: &State, map: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [space] = bind_split(["autospace"], &args, &named)?;
    if map.kind() != ValueKind::Map {
        return Err(refuse("xmlattr: not a mapping"));
    }
    let mut attributes = vec![];
    for (key, value) in pairs_of(map)? {
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let key = python_text::str_of(&key);
        if key.contains(|c: char| c.is_whitespace() || "/>=".contains(c)) {
            return Err(refuse("xmlattr: an invalid character in an attribute's name"));
        }
        attributes.push(format!("{}=\"{}\"", escaped(&key), escaped(&python_text::str_of(&value))));
    }
    let text = attributes.join(" ");
    charge(state, text.len())?;
    let lead = if flag(&space, true) && !text.is_empty() { " " } else { "" };
    Ok(Value::from_safe_string(format!("{lead}{text}")))
}
