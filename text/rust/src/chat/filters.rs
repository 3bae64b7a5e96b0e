// SPDX-License-Identifier: Apache-2.0
//! Filters and tests that differ from minijinja's own: `tojson` as transformers defines it, and Jinja2's.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{AutoEscape, Error, ErrorKind, Output, State};

use super::arguments::{bind_split, charge, check_bytes, integer, refuse};
use super::{html, is_python_space, json, marks, printf, python_text};

/// Serialising walks the whole value, which costs more than copying bytes.
const BYTES_PER_FUEL: usize = 4;

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)` over `json.dumps`; no HTML escapes.
pub(super) fn tojson(state: &State, value: &Value, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let given = |value: Option<Value>| value.filter(|value| !value.is_none() && !value.is_undefined());
    let [ensure_ascii, indent, separators, sort_keys] = bind_split(names, &args, &options)?.map(given);
    let ensure_ascii = ensure_ascii.is_some_and(|value| value.is_true());
    let indent = match indent {
        Some(text) if text.as_str().is_some() => text.as_str().map(str::to_string),
        Some(count) => Some(" ".repeat(count.as_i64().unwrap_or(0).clamp(0, 64) as usize)),
        None => None,
    };
    let sort_keys = sort_keys.is_some_and(|value| value.is_true());
    let (item, key) = match &separators {
        Some(pair) => (pair.get_item_by_index(0)?, pair.get_item_by_index(1)?),
        None => (Value::from(if indent.is_some() { "," } else { ", " }), Value::from(": ")),
    };
    let style = json::Style {
        ensure_ascii,
        indent,
        item_separator: item.as_str().unwrap_or(", "),
        key_separator: key.as_str().unwrap_or(": "),
        sort_keys,
        unescaped: marks::of_state(state),
    };
    let text = json::dumps(value, &style)?;
    state.consume_fuel((text.len() / BYTES_PER_FUEL) as u64)?;
    Ok(text)
}

/// `str.strip`, after making a text of the value as Jinja2 does.
pub(super) fn trim(value: &Value, chars: Option<String>) -> String {
    let text = python_text::str_of(value);
    match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_string(),
        None => text.trim_matches(is_python_space).to_string(),
    }
}

/// `str()` of Python.
pub(super) fn string(value: &Value) -> Value {
    if value.kind() == ValueKind::String {
        return value.clone();
    }
    Value::from(python_text::str_of(value))
}

/// `abs(x)`: a boolean is a number.
pub(super) fn abs(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        _ => minijinja::filters::abs(value),
    }
}

/// `int(default=0, base=10)`: of a number, or of a text that spells one.
pub(super) fn int(value: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [default, base] = bind_split(["default", "base"], &args, &named)?;
    let base = integer(&base, 10)?;
    let exact = value.as_str().and_then(|text| spelled(text, base));
    let found = match (exact, number_of(value)?) {
        _ if value.is_integer() => Some(value.clone()),
        (Some(exact), _) => Some(Value::from(exact)),
        (None, Some(float)) if float.is_finite() => Some(Value::from(float.trunc() as i128)),
        _ => None,
    };
    Ok(found.or(default).unwrap_or_else(|| Value::from(0)))
}

/// `int(text, base)` of Python: with a sign, a prefix of the base, and underscores between digits.
fn spelled(text: &str, base: i64) -> Option<i128> {
    let text = text.trim_matches(is_python_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefixes = [(16, "0x"), (16, "0X"), (8, "0o"), (8, "0O"), (2, "0b"), (2, "0B")];
    let found = prefixes.iter().find(|(of, prefix)| (base == *of || base == 0) && digits.starts_with(prefix));
    let (base, digits) = found.map_or((base, digits), |(of, prefix)| (*of, &digits[prefix.len()..]));
    let base = u32::try_from(if base == 0 { 10 } else { base }).ok().filter(|base| (2..=36).contains(base))?;
    let is_misplaced = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if is_misplaced || digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// `float(default=0.0)`.
pub(super) fn float(value: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [default] = bind_split(["default"], &args, &named)?;
    Ok(number_of(value)?.map(Value::from).or(default).unwrap_or_else(|| Value::from(0.0)))
}

fn number_of(value: &Value) -> Result<Option<f64>, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::String => Ok(value.as_str().and_then(|text| text.trim().replace('_', "").parse().ok())),
        ValueKind::Bool | ValueKind::Number => printf::number(value).map(Some),
        _ => Ok(None),
    }
}

/// `join(d='', attribute=None)`.
pub(super) fn join(state: &mut State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    if value.is_none() {
        return Err(refuse("'NoneType' object is not iterable"));
    }
    let [separator, attribute] = bind_split(["d", "attribute"], &args, &named)?;
    let mut out = String::new();
    let separator = separator.map_or_else(String::new, |separator| python_text::str_of(&separator));
    for (at, item) in value.try_iter()?.enumerate() {
        let item = match &attribute {
            Some(path) => attribute_of(&item, &python_text::str_of(path))?,
            None => item,
        };
        let text = python_text::str_of(&item);
        charge(state, text.len() + separator.len())?;
        check_bytes(out.len() + text.len() + separator.len())?;
        out.push_str(if at > 0 { &separator } else { "" });
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

/// By a path whose steps are names and places.
pub(super) fn attribute_of(item: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(item.clone(), |value, step| match step.parse::<usize>() {
        Ok(at) => value.get_item_by_index(at),
        Err(_) => value.get_attr(step),
    })
}

/// What `{{ value }}` writes.
pub(super) fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let is_escaped = matches!(state.auto_escape(), AutoEscape::Html) && !value.is_safe();
    match value.as_str().filter(|_| value.kind() == ValueKind::String) {
        Some(text) if !is_escaped => out.write_str(text)?,
        _ if is_escaped => out.write_str(&html::escaped(&python_text::str_of(value)))?,
        _ => out.write_str(&python_text::str_of(value))?,
    }
    Ok(())
}
