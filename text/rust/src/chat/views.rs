// SPDX-License-Identifier: Apache-2.0
//! `dict.keys()`, `dict.values()` and `dict.items()`: they can be iterated over and have a length, but no places; JSON
//! does not take them.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, Value};
use minijinja::Error;

use super::python_text;

/// What of a mapping is seen.
#[derive(Debug, Clone, Copy)]
pub(super) enum ViewOf {
    Keys,
    Values,
    Items,
}

/// Of a mapping as it was: templates cannot change one.
#[derive(Debug)]
pub(super) struct View {
    of: ViewOf,
    items: Vec<Value>,
}

impl View {
    pub fn new(map: &Value, of: ViewOf) -> Result<Self, Error> {
        let item = |key: Value| -> Result<Value, Error> {
            Ok(match of {
                ViewOf::Keys => key,
                ViewOf::Values => map.get_item(&key)?,
                ViewOf::Items => {
                    let value = map.get_item(&key)?;
                    Value::from(Tuple::from([key, value]))
                }
            })
        };
        Ok(Self { of, items: map.try_iter()?.map(item).collect::<Result<_, _>>()? })
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.of {
            ViewOf::Keys => "dict_keys",
            ViewOf::Values => "dict_values",
            ViewOf::Items => "dict_items",
        };
        write!(f, "{name}({})", python_text::repr_of(&Value::from(self.items.clone())))
    }
}
