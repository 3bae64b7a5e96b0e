// SPDX-License-Identifier: Apache-2.0
//! Refuses a schema that only endless texts match: every value would need another one inside it.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// `schemas`: as schema.rs makes them, so that `#/$defs/dN` names schemas[N].
pub(super) fn check(schemas: &[Value]) -> Result<()> {
    let mut finite = vec![false; schemas.len()];
    loop {
        let before = finite.clone();
        for (id, schema) in schemas.iter().enumerate() {
            finite[id] = finite[id] || is_finite(schema, &before);
        }
        if finite == before {
            break;
        }
    }
    match finite[0] {
        true => Ok(()),
        false => Err(Error::invalid("matches nothing: each value that it allows would need another one inside")),
    }
}

/// Whether some finite value may match, given which schemas are known to have one. Errs towards true.
fn is_finite(schema: &Value, known: &[bool]) -> bool {
    let Value::Object(map) = schema else { return schema != &Value::Bool(false) };
    let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
    let any = |keyword: &str| list(keyword).is_none_or(|all| all.iter().any(|one| is_finite(one, known)));
    let reference = map.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/d"));
    let reference = reference.and_then(|id| id.parse::<usize>().ok());
    reference.is_none_or(|id| known[id])
        && any("anyOf")
        && any("oneOf")
        && list("allOf").is_none_or(|all| all.iter().all(|one| is_finite(one, known)))
        && (others_than(map) || object(map, known) || array(map, known))
}

/// A type that has no values inside.
fn others_than(map: &Map<String, Value>) -> bool {
    let is_simple = |value: &Value| value != "object" && value != "array";
    match map.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(is_simple),
        Some(one) => is_simple(one),
    }
}

fn has_type(map: &Map<String, Value>, name: &str) -> bool {
    match &map["type"] {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    }
}

fn object(map: &Map<String, Value>, known: &[bool]) -> bool {
    let property = |name: &Value| map.get("properties").and_then(|all| all.get(name.as_str().unwrap_or_default()));
    let required = map.get("required").and_then(Value::as_array);
    has_type(map, "object")
        && required.is_none_or(|names| names.iter().all(|name| property(name).is_none_or(|one| is_finite(one, known))))
}

fn array(map: &Map<String, Value>, known: &[bool]) -> bool {
    let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
    let prefix = map.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    has_type(map, "array")
        && prefix.iter().take(least).all(|one| is_finite(one, known))
        && (least <= prefix.len() || map.get("items").is_none_or(|items| is_finite(items, known)))
}
