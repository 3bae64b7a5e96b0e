// SPDX-License-Identifier: Apache-2.0
//! `format % values` of Python: `%[(name)][flags][width][.precision]type`.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{charge, refuse};
use super::python_text;

const MAX_WIDTH: usize = 1 << 20;

#[derive(Default)]
struct Spec {
    alternate: bool,
    zeros: bool,
    left: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

struct Values {
    all: Vec<Value>,
    next: usize,
    map: Option<Value>,
}

impl Values {
    fn take(&mut self) -> Result<Value, Error> {
        self.next += 1;
        self.all.get(self.next - 1).cloned().ok_or_else(|| refuse("not enough arguments for format string"))
    }
}

/// `values`: a tuple, a mapping of names, or one value.
pub(super) fn format(state: &State, format: &str, values: &Value) -> Result<String, Error> {
    let map = (values.kind() == ValueKind::Map).then(|| values.clone());
    // What has items may be left over.
    let is_indexed = matches!(values.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Undefined);
    let may_stay = is_indexed && !values.is_tuple();
    let all = if values.is_tuple() { values.try_iter()?.collect() } else { vec![values.clone()] };
    let mut values = Values { all, next: 0, map };
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = field(state, &rest[at + 1..], &mut values, &mut out)?;
    }
    out.push_str(rest);
    if !may_stay && values.next < values.all.len() {
        return Err(refuse("not all arguments converted during string formatting"));
    }
    charge(state, out.len())?;
    Ok(out)
}

/// One field, of which the percent sign is read; what follows it.
fn field<'t>(state: &State, text: &'t str, values: &mut Values, out: &mut String) -> Result<&'t str, Error> {
    let mut rest = text;
    let mut named = None;
    if let Some(inside) = rest.strip_prefix('(') {
        let (name, after) = inside.split_once(')').ok_or_else(|| refuse("incomplete format key"))?;
        let map = values.map.as_ref().ok_or_else(|| refuse("format requires a mapping"))?;
        named = Some(map.get_item(&Value::from(name))?).filter(|value| !value.is_undefined());
        if named.is_none() {
            return Err(refuse("a name of the format is not in the mapping"));
        }
        rest = after;
    }
    let mut spec = Spec::default();
    rest = flags(rest, &mut spec);
    (spec.width, rest) = match width(rest, values)? {
        (Some(width), after) => {
            spec.left |= width < 0;
            (width.unsigned_abs() as usize, after)
        }
        (None, after) => (0, after),
    };
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = width(after, values)?;
        spec.precision = Some(precision.unwrap_or(0).max(0) as usize);
        rest = after;
    }
    if spec.width.max(spec.precision.unwrap_or(0)) > MAX_WIDTH {
        return Err(refuse("a width of a format is too large"));
    }
    charge(state, spec.width + spec.precision.unwrap_or(0))?;
    rest = rest.trim_start_matches(['h', 'l', 'L']);
    let kind = rest.chars().next().ok_or_else(|| refuse("incomplete format"))?;
    let rest = &rest[kind.len_utf8()..];
    if kind == '%' {
        out.push('%');
        return Ok(rest);
    }
    let value = match named {
        Some(value) => value,
        None => values.take()?,
    };
    out.push_str(&converted(kind, &value, &spec)?);
    Ok(rest)
}

fn flags<'t>(text: &'t str, spec: &mut Spec) -> &'t str {
    let mut rest = text.chars();
    loop {
        let after = rest.as_str();
        match rest.next() {
            Some('#') => spec.alternate = true,
            Some('0') => spec.zeros = true,
            Some('-') => spec.left = true,
            Some(' ') => spec.space = true,
            Some('+') => spec.plus = true,
            _ => return after,
        }
    }
}

