// SPDX-License-Identifier: Apache-2.0
//! Methods of Python's str: those that minijinja-contrib lacks or has otherwise. Places in a text are characters.

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{bind, charge, charge_items, flag, integer, refuse, required, size, text};
use super::{bytes, is_python_space, pad};
use crate::limits::MAX_CHAT_LIST_ITEMS;

type Method = fn(&State, &str, &[Value]) -> Result<Value, Error>;

/// By name.
pub(super) fn find(name: &str) -> Option<Method> {
    METHODS.iter().find(|(method, _)| *method == name).map(|(_, call)| *call)
}

const METHODS: [(&str, Method); 39] = [
    ("strip", |_, s, args| strip(s, args, true, true)),
    ("lstrip", |_, s, args| strip(s, args, true, false)),
    ("rstrip", |_, s, args| strip(s, args, false, true)),
    ("split", split),
    ("rsplit", rsplit),
    ("splitlines", split_lines),
    ("partition", partition),
    ("rpartition", rpartition),
    ("join", join),
    ("removeprefix", |_, s, args| affix(s, args, |s, part| s.strip_prefix(part).map(str::to_string))),
    ("removesuffix", |_, s, args| affix(s, args, |s, part| s.strip_suffix(part).map(str::to_string))),
    ("startswith", |_, s, args| has_affix(s, args, |s, part| s.starts_with(part))),
    ("endswith", |_, s, args| has_affix(s, args, |s, part| s.ends_with(part))),
    ("find", |_, s, args| Ok(Value::from(position(s, args, false)?.map_or(-1, |at| at as i64)))),
    ("rfind", |_, s, args| Ok(Value::from(position(s, args, true)?.map_or(-1, |at| at as i64)))),
    ("index", |_, s, args| found(position(s, args, false)?)),
    ("rindex", |_, s, args| found(position(s, args, true)?)),
    ("count", count),
    ("ljust", |state, s, args| justify(state, s, args, pad::left)),
    ("rjust", |state, s, args| justify(state, s, args, pad::right)),
    ("center", |state, s, args| justify(state, s, args, pad::center)),
    ("zfill", zfill),
    ("expandtabs", expand_tabs),
    ("swapcase", |_, s, args| of_chars(s, args, swapped)),
    ("casefold", |_, s, args| of_chars(s, args, |c, out| out.push_str(&folded(c)))),
    ("title", title),
    ("translate", bytes::translate),
    ("encode", bytes::encode),
    ("istitle", is_title),
    ("isidentifier", |_, s, args| is(s, args, is_identifier)),
    ("isprintable", |_, s, args| is(s, args, |s| s.chars().all(super::python_text::is_printable))),
    ("isdecimal", |_, s, args| is(s, args, |s| !s.is_empty() && s.chars().all(is_decimal))),
    ("isdigit", |_, s, args| is(s, args, |s| !s.is_empty() && s.chars().all(is_digit))),
    ("isspace", |_, s, args| is(s, args, |s| !s.is_empty() && s.chars().all(is_python_space))),
    ("isalpha", |_, s, args| is(s, args, |s| !s.is_empty() && s.chars().all(char::is_alphabetic))),
    ("isalnum", |_, s, args| is(s, args, |s| !s.is_empty() && s.chars().all(char::is_alphanumeric))),
    ("isascii", |_, s, args| is(s, args, str::is_ascii)),
    ("islower", |_, s, args| is(s, args, |s| s.chars().any(char::is_lowercase) && !s.chars().any(char::is_uppercase))),
    ("isupper", |_, s, args| is(s, args, |s| s.chars().any(char::is_uppercase) && !s.chars().any(char::is_lowercase))),
];

fn is(s: &str, args: &[Value], holds: impl Fn(&str) -> bool) -> Result<Value, Error> {
    let [] = bind([], args)?;
    Ok(Value::from(holds(s)))
}

