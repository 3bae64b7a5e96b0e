// SPDX-License-Identifier: Apache-2.0
//! Jinja2's filters of texts that minijinja lacks or has otherwise.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{bind_split, charge, flag, integer, refuse, size, text};
use super::{pad, printf, python_text, word_wrap};

const DEFAULT_WIDTH: usize = 80;
/// How much longer than asked a text may be that is not cut (`truncate.leeway` of Jinja2's policies).
const LEEWAY: usize = 5;

/// `center(width=80)`.
pub(super) fn center(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let [width] = bind_split(["width"], &args, &named)?;
    let width = size(&width, DEFAULT_WIDTH)?;
    charge(state, width)?;
    Ok(pad::center(&python_text::str_of(value), width, ' '))
}

/// `truncate(length=255, killwords=False, end='...', leeway=None)`.
pub(super) fn truncate(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let [length, kill_words, end, leeway] = bind_split(["length", "killwords", "end", "leeway"], &args, &named)?;
    let s = python_text::str_of(value);
    charge(state, s.len())?;
    let (length, end) = (size(&length, 255)?, text(&end, "...")?);
    let leeway = leeway.filter(|value| !value.is_none());
    let kept = length.checked_sub(end.chars().count()).ok_or_else(|| refuse("truncate: length is less than end's"))?;
    if s.chars().count() <= length + size(&leeway, LEEWAY)? {
        return Ok(s);
    }
    let head: String = s.chars().take(kept).collect();
    let head = match head.rsplit_once(' ') {
        Some((words, _)) if !flag(&kill_words, false) => words,
        _ => &head,
    };
    Ok(format!("{head}{end}"))
}

/// Runs of letters, digits and underscores.
pub(super) fn word_count(state: &State, value: &Value) -> Result<usize, Error> {
    let s = python_text::str_of(value);
    charge(state, s.len())?;
    Ok(s.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count())
}

/// `wordwrap(width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True)`.
pub(super) fn word_wrap(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, break_words, between, at_hyphens] = bind_split(names, &args, &named)?;
    let s = python_text::str_of(value);
    let between = between.filter(|value| !value.is_none());
    let between = text(&between, "\n")?;
    charge(state, s.len().saturating_mul(1 + between.len()))?;
    let wrap = word_wrap::Wrap {
        width: usize::try_from(integer(&width, 79)?).ok().filter(|width| *width > 0),
        break_words: flag(&break_words, true),
        at_hyphens: flag(&at_hyphens, true),
    };
    if wrap.width.is_none() {
        return Err(refuse("wordwrap: invalid width (must be > 0)"));
    }
    let lines = python_text::lines(&s, false);
    Ok(lines.into_iter().map(|line| wrap.lines(line).join(between)).collect::<Vec<_>>().join(between))
}

/// `indent(width=4, first=False, blank=False)`; width may be a text.
pub(super) fn indent(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let [width, first, blank] = bind_split(["width", "first", "blank"], &args, &named)?;
    let indention = match &width {
        Some(text) if text.kind() == ValueKind::String => text.as_str().unwrap_or_default().to_string(),
        width => {
            let width = size(width, 4)?;
            charge(state, width)?;
            " ".repeat(width)
        }
    };
    let s = python_text::str_of(value) + "\n"; // so that a line break at the end stays
    let lines = python_text::lines(&s, false);
    charge(state, s.len() + lines.len().saturating_mul(indention.len()))?;
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let is_indented = if at == 0 { flag(&first, false) } else { flag(&blank, false) || !line.is_empty() };
        out.push_str(if at > 0 { "\n" } else { "" });
        out.push_str(if is_indented { &indention } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

/// `filesizeformat(binary=False)`.
pub(super) fn file_size(value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    const PREFIXES: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let [binary] = bind_split(["binary"], &args, &named)?;
    let (base, unit) = if flag(&binary, false) { (1024.0, "iB") } else { (1000.0f64, "B") };
    let bytes = match value.as_str() {
        Some(text) => text.trim().parse().map_err(|_| refuse("could not convert string to float"))?,
        None => printf::number(value)?,
    };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc() as i128));
    }
    let mut value = bytes / base;
    let mut at = 0;
    while value >= base && at + 1 < PREFIXES.len() {
        value /= base;
        at += 1;
    }
    let prefix = if base == 1024.0 { PREFIXES[at].to_uppercase() } else { PREFIXES[at].to_string() };
    Ok(format!("{value:.1} {prefix}{unit}"))
}

/// `format(*args, **kwargs)`: `%` with them.
pub(super) fn format(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let names: Vec<String> = named.args().map(str::to_string).collect();
    if !names.is_empty() && !args.is_empty() {
        return Err(refuse("can't handle positional and keyword arguments at the same time"));
    }
    let pairs = names.iter().map(|name| Ok((name.clone(), named.get::<Value>(name)?)));
    let values = match names.is_empty() {
        true => Value::from(minijinja::value::Tuple::from(args.0)),
        false => Value::from_pairs(pairs.collect::<Result<Vec<_>, Error>>()?),
    };
    printf::format(state, &python_text::str_of(value), &values)
}
