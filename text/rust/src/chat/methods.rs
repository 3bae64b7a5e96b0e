// SPDX-License-Identifier: Apache-2.0
//! Methods of Python's values in templates: those that minijinja-contrib lacks or has otherwise, then its own.

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::arguments::{bind, charge, integer, refuse, required};
use super::views::{View, ViewOf};
use super::{bytes, printf, text_methods};

pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            // A method looks at all of its text, which the engine does not count.
            charge(state, text.len())?;
            charge(state, made_bytes(text, method, args))?;
            text_methods::find(method).map(|call| call(state, text, args)).transpose()?
        }
        ValueKind::Map => of_map(value, method, args)?,
        ValueKind::Seq => of_list(value, method, args)?,
        ValueKind::Number => of_number(value, method, args)?,
        ValueKind::Bytes if method == "decode" => {
            Some(bytes::decode(state, value.as_bytes().unwrap_or_default(), args)?)
        }
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args),
    }
}

/// At least what a method of minijinja's makes by a width, or by replacing, however short its text is.
fn made_bytes(text: &str, method: &str, args: &[Value]) -> usize {
    match (method, args) {
        ("format", _) => {
            let specs = text.split('{').skip(1).filter_map(|field| field.split('}').next()?.split_once(':'));
            let numbers = specs.flat_map(|(_, spec)| spec.split(|c: char| !c.is_ascii_digit()));
            let widths = numbers.filter(|digits| !digits.is_empty()).map(|digits| digits.parse().unwrap_or(usize::MAX));
            widths.fold(0, usize::saturating_add)
        }
        ("replace", [from, to]) => {
            let (from, to) = (from.as_str().unwrap_or_default(), to.as_str().unwrap_or_default());
            text.matches(from).count().saturating_mul(to.len())
        }
        _ => 0,
    }
}

fn of_map(map: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let view = match method {
        "keys" => ViewOf::Keys,
        "values" => ViewOf::Values,
        "items" => ViewOf::Items,
        "copy" => {
            let [] = bind([], args)?;
            return copied(map).map(Some);
        }
        "fromkeys" => {
            let [keys, value] = bind(["iterable", "value"], args)?;
            let value = value.unwrap_or(Value::from(()));
            return Ok(Some(Value::from_pairs(required(keys)?.try_iter()?.map(|key| (key, value.clone())))));
        }
        _ => return Ok(None),
    };
    let [] = bind([], args)?;
    Ok(Some(Value::from_object(View::new(map, view)?)))
}

fn copied(map: &Value) -> Result<Value, Error> {
    let pairs = map.try_iter()?.map(|key| map.get_item(&key).map(|value| (key, value)));
    Ok(Value::from_pairs(pairs.collect::<Result<Vec<_>, _>>()?))
}

fn of_list(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            let [] = bind([], args)?;
            let items: Vec<Value> = list.try_iter()?.collect();
            Ok(Some(if list.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }))
        }
        "index" => {
            let [item, start, end] = bind(["value", "start", "stop"], args)?;
            let (item, length) = (required(item)?, list.len().unwrap_or(0) as i64);
            let place = |at: i64| if at < 0 { (at + length).max(0) } else { at } as usize;
            let (start, end) = (place(integer(&start, 0)?), place(integer(&end, i64::MAX)?));
            let at = list.try_iter()?.take(end).skip(start).position(|one| one == item);
            Ok(Some(Value::from(start + at.ok_or_else(|| refuse("the value is not in the list"))?)))
        }
        _ => Ok(None),
    }
}

fn of_number(number: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "is_integer" => Value::from(number.is_integer() || printf::number(number)?.fract() == 0.0),
        "bit_length" if number.is_integer() => {
            Value::from(128 - i128::try_from(number.clone())?.unsigned_abs().leading_zeros())
        }
        _ => return Ok(None),
    };
    let [] = bind([], args)?;
    Ok(Some(result))
}