/// A number, or `*` for the next value.
fn width<'t>(text: &'t str, values: &mut Values) -> Result<(Option<i64>, &'t str), Error> {
    if let Some(after) = text.strip_prefix('*') {
        return Ok((Some(i64::try_from(values.take()?)?), after));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 {
        return Ok((None, text));
    }
    let number = text[..digits].parse().map_err(|_| refuse("a width of a format is too large"))?;
    Ok((Some(number), &text[digits..]))
}

fn converted(kind: char, value: &Value, spec: &Spec) -> Result<String, Error> {
    let cut = |text: String| match spec.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    };
    Ok(match kind {
        's' => padded(cut(python_text::str_of(value)), spec),
        'r' | 'a' => padded(cut(python_text::repr_of(value)), spec),
        'c' => padded(character(value)?, spec),
        'd' | 'i' | 'u' => signed(integer(value, true)?, |number| number.to_string(), "", spec),
        'x' => signed(integer(value, false)?, |number| format!("{number:x}"), "0x", spec),
        'X' => signed(integer(value, false)?, |number| format!("{number:X}"), "0X", spec),
        'o' => signed(integer(value, false)?, |number| format!("{number:o}"), "0o", spec),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => float(kind, number(value)?, spec),
        _ => return Err(refuse("unsupported format character")),
    })
}

fn character(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        let is_one = text.chars().count() == 1;
        return is_one.then(|| text.to_string()).ok_or_else(|| refuse("%c requires an int or a single character"));
    }
    let code = u32::try_from(value.clone())?;
    char::from_u32(code).map(String::from).ok_or_else(|| refuse("%c arg not in range(0x110000)"))
}

/// Of a number; a fraction is cut off only where the type is decimal.
fn integer(value: &Value, cut: bool) -> Result<i128, Error> {
    let is_number = matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if is_number && (value.is_integer() || value.kind() == ValueKind::Bool) {
        return i128::try_from(value.clone());
    }
    match number(value) {
        Ok(number) if is_number && cut && number.is_finite() => Ok(number.trunc() as i128),
        _ => Err(refuse("a number is required by the format")),
    }
}

/// A number or a boolean as a float.
pub(super) fn number(value: &Value) -> Result<f64, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()),
        _ => Err(refuse("a number is required by the format")),
    }
}

fn signed(number: i128, digits: impl Fn(u128) -> String, prefix: &str, spec: &Spec) -> String {
    let mut text = digits(number.unsigned_abs());
    let missing = spec.precision.unwrap_or(0).saturating_sub(text.len());
    text.insert_str(0, &"0".repeat(missing));
    with_sign(number < 0, if spec.alternate { prefix } else { "" }, text, spec)
}

fn with_sign(is_negative: bool, prefix: &str, digits: String, spec: &Spec) -> String {
    let sign = match is_negative {
        true => "-",
        false if spec.plus => "+",
        false if spec.space => " ",
        false => "",
    };
    let zeros = match spec.zeros && !spec.left {
        true => spec.width.saturating_sub(sign.len() + prefix.len() + digits.len()),
        false => 0,
    };
    padded(format!("{sign}{prefix}{}{digits}", "0".repeat(zeros)), spec)
}

fn float(kind: char, number: f64, spec: &Spec) -> String {
    let magnitude = number.abs();
    let precision = spec.precision.unwrap_or(6);
    let text = match kind.to_ascii_lowercase() {
        _ if number.is_nan() => "nan".to_string(),
        _ if number.is_infinite() => "inf".to_string(),
        'f' => format!("{magnitude:.precision$}"),
        'e' => with_exponent(magnitude, precision),
        _ => general(magnitude, precision.max(1), spec.alternate),
    };
    let text = if kind.is_ascii_uppercase() { text.to_uppercase() } else { text };
    with_sign(number.is_sign_negative() && !number.is_nan(), "", text, spec)
}

/// With an exponent of at least two digits.
fn with_exponent(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// The shorter of both forms, without zeros at its end.
fn general(magnitude: f64, precision: usize, alternate: bool) -> String {
    let scientific = with_exponent(magnitude, precision - 1);
    let exponent: i32 = scientific.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let is_plain = (-4..precision as i32).contains(&exponent);
    let text = match is_plain {
        true => format!("{magnitude:.*}", (precision as i32 - 1 - exponent).max(0) as usize),
        false => scientific,
    };
    if alternate || !text.contains('.') {
        return text;
    }
    let (digits, end) = text.split_once('e').map_or((text.as_str(), ""), |(digits, _)| (digits, &text[digits.len()..]));
    format!("{}{end}", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn padded(text: String, spec: &Spec) -> String {
    let blanks = " ".repeat(spec.width.saturating_sub(text.chars().count()));
    if spec.left {
        text + &blanks
    } else {
        blanks + &text
    }
}
