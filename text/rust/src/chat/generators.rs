// SPDX-License-Identifier: Apache-2.0
//! What Jinja2's filters yield item by item: it can be iterated over, but it is no sequence, and JSON does not take it.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, Value, ValueOrKwargs};
use minijinja::{filters, Error, State};

/// Made at once, so that its work is counted where the filter stands.
#[derive(Debug)]
pub(super) struct Generator(Vec<Value>);

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.clone())
    }
}

type Arguments = Rest<ValueOrKwargs>;
type Name<'a> = Option<Cow<'a, str>>;

fn generator(items: Result<Vec<Value>, Error>) -> Result<Value, Error> {
    items.map(|items| Value::from_object(Generator(items)))
}

pub(super) fn map(state: &mut State, value: Value, args: Arguments) -> Result<Value, Error> {
    generator(filters::map(state, value, args))
}

pub(super) fn select(state: &mut State, value: Value, test: Name<'_>, args: Arguments) -> Result<Value, Error> {
    generator(filters::select(state, value, test, args))
}

pub(super) fn reject(state: &mut State, value: Value, test: Name<'_>, args: Arguments) -> Result<Value, Error> {
    generator(filters::reject(state, value, test, args))
}

pub(super) fn select_attr(
    state: &mut State,
    value: Value,
    attribute: Cow<'_, str>,
    test: Name<'_>,
    args: Arguments,
) -> Result<Value, Error> {
    generator(filters::selectattr(state, value, attribute, test, args))
}

pub(super) fn reject_attr(
    state: &mut State,
    value: Value,
    attribute: Cow<'_, str>,
    test: Name<'_>,
    args: Arguments,
) -> Result<Value, Error> {
    generator(filters::rejectattr(state, value, attribute, test, args))
}
