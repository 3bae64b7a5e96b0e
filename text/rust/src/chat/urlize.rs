// SPDX-License-Identifier: Apache-2.0
//! Jinja2's filter `urlize`: addresses in a text become links. In time that is linear in the text.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Error, State};

use super::arguments::{bind_split, charge, flag, integer, refuse};
use super::text_methods::is_decimal;
use super::{html, is_python_space, python_text};

/// What Jinja2's policies give to every link.
const REL: &str = "noopener";
/// Top-level domains of an address that begins with no scheme and no "www.".
const DOMAINS: [&str; 8] = ["com", "net", "int", "edu", "gov", "org", "info", "mil"];
const BRACKETS: [(&str, &str); 3] = [("(", ")"), ("<", ">"), ("&lt;", "&gt;")];

/// `urlize(trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None)`.
pub(super) fn urlize(state: &State, value: &Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let names = ["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"];
    let [limit, no_follow, target, rel, schemes] = bind_split(names, &args, &named)?;
    let limit = limit.filter(|limit| !limit.is_none());
    let limit = limit.is_some().then(|| integer(&limit, 0)).transpose()?;
    let attributes = relation(rel, flag(&no_follow, false))? + &link_target(target);
    let links = Links { limit, attributes, schemes: schemes_of(schemes)? };
    let text = python_text::str_of(value);
    charge(state, text.len())?;
    let text = if value.is_safe() { text } else { html::escaped(&text) };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = rest.find(is_python_space).unwrap_or(rest.len());
        let (before, blanks) = (out.len(), rest[word..].trim_start_matches(is_python_space));
        links.write_word(&rest[..word], &mut out);
        charge(state, out.len() - before)?;
        out.push_str(&rest[word..rest.len() - blanks.len()]);
        rest = blanks;
    }
    Ok(out)
}

fn relation(rel: Option<Value>, no_follow: bool) -> Result<String, Error> {
    let rel = rel.filter(Value::is_true);
    let words = match &rel {
        Some(words) => words.as_str().ok_or_else(|| refuse("urlize: rel is no string"))?,
        None => "",
    };
    let mut all: BTreeSet<&str> = words.split(is_python_space).filter(|word| !word.is_empty()).collect();
    all.insert(REL);
    all.extend(no_follow.then_some("nofollow"));
    Ok(format!(" rel=\"{}\"", html::escaped(&all.into_iter().collect::<Vec<_>>().join(" "))))
}

fn link_target(target: Option<Value>) -> String {
    let target = target.filter(Value::is_true);
    target.map_or_else(String::new, |target| {
        let name = python_text::str_of(&target);
        format!(" target=\"{}\"", if target.is_safe() { name } else { html::escaped(&name) })
    })
}

/// Each ends with a colon and at most two slashes.
fn schemes_of(schemes: Option<Value>) -> Result<Vec<String>, Error> {
    let Some(schemes) = schemes.filter(|schemes| !schemes.is_none()) else { return Ok(vec![]) };
    let is_scheme = |text: &&str| {
        let name = text.trim_end_matches('/');
        let Some(name) = name.strip_suffix(':').filter(|name| text.len() - name.len() <= 3) else { return false };
        name.chars().count() >= 2 && name.chars().all(|c| is_word(c) || ".+-".contains(c))
    };
    let checked = schemes.try_iter()?.map(|scheme| {
        let scheme = scheme.as_str().filter(is_scheme).map(str::to_string);
        scheme.ok_or_else(|| refuse("urlize: not a valid URI scheme prefix"))
    });
    checked.collect()
}

struct Links {
    /// Characters of an address that are shown; negative: so many fewer.
    limit: Option<i64>,
    attributes: String,
    schemes: Vec<String>,
}

impl Links {
    fn write_word(&self, word: &str, out: &mut String) {
        let start = word.len() - without_opening(word).len();
        let end = start + balanced(&word[start..]);
        let middle = &word[start..end];
        out.push_str(&word[..start]);
        self.write_address(middle, out);
        out.push_str(&word[end..]);
    }

    fn write_address(&self, text: &str, out: &mut String) {
        let rest = &self.attributes;
        let is_mail = text.contains('@') && !text.starts_with("www.") && !text.starts_with('@') && !text.contains(':');
        if is_web_address(text) {
            let scheme = if text.starts_with("https://") || text.starts_with("http://") { "" } else { "https://" };
            out.push_str(&format!("<a href=\"{scheme}{text}\"{rest}>{}</a>", self.shown(text)));
        } else if let Some(address) = text.strip_prefix("mailto:").filter(|address| is_mail_address(address)) {
            out.push_str(&format!("<a href=\"{text}\">{address}</a>"));
        } else if is_mail && is_mail_address(text) {
            out.push_str(&format!("<a href=\"mailto:{text}\">{text}</a>"));
        } else if self.schemes.iter().any(|scheme| text != scheme && text.starts_with(scheme.as_str())) {
            out.push_str(&format!("<a href=\"{text}\"{rest}>{text}</a>"));
        } else {
            out.push_str(text);
        }
    }

    fn shown(&self, text: &str) -> String {
        let length = text.chars().count() as i64;
        match self.limit {
            Some(limit) if length > limit => {
                let kept = if limit < 0 { (length + limit).max(0) } else { limit };
                text.chars().take(kept as usize).chain("...".chars()).collect()
            }
            _ => text.to_string(),
        }
    }
}

