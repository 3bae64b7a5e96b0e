// SPDX-License-Identifier: Apache-2.0
//! Python's comparisons, which refuse values that have no order or that a text cannot contain; minijinja's never fail.

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};
use minijinja::{tests, Error, State};

use super::arguments::refuse;
use super::ranges::Range;

/// The filters that stand for operators, by what operators.rs calls them.
pub(super) const LESS: &str = "__less__";
pub(super) const LESS_EQUAL: &str = "__less_equal__";
pub(super) const GREATER: &str = "__greater__";
pub(super) const GREATER_EQUAL: &str = "__greater_equal__";
pub(super) const IN: &str = "__in__";
pub(super) const NOT_IN: &str = "__not_in__";
pub(super) const SLICED: &str = "__sliced__";

/// `left < right`.
pub(super) fn less(left: &Value, right: &Value) -> Result<bool, Error> {
    Ok(order(left, right)?.is_some_and(Ordering::is_lt))
}

/// `left <= right`.
pub(super) fn less_equal(left: &Value, right: &Value) -> Result<bool, Error> {
    Ok(order(left, right)?.is_some_and(Ordering::is_le))
}

/// `left > right`.
pub(super) fn greater(left: &Value, right: &Value) -> Result<bool, Error> {
    Ok(order(left, right)?.is_some_and(Ordering::is_gt))
}

/// `left >= right`.
pub(super) fn greater_equal(left: &Value, right: &Value) -> Result<bool, Error> {
    Ok(order(left, right)?.is_some_and(Ordering::is_ge))
}

/// `left in right`.
pub(super) fn is_in(state: &State, left: &Value, right: &Value) -> Result<bool, Error> {
    match right.kind() {
        ValueKind::String if left.kind() != ValueKind::String => {
            Err(refuse("'in <string>' requires a string as left operand"))
        }
        ValueKind::Map if class(left) == Some(Class::List) || left.kind() == ValueKind::Map => {
            Err(refuse("the value cannot be a key"))
        }
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Bytes => {
            Err(refuse("the right operand of 'in' is not iterable"))
        }
        _ => tests::is_in(state, left, right),
    }
}

/// `left not in right`.
pub(super) fn is_not_in(state: &State, left: &Value, right: &Value) -> Result<bool, Error> {
    is_in(state, left, right).map(|found| !found)
}

/// What a slice is taken of.
pub(super) fn sliced(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Err(refuse("the value has no slices")),
        _ => Ok(value),
    }
}

/// Values that Python can order among themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Text,
    Bytes,
    Tuple,
    List,
}

/// None: it is ordered with nothing.
pub(super) fn class(value: &Value) -> Option<Class> {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Some(Class::Number),
        ValueKind::String => Some(Class::Text),
        ValueKind::Bytes => Some(Class::Bytes),
        ValueKind::Seq if value.downcast_object_ref::<Range>().is_some() => None,
        ValueKind::Seq if value.is_tuple() => Some(Class::Tuple),
        ValueKind::Seq => Some(Class::List),
        _ => None,
    }
}

/// None: one is no number. Errors: of different classes.
fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, Error> {
    if class(left).is_none() || class(left) != class(right) {
        return Err(refuse("'<' not supported between values of these types"));
    }
    if left.kind() != ValueKind::Seq {
        let is_nan = |value: &Value| !value.is_integer() && f64::try_from(value.clone()).is_ok_and(f64::is_nan);
        return Ok((!is_nan(left) && !is_nan(right)).then(|| left.cmp(right)));
    }
    let (mut items, mut others) = (left.try_iter()?, right.try_iter()?);
    loop {
        match (items.next(), others.next()) {
            (Some(item), Some(other)) if item == other => {}
            (Some(item), Some(other)) => return order(&item, &other),
            (item, other) => return Ok(Some(item.is_some().cmp(&other.is_some()))),
        }
    }
}
