// SPDX-License-Identifier: Apache-2.0
//! Jinja2's filters of lists: minijinja's, with the arguments that Python's take by their places, and with Python's
//! refusals.

use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind};
use minijinja::{filters as minijinja_filters, Error, State};

use super::arguments::{bind_split, by_name, charge_items, flag, refuse, required, size};
use super::{comparisons, filters, python_text};

/// `sort(reverse=False, case_sensitive=False, attribute=None)`.
pub(super) fn sort(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let named = by_name(["reverse", "case_sensitive", "attribute"], &args, &named)?;
    check_comparable(&value, named.peek("attribute")?, None)?;
    minijinja_filters::sort(state, value, named)
}

/// `min(case_sensitive=False, attribute=None)`.
pub(super) fn min(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    extreme(minijinja_filters::min, state, value, args, named)
}

/// `max(case_sensitive=False, attribute=None)`.
pub(super) fn max(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    extreme(minijinja_filters::max, state, value, args, named)
}

fn extreme(
    find: fn(&State, Value, Kwargs) -> Result<Value, Error>,
    state: &State,
    value: Value,
    args: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let named = by_name(["case_sensitive", "attribute"], &args, &named)?;
    check_comparable(&value, named.peek("attribute")?, None)?;
    find(state, value, named)
}

/// Refuses items, or attributes of them (paths, which commas part), that Python cannot order among themselves.
fn check_comparable(list: &Value, attributes: Option<Value>, default: Option<&Value>) -> Result<(), Error> {
    let attributes = attributes.filter(|attributes| !attributes.is_none()).map(|all| python_text::str_of(&all));
    let paths: Vec<Option<&str>> = attributes.as_ref().map_or(vec![None], |all| all.split(',').map(Some).collect());
    for path in paths {
        let key = |item: Value| {
            let key = path.map_or(Ok(item.clone()), |path| filters::attribute_of(&item, path));
            let key = key.unwrap_or_default();
            if key.is_undefined() {
                default.cloned().unwrap_or_default()
            } else {
                key
            }
        };
        let mut classes = list.try_iter()?.map(|item| comparisons::class(&key(item)));
        let first = classes.next();
        if !classes.all(|class| class.is_some() && Some(class) == first) {
            return Err(refuse("'<' not supported between items of these types"));
        }
    }
    Ok(())
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
    minijinja_filters::dictsort(value, named)
}

/// `unique(case_sensitive=False, attribute=None)`.
pub(super) fn unique(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    minijinja_filters::unique(state, value, by_name(["case_sensitive", "attribute"], &args, &named)?)
}

/// `slice(slices, fill_with=None)`.
pub(super) fn slice(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind_split(["slices", "fill_with"], &args, &named)?;
    minijinja_filters::slice(state, value, size(&Some(required(count)?), 0)?, fill.filter(|fill| !fill.is_none()))
}

/// `batch(linecount, fill_with=None)`.
pub(super) fn batch(state: &State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [count, fill] = bind_split(["linecount", "fill_with"], &args, &named)?;
    minijinja_filters::batch(state, value, size(&Some(required(count)?), 0)?, fill.filter(|fill| !fill.is_none()))
}

/// `list(value)`.
pub(super) fn list(state: &State, value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(refuse("'NoneType' object is not iterable"));
    }
    charge_items(state, value.as_str().map_or(value.len(), |text| Some(text.chars().count())).unwrap_or(0))?;
    minijinja_filters::list(state, value)
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
    let default: Option<Value> = named.peek("default")?;
    check_comparable(&value, named.peek("attribute")?, default.as_ref())?;
    minijinja_filters::groupby(value, None, named)
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
