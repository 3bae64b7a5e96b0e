// SPDX-License-Identifier: Apache-2.0
//! `pprint` of Jinja2: `pprint.pformat` of Python, with keys in order, one item a line where 80 columns are too few.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::charge;
use super::python_text;

const WIDTH: usize = 80;
const MAX_DEPTH: usize = 64;

/// `pprint(value)`.
pub(super) fn filter(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write(&sorted(value, 0), 0, 0, 0, &mut out);
    charge(state, out.len())?;
    Ok(out)
}

/// With the keys of mappings in order.
fn sorted(value: &Value, depth: usize) -> Value {
    let items = || value.try_iter().map(Iterator::collect::<Vec<Value>>).unwrap_or_default();
    match value.kind() {
        _ if depth > MAX_DEPTH => value.clone(),
        ValueKind::Map => {
            let mut keys = items();
            keys.sort();
            let item = |key: &Value| sorted(&value.get_item(key).unwrap_or_default(), depth + 1);
            Value::from_pairs(keys.iter().map(|key| (key.clone(), item(key))))
        }
        ValueKind::Seq if !value.is_tuple() => items().iter().map(|item| sorted(item, depth + 1)).collect(),
        _ => value.clone(),
    }
}

/// `indent`: columns before the value; `after`: those that follow it on its last line.
fn write(value: &Value, indent: usize, after: usize, depth: usize, out: &mut String) {
    let flat = python_text::repr_of(value);
    let is_list = value.kind() == ValueKind::Seq && !value.is_tuple();
    let fits = indent + flat.chars().count() + after <= WIDTH;
    if fits || depth > MAX_DEPTH || !(is_list || value.kind() == ValueKind::Map) || value.len() == Some(0) {
        out.push_str(&flat);
        return;
    }
    let items: Vec<Value> = value.try_iter().map(Iterator::collect).unwrap_or_default();
    out.push(if is_list { '[' } else { '{' });
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(",\n");
            out.push_str(&" ".repeat(indent + 1));
        }
        let after = if at + 1 == items.len() { after + 1 } else { 1 };
        if is_list {
            write(item, indent + 1, after, depth + 1, out);
        } else {
            let key = python_text::repr_of(item) + ": ";
            let column = indent + 1 + key.chars().count();
            out.push_str(&key);
            write(&value.get_item(item).unwrap_or_default(), column, after, depth + 1, out);
        }
    }
    out.push(if is_list { ']' } else { '}' });
}
