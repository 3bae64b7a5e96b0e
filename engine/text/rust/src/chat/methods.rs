// SPDX-License-Identifier: Apache-2.0
//! Methods of Python's str, dict and list in templates: those that minijinja-contrib lacks or has with other white
//! space, then its own.

use minijinja::value::{from_args, Tuple, Value};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::is_python_space;

const BYTES_PER_STEP: usize = 64;

pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.as_str() {
        Some(text) => {
            // A method looks at all of its text, which the engine does not count.
            state.consume_fuel((text.len() / BYTES_PER_STEP) as u64)?;
            text_method(text, method, args)?
        }
        None => None,
    };
    match own {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args),
    }
}

fn text_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" if args.is_empty() => Value::from(text.trim_matches(is_python_space)),
        "lstrip" if args.is_empty() => Value::from(text.trim_start_matches(is_python_space)),
        "rstrip" if args.is_empty() => Value::from(text.trim_end_matches(is_python_space)),
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            Value::from(lines(text, keep_ends.unwrap_or(false)))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.split_once(non_empty(separator)?).unwrap_or((text, ""));
            let found = if before.len() == text.len() { "" } else { separator };
            triple(before, found, after)
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            match text.rsplit_once(non_empty(separator)?) {
                Some((before, after)) => triple(before, separator, after),
                None => triple("", "", text),
            }
        }
        "rsplit" => {
            let (separator, limit): (&str, Option<usize>) = from_args(args)?;
            let limit = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(limit, non_empty(separator)?).map(Value::from).collect();
            parts.reverse();
            Value::from(parts)
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text.find(part).ok_or_else(|| refuse("substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// `str.splitlines`: more than line feeds end a line.
fn lines(text: &str, keep_ends: bool) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(ends_line).unwrap_or(rest.len());
        let ending =
            if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(0, char::len_utf8) };
        lines.push(Value::from(&rest[..if keep_ends { at + ending } else { at }]));
        rest = &rest[at + ending..];
    }
    lines
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn non_empty(separator: &str) -> Result<&str, Error> {
    if separator.is_empty() {
        return Err(refuse("empty separator"));
    }
    Ok(separator)
}

fn triple(before: &str, separator: &str, after: &str) -> Value {
    Value::from(Tuple::from([before, separator, after].map(Value::from)))
}

fn refuse(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
