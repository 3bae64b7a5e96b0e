// SPDX-License-Identifier: Apache-2.0
//! `json.dumps` of Python over template values: its separators, indentation, escapes and number formats.

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::generators::Generator;
use super::jinja_tests::is_namespace;
use super::python_float;
use super::ranges::Range;
use super::views::View;

/// The arguments of `json.dumps`.
pub(super) struct Style<'a> {
    pub ensure_ascii: bool,
    /// One step of indentation; none: everything in one line.
    pub indent: Option<String>,
    pub item_separator: &'a str,
    pub key_separator: &'a str,
    pub sort_keys: bool,
    /// A character that is never escaped: the mark of the client's special tokens.
    pub unescaped: Option<char>,
}

const MAX_DEPTH: usize = 128;

/// Errors: a value that has no JSON form.
pub(super) fn dumps(value: &Value, style: &Style) -> Result<String, Error> {
    let mut out = String::new();
    write_value(value, style, 0, &mut out)?;
    Ok(out)
}

fn write_value(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::BadSerialization, format!("nested deeper than {MAX_DEPTH}")));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Map if is_namespace(value) => return Err(no_form("a namespace")),
        ValueKind::Iterable if value.downcast_object_ref::<View>().is_some() => {
            return Err(no_form("a view of a mapping"))
        }
        ValueKind::Iterable if value.downcast_object_ref::<Generator>().is_some() => {
            return Err(no_form("a generator"))
        }
        ValueKind::Seq if value.downcast_object_ref::<Range>().is_some() => return Err(no_form("a range")),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_list('[', ']', &items, style, depth, out, |item, out| write_value(item, style, depth + 1, out))?;
        }
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                let item = value.get_item(&key)?;
                entries.push((key_text(&key)?, item));
            }
            if style.sort_keys {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
            }
            write_list('{', '}', &entries, style, depth, out, |(key, item), out| {
                write_string(key, style, out);
                out.push_str(style.key_separator);
                write_value(item, style, depth + 1, out)
            })?;
        }
        kind => {
            return Err(no_form(kind));
        }
    }
    Ok(())
}

fn no_form(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadSerialization, format!("tojson: {what} has no JSON form"))
}

fn write_list<T>(
    open: char,
    close: char,
    items: &[T],
    style: &Style,
    depth: usize,
    out: &mut String,
    write: impl Fn(&T, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(open);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(style.item_separator);
        }
        new_line(style, depth + 1, out);
        write(item, out)?;
    }
    if !items.is_empty() {
        new_line(style, depth, out);
    }
    out.push(close);
    Ok(())
}

fn new_line(style: &Style, depth: usize, out: &mut String) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent.as_str(), depth));
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let float = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    python_float::repr(float, "NaN", "Infinity")
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_string()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_string()),
        ValueKind::None => Ok("null".to_string()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(Error::new(ErrorKind::BadSerialization, format!("tojson: a key is {kind}"))),
    }
}

fn write_string(text: &str, style: &Style, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if c < ' ' => escape(c, out),
            // json.dumps escapes DEL in neither mode
            c if style.ensure_ascii && !c.is_ascii() && style.unescaped != Some(c) => escape(c, out),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn escape(c: char, out: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        // Writing to a String does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}
