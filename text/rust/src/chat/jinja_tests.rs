// SPDX-License-Identifier: Apache-2.0
//! Jinja2's tests that minijinja lacks or has otherwise.

use minijinja::value::{Value, ValueKind};

/// What a loop takes: an undefined value has no items.
pub(super) fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => true,
        ValueKind::Plain => value.try_iter().is_ok(),
        _ => false,
    }
}

/// Jinja2 asks for a length and items by index: texts and mappings have both, and so has what is undefined.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
        && !is_namespace(value)
}

/// A namespace is none.
pub(super) fn is_mapping(value: &Value) -> bool {
    value.kind() == ValueKind::Map && !is_namespace(value)
}

/// A function; a method, which is undefined unless it is called; and whatever else is undefined, as in Jinja2.
pub(super) fn is_callable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Plain | ValueKind::Undefined)
}

/// What `namespace()` makes.
pub(super) fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace"))
}