fn of_chars(s: &str, args: &[Value], write: impl Fn(char, &mut String)) -> Result<Value, Error> {
    let [] = bind([], args)?;
    let mut out = String::with_capacity(s.len());
    s.chars().for_each(|c| write(c, &mut out));
    Ok(Value::from(out))
}

/// None for an argument is as if it were not given.
fn given(value: Option<Value>) -> Option<Value> {
    value.filter(|value| !value.is_none())
}

fn strip(s: &str, args: &[Value], start: bool, end: bool) -> Result<Value, Error> {
    let [chars] = bind(["chars"], args)?;
    let chars = given(chars);
    let set = chars.is_some().then(|| text(&chars, "")).transpose()?;
    let is_out = |c: char| set.map_or_else(|| is_python_space(c), |set| set.contains(c));
    let s = if start { s.trim_start_matches(is_out) } else { s };
    Ok(Value::from(if end { s.trim_end_matches(is_out) } else { s }))
}

/// The separator (none: white space) and the most splits.
fn split_arguments(args: &[Value]) -> Result<(Option<String>, usize), Error> {
    let [separator, most] = bind(["sep", "maxsplit"], args)?;
    let separator = given(separator);
    let separator = separator.is_some().then(|| text(&separator, "").map(str::to_string)).transpose()?;
    if separator.as_deref() == Some("") {
        return Err(refuse("empty separator"));
    }
    let most = integer(&most, -1)?;
    Ok((separator, if most < 0 { usize::MAX } else { most as usize }))
}

fn split(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most) = split_arguments(args)?;
    let parts: Vec<&str> = match &separator {
        Some(separator) => s.splitn(most.saturating_add(1), separator.as_str()).take(MAX_CHAT_LIST_ITEMS + 1).collect(),
        None => words(s, most),
    };
    charge_items(state, parts.len())?;
    Ok(parts.into_iter().map(Value::from).collect())
}

fn words(s: &str, most: usize) -> Vec<&str> {
    let mut parts = vec![];
    let mut rest = s.trim_start_matches(is_python_space);
    while !rest.is_empty() {
        let end = if parts.len() == most { rest.len() } else { rest.find(is_python_space).unwrap_or(rest.len()) };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_python_space);
    }
    parts
}

fn rsplit(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most) = split_arguments(args)?;
    let mut parts: Vec<&str> = match &separator {
        Some(separator) => {
            s.rsplitn(most.saturating_add(1), separator.as_str()).take(MAX_CHAT_LIST_ITEMS + 1).collect()
        }
        None => last_words(s, most),
    };
    parts.reverse();
    charge_items(state, parts.len())?;
    Ok(parts.into_iter().map(Value::from).collect())
}

fn last_words(s: &str, most: usize) -> Vec<&str> {
    let mut parts = vec![];
    let mut rest = s.trim_end_matches(is_python_space);
    while !rest.is_empty() {
        let space = rest.char_indices().rev().find(|(_, c)| is_python_space(*c));
        let start = match space {
            Some((at, c)) if parts.len() < most => at + c.len_utf8(),
            _ => 0,
        };
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_python_space);
    }
    parts
}

fn split_lines(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [keep] = bind(["keepends"], args)?;
    let lines = super::python_text::lines(s, flag(&keep, false));
    charge_items(state, lines.len())?;
    Ok(lines.into_iter().map(Value::from).collect())
}

fn one_text(name: &'static str, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind([name], args)?;
    let value = required(value)?;
    value.as_str().is_some().then_some(value.clone()).ok_or_else(|| refuse("an argument is no string"))
}

fn separator(args: &[Value]) -> Result<Value, Error> {
    let value = one_text("sep", args)?;
    (value.as_str() != Some("")).then_some(value.clone()).ok_or_else(|| refuse("empty separator"))
}

fn partition(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let value = separator(args)?;
    let part = value.as_str().unwrap_or_default();
    Ok(match s.split_once(part) {
        Some((before, after)) => triple(before, part, after),
        None => triple(s, "", ""),
    })
}

