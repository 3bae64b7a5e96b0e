// SPDX-License-Identifier: Apache-2.0
//! `range` of Python, of at most 100,000 numbers, as Jinja2's sandbox bounds it: a sequence, but no list.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::Error;

use super::arguments::{bind, refuse, required};

const MAX_NUMBERS: u64 = 100_000;
/// What is said of a longer one.
pub(super) const TOO_LONG: &str = "range has too many elements";

/// The numbers of one range.
#[derive(Debug)]
pub(super) struct Range {
    start: i64,
    stop: i64,
    step: i64,
    length: usize,
}

/// `range(stop)`, `range(start, stop)`, `range(start, stop, step)`.
pub(super) fn range(args: minijinja::value::Rest<Value>) -> Result<Value, Error> {
    let [first, second, third] = bind(["start", "stop", "step"], &args)?;
    let whole = |value: Value| match value.is_integer() || value.kind() == minijinja::value::ValueKind::Bool {
        true => i64::try_from(value),
        false => Err(refuse("range: an argument is no integer")),
    };
    let (start, stop) = match second {
        Some(stop) => (whole(required(first)?)?, whole(stop)?),
        None => (0, whole(required(first)?)?),
    };
    let step = third.map_or(Ok(1), whole)?;
    if step == 0 {
        return Err(refuse("range() arg 3 must not be zero"));
    }
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let length = distance.max(0).unsigned_abs().div_ceil(u128::from(step.unsigned_abs()));
    if length > u128::from(MAX_NUMBERS) {
        return Err(refuse(TOO_LONG));
    }
    Ok(Value::from_object(Range { start, stop, step, length: length as usize }))
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = i64::try_from(key.clone()).ok()?;
        let at = if at < 0 { at + self.length as i64 } else { at };
        ((0..self.length as i64).contains(&at)).then(|| Value::from(self.start + at * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.length)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            1 => write!(f, "range({}, {})", self.start, self.stop),
            step => write!(f, "range({}, {}, {step})", self.start, self.stop),
        }
    }
}
