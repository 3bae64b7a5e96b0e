// SPDX-License-Identifier: Apache-2.0
//! Regular expressions: those of a JSON Schema (ECMA-262) as Rust's, and what Rust's may not have.
//!
//! A class escape (\d, \w, \s) means the ASCII characters on which ECMA-262 and Python agree, and its complement leaves
//! out whatever either of them counts in: what the result matches, both match.

use crate::error::{Error, Result};
use crate::limits::MAX_REGEX_BYTES;

const DIGIT: &str = "0-9";
const DIGIT_OF_ANY: &str = r"\p{Nd}";
const WORD: &str = "0-9A-Za-z_";
const WORD_OF_ANY: &str = r"\p{Alphabetic}\p{M}\p{N}\p{Pc}\x{200C}\x{200D}";
const SPACE: &str = r"\t\n\x0B\x0C\r\x20";
const SPACE_OF_ANY: &str = r"\p{White_Space}\x{FEFF}\x1C-\x1F";
const NO_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";

struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: String,
}

/// The pattern in Rust's dialect, for a search. Err: what is not supported.
pub(super) fn from_ecma(pattern: &str) -> std::result::Result<String, String> {
    if pattern.len() > MAX_REGEX_BYTES {
        return Err(format!("{} bytes; limit is {MAX_REGEX_BYTES}", pattern.len()));
    }
    let mut scanner = Scanner { chars: pattern.chars().collect(), at: 0, out: String::new() };
    while let Some(c) = scanner.next() {
        scanner.element(c)?;
    }
    Ok(scanner.out)
}

