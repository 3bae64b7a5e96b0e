// SPDX-License-Identifier: Apache-2.0
//! Filters and tests that differ from minijinja's own: `tojson` as transformers defines it, and Jinja2's.

use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};

use super::{is_python_space, json, marks, python_text};

/// Serialising walks the whole value, which costs more than copying bytes.
const BYTES_PER_FUEL: usize = 4;

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)` over `json.dumps`; no HTML escapes.
pub(super) fn tojson(state: &State, value: &Value, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    let argument = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = options.get(name)?;
        Ok(args.get(at).cloned().or(named).filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent = match argument(1, "indent")? {
        Some(text) if text.as_str().is_some() => text.as_str().map(str::to_string),
        Some(count) => Some(" ".repeat(count.as_i64().unwrap_or(0).clamp(0, 64) as usize)),
        None => None,
    };
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|value| value.is_true());
    options.assert_all_used()?;
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

/// Pairs of a mapping; none of an undefined value.
pub(super) fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if value.kind() != ValueKind::Map {
        return Err(Error::new(ErrorKind::InvalidOperation, "can only get item pairs from a mapping"));
    }
    let mut pairs = Vec::new();
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        pairs.push(Value::from(Tuple::from([key, item])));
    }
    Ok(Value::from(pairs))
}

/// `str()` of Python.
pub(super) fn string(value: &Value) -> Value {
    if value.as_str().is_some() {
        return value.clone();
    }
    Value::from(python_text::str_of(value))
}

/// `int(default=0)`: of a number, or of a text that spells one.
pub(super) fn int(value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let named: Option<Value> = options.get("default")?;
    options.assert_all_used()?;
    let text = value.as_str().map(str::trim);
    let exact = text.and_then(|text| text.parse::<i64>().ok());
    let found = match (exact, number_of(value)) {
        _ if value.is_integer() => Some(value.clone()),
        (Some(exact), _) => Some(Value::from(exact)),
        (None, Some(float)) if float.is_finite() => Some(Value::from(float.trunc() as i128)),
        _ => None,
    };
    Ok(found.or(default).or(named).unwrap_or_else(|| Value::from(0)))
}

/// `float(default=0.0)`.
pub(super) fn float(value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let named: Option<Value> = options.get("default")?;
    options.assert_all_used()?;
    Ok(number_of(value).map(Value::from).or(default).or(named).unwrap_or_else(|| Value::from(0.0)))
}

fn number_of(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::String => value.as_str()?.trim().parse().ok(),
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// What `{{ value }}` writes.
pub(super) fn write(out: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => out.write_str(&python_text::str_of(value))?,
    }
    Ok(())
}

/// Jinja2 asks for a length and items by index: texts and mappings have both.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}