fn rpartition(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let value = separator(args)?;
    let part = value.as_str().unwrap_or_default();
    Ok(match s.rsplit_once(part) {
        Some((before, after)) => triple(before, part, after),
        None => triple("", "", s),
    })
}

fn triple(before: &str, separator: &str, after: &str) -> Value {
    Value::from(Tuple::from([before, separator, after].map(Value::from)))
}

fn join(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [items] = bind(["iterable"], args)?;
    let mut out = String::new();
    for (at, item) in required(items)?.try_iter()?.enumerate() {
        let item = item.as_str().map(str::to_string).ok_or_else(|| refuse("sequence item: expected str instance"))?;
        charge(state, if at > 0 { s.len() + item.len() } else { item.len() })?;
        if at > 0 {
            out.push_str(s);
        }
        out.push_str(&item);
    }
    Ok(Value::from(out))
}

fn affix(s: &str, args: &[Value], strip: fn(&str, &str) -> Option<String>) -> Result<Value, Error> {
    let part = one_text("affix", args)?;
    Ok(strip(s, part.as_str().unwrap_or_default()).map_or_else(|| Value::from(s), Value::from))
}

/// Byte offsets of a slice by characters, as Python takes start and end; none: there is no such place.
fn slice(s: &str, start: &Option<Value>, end: &Option<Value>) -> Result<Option<(usize, usize)>, Error> {
    if start.is_none() && end.is_none() {
        return Ok(Some((0, s.len())));
    }
    let length = s.chars().count() as i64;
    let place = |value: &Option<Value>, default: i64| -> Result<i64, Error> {
        let at = integer(&given(value.clone()), default)?;
        Ok(if at < 0 { (at + length).max(0) } else { at })
    };
    let (start, end) = (place(start, 0)?, place(end, length)?.min(length));
    if start > end {
        return Ok(None);
    }
    let byte = |at: i64| s.char_indices().nth(at as usize).map_or(s.len(), |(byte, _)| byte);
    Ok(Some((byte(start), byte(end))))
}

fn has_affix(s: &str, args: &[Value], holds: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let [parts, start, end] = bind(["affix", "start", "end"], args)?;
    let parts = required(parts)?;
    let parts: Vec<Value> = if parts.is_tuple() { parts.try_iter()?.collect() } else { vec![parts] };
    if parts.iter().any(|part| part.kind() != ValueKind::String) {
        return Err(refuse("the first argument must be str or a tuple of str"));
    }
    let Some((from, to)) = slice(s, &start, &end)? else { return Ok(Value::from(false)) };
    Ok(Value::from(parts.iter().any(|part| holds(&s[from..to], part.as_str().unwrap_or_default()))))
}

/// In characters.
fn position(s: &str, args: &[Value], last: bool) -> Result<Option<usize>, Error> {
    let [part, start, end] = bind(["sub", "start", "end"], args)?;
    let part = required(part)?;
    let part = part.as_str().ok_or_else(|| refuse("must be str"))?;
    let Some((from, to)) = slice(s, &start, &end)? else { return Ok(None) };
    let inside = &s[from..to];
    let at = if last { inside.rfind(part) } else { inside.find(part) };
    Ok(at.map(|at| s[..from + at].chars().count()))
}

fn found(at: Option<usize>) -> Result<Value, Error> {
    at.map(Value::from).ok_or_else(|| refuse("substring not found"))
}

fn count(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [part, start, end] = bind(["sub", "start", "end"], args)?;
    let part = required(part)?;
    let part = part.as_str().ok_or_else(|| refuse("must be str"))?;
    let Some((from, to)) = slice(s, &start, &end)? else { return Ok(Value::from(0)) };
    Ok(Value::from(s[from..to].matches(part).count()))
}