impl Scanner {
    fn next(&mut self) -> Option<char> {
        self.at += 1;
        self.chars.get(self.at - 1).copied()
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn element(&mut self, c: char) -> std::result::Result<(), String> {
        match c {
            '\\' => {
                let element = self.escape(false)?;
                self.out.push_str(&element.outside());
            }
            '[' => self.class()?,
            '(' => self.group()?,
            '.' => self.out.push_str(NO_LINE_END),
            '^' | '$' | '|' | ')' => self.out.push(c),
            '*' | '+' | '?' => {
                self.out.push(c);
                self.after_repeat()?;
            }
            '{' => match self.counts() {
                Some(counts) => {
                    self.out.push_str(&counts);
                    self.after_repeat()?;
                }
                None => self.out.push_str(&literal('{')),
            },
            _ => self.out.push_str(&literal(c)),
        }
        Ok(())
    }

    fn group(&mut self) -> std::result::Result<(), String> {
        self.out.push_str("(?:");
        if self.peek(0) != Some('?') {
            return Ok(());
        }
        let kind: String = self.chars[self.at..].iter().take(3).collect();
        match kind.as_str() {
            _ if kind.starts_with("?:") => {
                self.at += 2;
                Ok(())
            }
            "?<=" | "?<!" => Err("look-behind".into()),
            _ if kind.starts_with("?=") || kind.starts_with("?!") => Err("look-ahead".into()),
            _ => Err(format!("a group that begins with \"({}\"", kind.escape_debug())),
        }
    }

    /// `{m}`, `{m,}` or `{m,n}` behind a '{' that was read; anything else is text.
    fn counts(&mut self) -> Option<String> {
        let end = self.at + self.chars[self.at..].iter().position(|c| *c == '}')?;
        let inside: String = self.chars[self.at..end].iter().collect();
        let (low, high) = inside.split_once(',').unwrap_or((&inside, ""));
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if low.is_empty() || !is_number(low) || !is_number(high) {
            return None;
        }
        self.at = end + 1;
        Some(format!("{{{inside}}}"))
    }

    /// A lazy quantifier matches the same texts; a possessive one does not.
    fn after_repeat(&mut self) -> std::result::Result<(), String> {
        match self.peek(0) {
            Some('?') => {
                self.at += 1;
                Ok(())
            }
            Some('+') => Err("a possessive quantifier".into()),
            _ => Ok(()),
        }
    }

    fn class(&mut self) -> std::result::Result<(), String> {
        let negated = self.peek(0) == Some('^');
        self.at += usize::from(negated);
        let mut items = String::new();
        loop {
            match self.class_item(negated)? {
                None if items.is_empty() => return Err("an empty class".into()),
                None => break,
                Some(Element::Set(set)) => items.push_str(&set),
                Some(Element::Char(low)) => {
                    items.push_str(&literal(low));
                    if self.peek(0) != Some('-') || self.peek(1) == Some(']') {
                        continue;
                    }
                    self.at += 1;
                    let Some(Element::Char(high)) = self.class_item(negated)? else {
                        return Err("a range that ends in a class".into());
                    };
                    if high < low {
                        return Err("a range that is out of order".into());
                    }
                    items.push_str(&format!("-{}", literal(high)));
                }
            }
        }
        self.out.push_str(&format!("[{}{items}]", if negated { "^" } else { "" }));
        Ok(())
    }

    fn class_item(&mut self, negated: bool) -> std::result::Result<Option<Element>, String> {
        match self.next() {
            None => Err("a class that does not end".into()),
            Some(']') => Ok(None),
            Some('\\') if self.peek(0) == Some('b') => {
                self.at += 1;
                Ok(Some(Element::Char('\u{8}')))
            }
            Some('\\') => self.escape(negated).map(Some),
            Some(c) => Ok(Some(Element::Char(c))),
        }
    }

    fn escape(&mut self, negated: bool) -> std::result::Result<Element, String> {
        let c = self.next().ok_or("a backslash at the end")?;
        let set = |narrow: &str, wide: &str| Element::Set(if negated { wide } else { narrow }.into());
        let complement = |narrow: &str, wide: &str| Element::Set(format!("[^{}]", if negated { narrow } else { wide }));
        Ok(match c {
            'd' => set(DIGIT, DIGIT_OF_ANY),
            'D' => complement(DIGIT, DIGIT_OF_ANY),
            'w' => set(WORD, WORD_OF_ANY),
            'W' => complement(WORD, WORD_OF_ANY),
            's' => set(SPACE, SPACE_OF_ANY),
            'S' => complement(SPACE, SPACE_OF_ANY),
            't' => Element::Char('\t'),
            'n' => Element::Char('\n'),
            'r' => Element::Char('\r'),
            'f' => Element::Char('\u{c}'),
            'v' => Element::Char('\u{b}'),
            '0' if !self.peek(0).is_some_and(|next| next.is_ascii_digit()) => Element::Char('\0'),
            'x' => Element::Char(self.hex(2)?),
            'u' => Element::Char(self.hex(4)?),
            '0'..='9' | 'k' => return Err("a backreference".into()),
            'b' | 'B' => return Err("a word boundary".into()),
            _ if c.is_ascii_alphabetic() => return Err(format!("the escape \\{c}")),
            _ => Element::Char(c),
        })
    }

    fn hex(&mut self, digits: usize) -> std::result::Result<char, String> {
        let text: String = self.chars[self.at..].iter().take(digits).collect();
        self.at += digits;
        let code = (text.len() == digits).then(|| u32::from_str_radix(&text, 16).ok()).flatten();
        code.and_then(char::from_u32).ok_or_else(|| "a character escape that names no character".into())
    }
}

enum Element {
    Char(char),
    /// What stands between the brackets of a class.
    Set(String),
}

impl Element {
    fn outside(&self) -> String {
        match self {
            Element::Char(c) => literal(*c),
            Element::Set(set) => format!("[{set}]"),
        }
    }
}

/// A character that means itself, inside a class and outside.
pub(super) fn literal(c: char) -> String {
    if c.is_ascii_alphanumeric() || c == '_' || (!c.is_ascii() && !c.is_control()) {
        c.to_string()
    } else {
        format!("\\x{{{:X}}}", c as u32)
    }
}

/// Refuses by name what a regular expression that matches the whole text may not have.
pub(super) fn check(regex: &str) -> Result<()> {
    if regex.is_empty() || regex.len() > MAX_REGEX_BYTES {
        return Err(Error::invalid(format!("has {} bytes; limit is [1, {MAX_REGEX_BYTES}]", regex.len())));
    }
    if (regex.len() - regex.trim_end_matches('\\').len()) % 2 == 1 {
        return Err(Error::invalid("ends with a backslash, which escapes nothing"));
    }
    let mut class_depth = 0;
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        let found = match c {
            '\\' => escape_problem(rest),
            '(' if class_depth == 0 => group_problem(rest),
            '^' | '$' if class_depth == 0 => Some("an anchor; the whole text is matched without it"),
            _ => None,
        };
        if let Some(problem) = found {
            let at = regex.len() - rest.len();
            return Err(Error::unsupported(format!("has {problem}, at byte {at}")));
        }
        let mut skipped = c.len_utf8();
        match c {
            '\\' => skipped += rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => {
                class_depth += 1;
                // A ']' right behind the bracket is text, and so is a '^'.
                skipped += usize::from(rest[skipped..].starts_with('^'));
                skipped += usize::from(rest[skipped..].starts_with(']'));
            }
            ']' if class_depth > 0 => class_depth -= 1,
            _ => {}
        }
        rest = &rest[skipped..];
    }
    Ok(())
}

fn escape_problem(rest: &str) -> Option<&'static str> {
    match rest[1..].chars().next()? {
        '1'..='9' | 'k' | 'g' => Some("a backreference"),
        'A' | 'z' | 'Z' | 'G' => Some("an anchor; the whole text is matched without it"),
        'b' | 'B' | '<' | '>' => Some("a word boundary"),
        _ => None,
    }
}

fn group_problem(rest: &str) -> Option<&'static str> {
    match &rest[1..] {
        kind if kind.starts_with("?<=") || kind.starts_with("?<!") => Some("look-behind"),
        kind if kind.starts_with("?=") || kind.starts_with("?!") => Some("look-ahead"),
        kind if kind.starts_with("?P") || kind.starts_with("?<") => Some("a named group"),
        _ => None,
    }
}
