// SPDX-License-Identifier: Apache-2.0
//! Arguments of a filter, function or method by their Python names: each may be given by its place or by its name.

use minijinja::value::{from_args, Kwargs, Rest, Value};
use minijinja::{Error, ErrorKind, State};

use crate::limits::{MAX_CHAT_LIST_ITEMS, MAX_CHAT_VALUE_BYTES};

const BYTES_PER_STEP: usize = 64;

/// One for each name; none: not given. Errors: too many, an unknown name, one that is given twice.
pub(super) fn bind<const N: usize>(names: [&str; N], args: &[Value]) -> Result<[Option<Value>; N], Error> {
    let (positional, named): (Rest<Value>, Kwargs) = from_args(args)?;
    bind_split(names, &positional, &named)
}

/// The same of arguments that are told apart.
pub(super) fn bind_split<const N: usize>(
    names: [&str; N],
    positional: &[Value],
    named: &Kwargs,
) -> Result<[Option<Value>; N], Error> {
    if positional.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut bound = [const { None }; N];
    for (at, name) in names.iter().enumerate() {
        bound[at] = positional.get(at).cloned();
        let by_name: Option<Value> = if named.has(name) { Some(named.get(name)?) } else { None };
        if bound[at].is_some() && by_name.is_some() {
            return Err(refuse("an argument is given twice"));
        }
        bound[at] = bound[at].take().or(by_name);
    }
    named.assert_all_used()?;
    Ok(bound)
}

/// All by their names, for minijinja's own filters.
pub(super) fn by_name<const N: usize>(
    names: [&'static str; N],
    positional: &[Value],
    named: &Kwargs,
) -> Result<Kwargs, Error> {
    let bound = bind_split(names, positional, named)?;
    let given = names.into_iter().zip(bound).filter_map(|(name, value)| Some((name, value?)));
    Ok(Kwargs::from_iter(given.collect::<Vec<(&str, Value)>>()))
}

/// An integer; `default` if it is not given.
pub(super) fn integer(value: &Option<Value>, default: i64) -> Result<i64, Error> {
    match value {
        None => Ok(default),
        Some(value) => i64::try_from(value.clone()),
    }
}

/// A size: a negative one is 0.
pub(super) fn size(value: &Option<Value>, default: usize) -> Result<usize, Error> {
    Ok(integer(value, default as i64)?.max(0) as usize)
}

/// A flag, by Python's rules of truth.
pub(super) fn flag(value: &Option<Value>, default: bool) -> bool {
    value.as_ref().map_or(default, Value::is_true)
}

/// A text; `default` if it is not given.
pub(super) fn text<'a>(value: &'a Option<Value>, default: &'a str) -> Result<&'a str, Error> {
    match value {
        None => Ok(default),
        Some(value) => value.as_str().ok_or_else(|| refuse("an argument is no string")),
    }
}

/// An argument that has no default.
pub(super) fn required(value: Option<Value>) -> Result<Value, Error> {
    value.ok_or_else(|| Error::from(ErrorKind::MissingArgument))
}

/// Counts work on so many bytes, before it is done: a text that is made or searched.
pub(super) fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    check_bytes(bytes)?;
    state.consume_fuel((bytes / BYTES_PER_STEP) as u64)
}

/// Counts the items of a list, before it is made.
pub(super) fn charge_items(state: &State, items: usize) -> Result<(), Error> {
    check_items(items)?;
    state.consume_fuel((items / BYTES_PER_STEP) as u64)
}

/// Refuses a value that is larger than templates may make one.
pub(super) fn check_size(value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => check_bytes(text.len()),
        None => check_items(value.len().unwrap_or(0)),
    }
}

/// What is said of a text or a list that is too large: 16 MiB and a million items of `crate::limits`.
pub(super) const TEXT_TOO_LARGE: &str = "a text of more than 16777216 bytes; limit is 16777216";
pub(super) const LIST_TOO_LARGE: &str = "a list of more than 1048576 items; limit is 1048576";

pub(super) fn check_bytes(bytes: usize) -> Result<(), Error> {
    match bytes > MAX_CHAT_VALUE_BYTES {
        true => Err(refuse(TEXT_TOO_LARGE)),
        false => Ok(()),
    }
}

fn check_items(items: usize) -> Result<(), Error> {
    match items > MAX_CHAT_LIST_ITEMS {
        true => Err(refuse(LIST_TOO_LARGE)),
        false => Ok(()),
    }
}

pub(super) fn refuse(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
