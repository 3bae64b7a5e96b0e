// SPDX-License-Identifier: Apache-2.0
//! `str()` and `repr()` of Python: how Jinja2 writes values that are no texts.

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};

use super::jinja_tests::is_namespace;
use super::python_float;
use super::ranges::Range;

const MAX_DEPTH: usize = 128;

/// `str(value)`; nothing for an undefined value.
pub(super) fn str_of(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or_default().to_string(),
        _ => repr_of(value),
    }
}

/// `repr(value)`.
pub(super) fn repr_of(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, 0, &mut out);
    out
}

/// `str.splitlines`: more than line feeds end a line.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(ends_line).unwrap_or(rest.len());
        let ending =
            if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(0, char::len_utf8) };
        lines.push(&rest[..if keep_ends { at + ending } else { at }]);
        rest = &rest[at + ending..];
    }
    lines
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn write_repr(value: &Value, depth: usize, out: &mut String) {
    match value.kind() {
        _ if depth > MAX_DEPTH => out.push_str("..."),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String if value.is_safe() => {
            out.push_str("Markup(");
            write_text(value.as_str().unwrap_or_default(), out);
            out.push(')');
        }
        ValueKind::String => write_text(value.as_str().unwrap_or_default(), out),
        ValueKind::Number if !value.is_integer() => {
            let float = f64::try_from(value.clone()).unwrap_or(f64::NAN);
            out.push_str(&python_float::repr(float, "nan", "inf"));
        }
        ValueKind::Seq if value.downcast_object_ref::<Range>().is_some() => out.push_str(&value.to_string()),
        ValueKind::Bytes => write_bytes(value.as_bytes().unwrap_or_default(), out),
        ValueKind::Seq => {
            let (items, is_tuple) = items_of(value);
            let (open, close) = if is_tuple { ('(', ')') } else { ('[', ']') };
            out.push(open);
            write_items(&items, out, |item, out| write_repr(item, depth + 1, out));
            if is_tuple && items.len() == 1 {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter().map(Iterator::collect).unwrap_or_default();
            let is_namespace = is_namespace(value);
            out.push_str(if is_namespace { "<Namespace {" } else { "{" });
            write_items(&keys, out, |key, out| {
                write_repr(key, depth + 1, out);
                out.push_str(": ");
                write_repr(&value.get_item(key).unwrap_or_default(), depth + 1, out);
            });
            out.push_str(if is_namespace { "}>" } else { "}" });
        }
        // None, booleans, integers; and objects that Python has no literal for.
        _ => out.push_str(&value.to_string()),
    }
}

/// And whether it is a tuple: a group of `groupby` is one, of what it has in common and its list.
fn items_of(value: &Value) -> (Vec<Value>, bool) {
    let items = |value: &Value| -> Vec<Value> { value.try_iter().map(Iterator::collect).unwrap_or_default() };
    match value.get_attr("grouper") {
        Ok(common) if !common.is_undefined() => {
            let list = value.get_attr("list").unwrap_or_default();
            (vec![common, Value::from(items(&list))], true)
        }
        _ => (items(value), value.is_tuple()),
    }
}

fn write_bytes(bytes: &[u8], out: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.push('b');
    out.push(quote);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = match char::from(*byte) {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\\' => out.write_str("\\\\"),
            c if c == quote => write!(out, "\\{c}"),
            c @ ' '..='~' => out.write_char(c),
            _ => write!(out, "\\x{byte:02x}"),
        };
    }
    out.push(quote);
}

fn write_items(items: &[Value], out: &mut String, write: impl Fn(&Value, &mut String)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
}

fn write_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match c {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\\' => out.write_str("\\\\"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => out.write_char(c),
            c if (c as u32) < 0x100 => write!(out, "\\x{:02x}", c as u32),
            c if (c as u32) < 0x10000 => write!(out, "\\u{:04x}", c as u32),
            c => write!(out, "\\U{:08x}", c as u32),
        };
    }
    out.push(quote);
}

/// Control and format characters and spaces other than the ASCII one are not; private-use characters are, because the
/// marks of special tokens have to pass.
pub(super) fn is_printable(c: char) -> bool {
    let is_format = matches!(c, '\u{AD}' | '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{E0001}'..='\u{E007F}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_format)
}