fn without_opening(mut word: &str) -> &str {
    while let Some(rest) = ["(", "<", "&lt;"].iter().find_map(|open| word.strip_prefix(open)) {
        word = rest;
    }
    word
}

/// Bytes before the punctuation that ends a word. Closing brackets that are opened before it stay.
fn balanced(word: &str) -> usize {
    let mut middle = word;
    while let Some(rest) = [")", ">", ".", ",", "&gt;"].iter().find_map(|close| middle.strip_suffix(close)) {
        middle = rest;
    }
    let mut end = middle.len();
    for (open, close) in BRACKETS {
        let opened = word[..end].matches(open).count();
        if opened <= word[..end].matches(close).count() {
            continue;
        }
        let closed = word[end..].match_indices(close).take(opened);
        end = closed.last().map_or(end, |(at, _)| end + at + close.len());
    }
    end
}

/// A scheme or "www." and a host, or a host of a common domain; with a port and a path.
fn is_web_address(text: &str) -> bool {
    let after = |prefix: &str| folded_prefix(text, prefix);
    let by_scheme = after("https://").or_else(|| after("http://"));
    if let Some(rest) = by_scheme.filter(|rest| rest.starts_with('[')) {
        let Some(end) = rest.find(']') else { return false };
        return is_ipv6(&rest[1..end]) && is_port_and_path(&rest[end + 1..]);
    }
    let split = |text: &str| text.find([':', '/', '?', '#']).unwrap_or(text.len());
    if let Some(rest) = by_scheme.or_else(|| after("www.")) {
        let (host, path) = rest.split_at(split(rest));
        if (is_host(host) || (by_scheme.is_some() && is_ipv4(host))) && is_port_and_path(path) {
            return true;
        }
    }
    let (host, path) = text.split_at(split(text));
    is_common_host(host) && is_port_and_path(path)
}

fn is_host(host: &str) -> bool {
    let (labels, domain) = host.rsplit_once('.').map_or((None, host), |(labels, domain)| (Some(labels), domain));
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_label_char);
    let encoded = folded_prefix(domain, "xn--");
    let is_encoded = encoded
        .is_some_and(|name| (2..=59).contains(&name.chars().count()) && name.chars().all(|c| is_word(c) || c == '%'));
    let is_plain = (2..=63).contains(&domain.chars().count()) && domain.chars().all(|c| folded(c).is_ascii_lowercase());
    labels.is_none_or(|labels| labels.split('.').all(is_label)) && (is_plain || is_encoded)
}

fn is_common_host(host: &str) -> bool {
    let Some((labels, domain)) = host.rsplit_once('.') else { return false };
    let is_label = |label: &str| (2..=63).contains(&label.chars().count()) && label.chars().all(is_label_char);
    let domain: String = domain.chars().map(folded).collect();
    labels.split('.').all(is_label) && DOMAINS.contains(&domain.as_str())
}

fn is_ipv4(host: &str) -> bool {
    host.split('.').count() == 4 && host.split('.').all(|part| is_digits(part, 3))
}

/// What stands between the brackets: two groups with their colons, then at most six whose colons may be missing.
fn is_ipv6(text: &str) -> bool {
    let after_group = |text: &'_ str| {
        let is_hex = |c: &char| c.is_ascii_hexdigit() || is_decimal(*c);
        text.chars().take(4).take_while(is_hex).map(char::len_utf8).sum::<usize>()
    };
    let mut rest = text;
    for _ in 0..2 {
        let Some(after) = rest[after_group(rest)..].strip_prefix(':') else { return false };
        rest = after;
    }
    for _ in 0..6 {
        let after = &rest[after_group(rest)..];
        rest = after.strip_prefix(':').unwrap_or(after);
    }
    rest.is_empty()
}

/// Nothing, a port, a path or both. A path goes to the end.
fn is_port_and_path(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() || text.starts_with(['/', '?', '#']) };
    let end = port.find(['/', '?', '#']).unwrap_or(port.len());
    is_digits(&port[..end], 5)
}

fn is_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.chars().count()) && text.chars().all(is_decimal)
}

fn is_mail_address(text: &str) -> bool {
    let Some((name, domain)) = text.rsplit_once('@') else { return false };
    let Some((labels, last)) = domain.rsplit_once('.') else { return false };
    let is_inside = |c: char| is_word(c) || c == '.' || c == '-';
    let is_last = !last.is_empty() && last.chars().all(is_word);
    !name.is_empty() && labels.chars().next().is_some_and(is_word) && labels.chars().all(is_inside) && is_last
}

/// `\w`.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_label_char(c: char) -> bool {
    is_word(c) || c == '%' || c == '-'
}

/// What follows the prefix, whatever its case.
fn folded_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    prefix.chars().all(|c| rest.next().map(folded) == Some(c)).then(|| rest.as_str())
}

/// The letter that Python's IGNORECASE takes it for, among those of ASCII.
fn folded(c: char) -> char {
    match c {
        'İ' | 'ı' => 'i',
        'ſ' => 's',
        '\u{212A}' => 'k',
        _ => c.to_ascii_lowercase(),
    }
}
