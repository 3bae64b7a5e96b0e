// SPDX-License-Identifier: Apache-2.0
//! Jinja2's global functions that minijinja lacks or has otherwise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use minijinja::value::{from_args, Kwargs, Object, ObjectRepr, Rest, Value};
use minijinja::{functions, Error, ErrorKind, State};

use super::arguments::{bind, bind_split, refuse, text};

/// `cycler(*items)`: `next()`, `current` and `reset()`.
pub(super) fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(refuse("at least one item has to be provided"));
    }
    Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) }))
}

#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str()? == "current").then(|| self.items[self.at.load(Ordering::Relaxed)].clone())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        let () = from_args(args)?;
        match method {
            "next" => {
                let at = self.at.load(Ordering::Relaxed);
                self.at.store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `joiner(sep=', ')`: nothing when it is called first, then the separator.
pub(super) fn joiner(args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [separator] = bind_split(["sep"], &args, &named)?;
    let separator = Value::from(text(&separator, ", ")?);
    Ok(Value::from_object(Joiner { separator, calls: AtomicUsize::new(0) }))
}

#[derive(Debug)]
struct Joiner {
    separator: Value,
    calls: AtomicUsize,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let [] = bind([], args)?;
        let calls = self.calls.swap(1, Ordering::Relaxed);
        Ok(if calls == 0 { Value::from("") } else { self.separator.clone() })
    }
}

/// `dict(mapping or pairs, **items)`.
pub(super) fn dict(args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    functions::dict(mapping(&args)?, named)
}

/// `namespace(mapping or pairs, **items)`.
pub(super) fn namespace(state: &mut State, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let all = functions::dict(mapping(&args)?, named)?;
    let make = state.lookup(NAMESPACE).ok_or_else(|| refuse("namespace is gone"))?;
    make.call(state, &[all])
}

/// minijinja's own namespace, whose attributes `set` can change. No template can name it.
pub(super) const NAMESPACE: &str = "(namespace)";

fn mapping(args: &[Value]) -> Result<Option<Value>, Error> {
    let [given] = bind(["mapping"], args)?;
    let Some(given) = given else { return Ok(None) };
    if given.kind() == minijinja::value::ValueKind::Map {
        return Ok(Some(given));
    }
    let pair = |pair: Value| match pair.len() {
        Some(2) => Ok((pair.get_item_by_index(0)?, pair.get_item_by_index(1)?)),
        _ => Err(refuse("an item is no pair")),
    };
    Ok(Some(Value::from_pairs(given.try_iter()?.map(pair).collect::<Result<Vec<_>, _>>()?)))
}
