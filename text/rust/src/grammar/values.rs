// SPDX-License-Identifier: Apache-2.0
//! JSON values of a schema: parsing, numbers and counts within bounds.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Integers up to here are exact in every JSON reader.
const MAX_NUMBER: f64 = 9_007_199_254_740_991.0;

/// The schema's JSON.
pub(super) fn parse(text: &str) -> Result<Value> {
    super::check_bytes(text)?;
    serde_json::from_str(text).map_err(|error| match error.to_string() {
        message if message.contains("recursion limit") => Error::exhausted("nests deeper than 128 values"),
        _ => Error::invalid(format!("is not JSON, at line {} column {}", error.line(), error.column())),
    })
}

/// Refuses numbers that not every reader takes for the same value.
pub(super) fn check_literal(value: &Value, path: &str) -> Result<()> {
    match value {
        Value::Number(_) => number(value, "const", path).map(|_| ()),
        Value::Array(items) => items.iter().try_for_each(|item| check_literal(item, path)),
        Value::Object(fields) => fields.values().try_for_each(|field| check_literal(field, path)),
        _ => Ok(()),
    }
}

pub(super) fn number(value: &Value, keyword: &str, path: &str) -> Result<f64> {
    let number = value.as_f64().ok_or_else(|| malformed(keyword, path, "a number"))?;
    if number.abs() > MAX_NUMBER {
        return Err(Error::unsupported(format!("has {keyword} {value} at {path}; limit is +-{MAX_NUMBER}")));
    }
    Ok(number)
}

/// A number of items, properties or characters; none: not stated.
pub(super) fn count(map: &Map<String, Value>, keyword: &str, limit: u64, path: &str) -> Result<Option<u64>> {
    let Some(value) = map.get(keyword) else { return Ok(None) };
    let count = value.as_u64().ok_or_else(|| malformed(keyword, path, "an integer of 0 or more"))?;
    if count > limit {
        return Err(Error::exhausted(format!("has {keyword} {count} at {path}; limit is {limit}")));
    }
    Ok(Some(count))
}

pub(super) fn array<'a>(value: &'a Value, keyword: &str, path: &str) -> Result<&'a Vec<Value>> {
    value.as_array().ok_or_else(|| malformed(keyword, path, "a list"))
}

pub(super) fn object<'a>(value: &'a Value, keyword: &str, path: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| malformed(keyword, path, "an object"))
}

pub(super) fn string<'a>(value: &'a Value, keyword: &str, path: &str) -> Result<&'a str> {
    value.as_str().ok_or_else(|| malformed(keyword, path, "a string"))
}

pub(super) fn malformed(keyword: &str, path: &str, expected: &str) -> Error {
    Error::invalid(format!("has \"{keyword}\" at {path}, which is not {expected}"))
}

pub(super) fn unsupported(keyword: &str, path: &str, why: &str) -> Error {
    Error::unsupported(format!("has \"{keyword}\" at {path}, {why}"))
}
