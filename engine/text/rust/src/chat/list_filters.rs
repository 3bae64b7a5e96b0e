// SPDX-License-Identifier: Apache-2.0
//! Jinja2's filters of lists: minijinja's, with the arguments that Python's take by their places, and with Python's
//! refusals.

use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind};
use minijinja::{filters, Error, State};

use super::arguments::{bind_split, by_name, flag, refuse, required, size};

/// `sort(reverse=False, case_sensitive=False, attribute=None)`.
pub(super) fn sort(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let named = by_name(["reverse", "case_sensitive", "attribute"], &args, &named)?;
    if !named.has("attribute") {
        check_comparable(&value)?;
    }
    filters::sort(state, value, named)
}

/// `min(case_sensitive=False, attribute=None)`.
pub(super) fn min(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    extreme(filters::min, state, value, args, named)
}

/// `max(case_sensitive=False, attribute=None)`.
pub(super) fn max(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    extreme(filters::max, state, value, args, named)
}

fn extreme(
    find: fn(&State, Value, Kwargs) -> Result<Value, Error>,
    state: &State,
    value: Value,
    args: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let named = by_name(["case_sensitive", "attribute"], &args, &named)?;
    if !named.has("attribute") {
        check_comparable(&value)?;
    }
    find(state, value, named)
}

/// Python orders numbers, texts and lists, each among themselves.
fn check_comparable(list: &Value) -> Result<(), Error> {
    let class = |value: &Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool => Some(0),
        ValueKind::String => Some(1),
        ValueKind::Seq => Some(if value.is_tuple() { 2 } else { 3 }),
        _ => None,
    };
    let mut classes = list.try_iter()?.map(|item| class(&item));
    let first = classes.next();
    match classes.all(|class| class.is_some() && Some(class) == first) {
        true => Ok(()),
        false => Err(refuse("'<' not supported between items of these types")),
    }
}

/// `dictsort(case_sensitive=False, by='key', reverse=False)`.
pub(super) fn dict_sort(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let named = by_name(["case_sensitive", "by", "reverse"], &args, &named)?;
    let by: Option<&str> = named.peek("by")?;
    if !matches!(by, None | Some("key" | "value")) {
        return Err(refuse("dictsort: you can only sort by either \"key\" or \"value\""));
    }
    let length = value.len().unwrap_or(0) as u64;
    state.consume_fuel(length.saturating_mul(u64::from(64 - length.leading_zeros())))?;
    filters::dictsort(value, named)
}

/// `unique(case_sensitive=False, attribute=None)`.
pub(super) fn unique(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    filters::unique(state, value, by_name(["case_sensitive", "attribute"], &args, &named)?)
}

/// `slice(slices, fill_with=None)`.
pub(super) fn slice(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind_split(["slices", "fill_with"], &args, &named)?;
    filters::slice(state, value, size(&Some(required(count)?), 0)?, fill.filter(|fill| !fill.is_none()))
}

/// `batch(linecount, fill_with=None)`.
pub(super) fn batch(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind_split(["linecount", "fill_with"], &args, &named)?;
    filters::batch(state, value, size(&Some(required(count)?), 0)?, fill.filter(|fill| !fill.is_none()))
}

/// `list(value)`.
pub(super) fn list(state: &State, value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(refuse("'NoneType' object is not iterable"));
    }
    filters::list(state, value)
}

/// `default(value, default_value='', boolean=False)`.
pub(super) fn default(value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [default, boolean] = bind_split(["default_value", "boolean"], &args, &named)?;
    let is_absent = value.is_undefined() || (flag(&boolean, false) && !value.is_true());
    Ok(if is_absent { default.unwrap_or_else(|| Value::from("")) } else { value })
}

/// `groupby(attribute, default=None, case_sensitive=False)`: pairs that also have names.
pub(super) fn group_by(value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let named = by_name(["attribute", "default", "case_sensitive"], &args, &named)?;
    filters::groupby(value, None, named)
}

/// `attr(obj, name)`: an attribute, never an item; the values of templates have none.
pub(super) fn attribute(value: &Value, name: &str) -> Value {
    match value.kind() {
        ValueKind::Plain => value.get_attr(name).unwrap_or_default(),
        _ => Value::UNDEFINED,
    }
}

/// The pairs of a mapping; none of an undefined value.
pub(super) fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if value.kind() != ValueKind::Map {
        return Err(refuse("can only get item pairs from a mapping"));
    }
    let mut pairs = Vec::new();
    for key in value.try_iter()? {
        let item = value.get_item(&key)?;
        pairs.push(Value::from(Tuple::from([key, item])));
    }
    Ok(Value::from(pairs))
}