fn justify(state: &State, s: &str, args: &[Value], by: fn(&str, usize, char) -> String) -> Result<Value, Error> {
    let [width, fill] = bind(["width", "fillchar"], args)?;
    let width = size(&Some(required(width)?), 0)?;
    let fill = text(&fill, " ")?;
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(refuse("the fill character must be exactly one character long"));
    };
    charge(state, width.saturating_mul(fill.len_utf8()))?;
    Ok(Value::from(by(s, width, fill)))
}

fn zfill(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [width] = bind(["width"], args)?;
    let width = size(&Some(required(width)?), 0)?;
    charge(state, width)?;
    let sign = s.len() - s.strip_prefix(['+', '-']).unwrap_or(s).len();
    let zeros = "0".repeat(width.saturating_sub(s.chars().count()));
    Ok(Value::from(format!("{}{zeros}{}", &s[..sign], &s[sign..])))
}

fn expand_tabs(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [width] = bind(["tabsize"], args)?;
    let width = size(&width, 8)?;
    let mut out = String::new();
    let mut column = 0;
    for c in s.chars() {
        if c != '\t' {
            column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
            out.push(c);
        } else if width > 0 {
            let blanks = width - column % width;
            charge(state, blanks)?;
            out.push_str(&" ".repeat(blanks));
            column += blanks;
        }
    }
    Ok(Value::from(out))
}

fn swapped(c: char, out: &mut String) {
    if c.is_uppercase() {
        out.extend(c.to_lowercase());
    } else {
        out.extend(c.to_uppercase());
    }
}

/// Full case folding where it is more than the lower case: the letters that have no upper case of one character.
fn folded(c: char) -> String {
    match c {
        'ß' | 'ẞ' => "ss".into(),
        'ς' => "σ".into(),
        'ŉ' | 'ǰ' | 'ΐ' | 'ΰ' | 'և' | 'ﬀ'..='ﬆ' | 'ﬓ'..='ﬗ' => {
            c.to_uppercase().flat_map(char::to_lowercase).collect()
        }
        _ => c.to_lowercase().collect(),
    }
}

/// Every letter that follows no letter is upper case, all others are lower case.
fn title(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [] = bind([], args)?;
    let mut out = String::with_capacity(s.len());
    let mut in_word = false;
    for c in s.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = is_cased(c);
    }
    Ok(Value::from(out))
}

fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase()
}

fn is_title(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [] = bind([], args)?;
    let mut in_word = false;
    let mut any = false;
    for c in s.chars() {
        if is_cased(c) && c.is_uppercase() == in_word {
            return Ok(Value::from(false));
        }
        in_word = is_cased(c);
        any |= in_word;
    }
    Ok(Value::from(any))
}

fn is_identifier(s: &str) -> bool {
    let is_start = |c: char| c == '_' || c.is_alphabetic();
    s.chars().next().is_some_and(is_start) && s.chars().all(|c| is_start(c) || c.is_numeric())
}

pub(super) fn is_decimal(c: char) -> bool {
    DECIMAL_ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&(c as u32)))
}

fn is_digit(c: char) -> bool {
    is_decimal(c) || is_digit_of_no_number(c)
}

/// Superscripts, subscripts and digits in circles: digits, but no decimals.
fn is_digit_of_no_number(c: char) -> bool {
    let is_raised = matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉');
    let in_circle = matches!(c, '①'..='⑨' | '⓪' | '⓵'..='⓽' | '⓿');
    let in_disc = matches!(c, '❶'..='❾' | '➀'..='➈' | '➊'..='➒');
    is_raised || in_circle || in_disc || matches!(c, '⑴'..='⑼' | '⒈'..='⒐')
}

/// The zeros of Unicode's decimal digits (Nd); one to nine follow each.
#[rustfmt::skip]
const DECIMAL_ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50,
    0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40,
    0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30, 0x11066, 0x110F0,
    0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50,
    0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950,
    0x1FBF0,
];
