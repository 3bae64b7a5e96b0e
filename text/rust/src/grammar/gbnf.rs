// SPDX-License-Identifier: Apache-2.0
//! GBNF, the grammar format of llama.cpp, to Lark as llguidance reads it. Rules from which no recursion can be reached
//! become terminals, which take the longest match; if `root` is one, the language is exactly that of the grammar.
//! Source: the format's documentation, llama.cpp grammars/README.md.

use std::collections::HashMap;

use super::pattern::literal;
use crate::error::{Error, Result};
use crate::limits::{MAX_GRAMMAR_DEPTH, MAX_GRAMMAR_PARTS, MAX_SCHEMA_COUNT};

enum Node {
    Text(String),
    /// A character class in Rust's dialect.
    Class(String),
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u64, Option<u64>),
}

/// "::=" tells GBNF from Lark.
pub(super) fn is_gbnf(source: &str) -> bool {
    source.contains("::=")
}

/// The Lark grammar. Errors: INVALID_ARGUMENT (with the line), RESOURCE_EXHAUSTED (a bound).
pub(super) fn to_lark(source: &str) -> Result<String> {
    let mut parser = Parser { source, at: 0, ids: HashMap::new(), names: vec![], rules: vec![], parts: 0 };
    parser.grammar()?;
    let Some(&root) = parser.ids.get("root") else {
        return Err(Error::invalid("has no rule \"root\""));
    };
    let mut rules = Vec::with_capacity(parser.rules.len());
    for (rule, name) in parser.rules.into_iter().zip(&parser.names) {
        let missing = || Error::invalid(format!("names the rule {}, which it does not define", super::quoted(name)));
        rules.push(rule.ok_or_else(missing)?);
    }
    let terminals = terminals(&rules);
    let name = |id: usize| format!("{}{id}", if terminals[id] { "T" } else { "r" });
    let mut lark = format!("start: {}\n", name(root));
    for (id, rule) in rules.iter().enumerate() {
        lark.push_str(&format!("{}: {}\n", name(id), write(rule, &name)));
    }
    Ok(lark)
}

fn write(node: &Node, name: &impl Fn(usize) -> String) -> String {
    let all = |nodes: &[Node], between: &str| {
        let parts: Vec<String> = nodes.iter().map(|node| write(node, name)).collect();
        format!("({})", parts.join(between))
    };
    match node {
        Node::Text(text) => text_of(text),
        Node::Class(class) => format!("/{class}/"),
        Node::Rule(id) => name(*id),
        Node::Sequence(nodes) if nodes.is_empty() => "\"\"".into(),
        Node::Sequence(nodes) => all(nodes, " "),
        Node::Choice(nodes) => all(nodes, " | "),
        Node::Repeat(inner, 0, None) => format!("({})*", write(inner, name)),
        Node::Repeat(inner, low, None) => format!("({}){{{low},}}", write(inner, name)),
        Node::Repeat(inner, low, Some(high)) => format!("({}){{{low},{high}}}", write(inner, name)),
    }
}

/// A text as a regular expression; Lark's strings have no escape for every character.
fn text_of(text: &str) -> String {
    match text.is_empty() {
        true => "\"\"".into(),
        false => format!("/{}/", text.chars().map(literal).collect::<String>()),
    }
}

/// Rules that reach no rule that reaches itself.
fn terminals(rules: &[Node]) -> Vec<bool> {
    let callees: Vec<Vec<usize>> = rules.iter().map(callees).collect();
    // A rule is a terminal once all that it names are.
    let mut terminals = vec![false; rules.len()];
    let mut open: Vec<usize> = callees.iter().map(Vec::len).collect();
    let mut callers = vec![vec![]; rules.len()];
    callees.iter().enumerate().for_each(|(caller, named)| named.iter().for_each(|id| callers[*id].push(caller)));
    let mut ready: Vec<usize> = (0..rules.len()).filter(|id| open[*id] == 0).collect();
    while let Some(id) = ready.pop() {
        terminals[id] = true;
        for caller in &callers[id] {
            open[*caller] -= 1;
            if open[*caller] == 0 {
                ready.push(*caller);
            }
        }
    }
    terminals
}

fn callees(rule: &Node) -> Vec<usize> {
    let mut ids = vec![];
    let mut nodes = vec![rule];
    while let Some(node) = nodes.pop() {
        match node {
            Node::Rule(id) => ids.push(*id),
            Node::Sequence(inner) | Node::Choice(inner) => nodes.extend(inner),
            Node::Repeat(inner, ..) => nodes.push(inner),
            Node::Text(_) | Node::Class(_) => {}
        }
    }
    ids
}

struct Parser<'a> {
    source: &'a str,
    at: usize,
    ids: HashMap<String, usize>,
    names: Vec<String>,
    rules: Vec<Option<Node>>,
    parts: usize,
}

impl<'a> Parser<'a> {
    fn grammar(&mut self) -> Result<()> {
        self.blanks();
        while !self.rest().is_empty() {
            let name = self.name().ok_or_else(|| self.error("a rule's name is expected"))?;
            let id = self.id(name);
            self.blanks();
            if !self.take("::=") {
                return Err(self.error("\"::=\" is expected"));
            }
            if self.rules[id].is_some() {
                return Err(self.error(&format!("the rule {} is defined twice", super::quoted(name))));
            }
            self.rules[id] = Some(self.choice(0)?);
        }
        Ok(())
    }

    fn choice(&mut self, depth: usize) -> Result<Node> {
        if depth > MAX_GRAMMAR_DEPTH {
            return Err(Error::exhausted(format!("nests deeper than {MAX_GRAMMAR_DEPTH} groups")));
        }
        let mut options = vec![];
        loop {
            options.push(self.sequence(depth)?);
            if !self.take("|") {
                break;
            }
        }
        Ok(if options.len() == 1 { options.remove(0) } else { Node::Choice(options) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Node> {
        let mut nodes = vec![];
        loop {
            self.blanks();
            self.parts += 1;
            if self.parts > 10 * MAX_GRAMMAR_PARTS {
                return Err(Error::exhausted(format!("has more than {} elements", 10 * MAX_GRAMMAR_PARTS)));
            }
            let node = match self.rest().chars().next() {
                Some('"') => self.text()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    Node::Class("(?s:.)".into())
                }
                Some('(') => self.group(depth)?,
                Some('<' | '!') => return Err(Error::unsupported(format!("has a token, in line {}", self.line()))),
                _ => match self.rule_reference() {
                    Some(id) => Node::Rule(id),
                    None => break,
                },
            };
            let node = self.repeated(node)?;
            nodes.push(node);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn group(&mut self, depth: usize) -> Result<Node> {
        self.at += 1;
        let inner = self.choice(depth + 1)?;
        match self.take(")") {
            true => Ok(inner),
            false => Err(self.error("\")\" is expected")),
        }
    }

    /// A name, unless it begins the next rule.
    fn rule_reference(&mut self) -> Option<usize> {
        let before = self.at;
        let name = self.name()?;
        let after = self.at;
        self.blanks();
        if self.rest().starts_with("::=") {
            self.at = before;
            return None;
        }
        self.at = after;
        Some(self.id(name))
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node> {
        loop {
            self.blanks();
            let (low, high) = match self.rest().chars().next() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                _ => return Ok(node),
            };
            self.at += 1;
            node = Node::Repeat(Box::new(node), low, high);
        }
    }

    /// `{m}`, `{m,}` or `{m,n}`; leaves the '}' to the caller.
    fn counts(&mut self) -> Result<(u64, Option<u64>)> {
        let size = self.rest().find('}').ok_or_else(|| self.error("\"}\" is expected"))?;
        let inside = &self.rest()[1..size];
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| self.error("a number is expected"));
        let (low, high) = match inside.split_once(',') {
            None => (number(inside)?, Some(number(inside)?)),
            Some((low, high)) if high.trim().is_empty() => (number(low)?, None),
            Some((low, high)) => (number(low)?, Some(number(high)?)),
        };
        let largest = high.unwrap_or(low).max(low);
        if largest > MAX_SCHEMA_COUNT {
            let line = self.line();
            return Err(Error::exhausted(format!(
                "repeats {largest} times; limit is {MAX_SCHEMA_COUNT}, in line {line}"
            )));
        }
        if high.is_some_and(|high| high < low) {
            return Err(self.error("a repetition ends before it begins"));
        }
        self.at += size;
        Ok((low, high))
    }

    fn text(&mut self) -> Result<Node> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.character()? {
                ('"', false) => return Ok(Node::Text(text)),
                (c, _) => text.push(c),
            }
        }
    }

    fn class(&mut self) -> Result<Node> {
        self.at += 1;
        let mut class = String::from(if self.take("^") { "[^" } else { "[" });
        let empty = class.len();
        loop {
            match self.character()? {
                (']', false) if class.len() == empty => return Err(self.error("a class is empty")),
                (']', false) => break,
                (c, _) => class.push_str(&literal(c)),
            }
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                class.push('-');
                class.push_str(&literal(self.character()?.0));
            }
        }
        class.push(']');
        Ok(Node::Class(class))
    }

    /// A character of a text or class, and whether it was escaped.
    fn character(&mut self) -> Result<(char, bool)> {
        let c = self.next()?;
        if c != '\\' {
            return Ok((c, false));
        }
        let c = match self.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'U' => self.hex(8)?,
            c @ ('\\' | '"' | '[' | ']' | '-' | '^') => c,
            _ => return Err(self.error("an unknown escape")),
        };
        Ok((c, true))
    }

    fn hex(&mut self, digits: usize) -> Result<char> {
        let code = self.rest().get(..digits).and_then(|text| u32::from_str_radix(text, 16).ok());
        let c = code.and_then(char::from_u32).ok_or_else(|| self.error("an escape that names no character"))?;
        self.at += digits;
        Ok(c)
    }

    fn next(&mut self) -> Result<char> {
        let c = self.rest().chars().next().ok_or_else(|| self.error("the grammar ends inside a text"))?;
        self.at += c.len_utf8();
        Ok(c)
    }

    fn name(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let rest = self.rest();
        let size = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += size;
        (size > 0).then(|| &rest[..size])
    }

    fn id(&mut self, name: &str) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.ids.insert(name.into(), self.rules.len());
        self.names.push(name.into());
        self.rules.push(None);
        self.rules.len() - 1
    }

    /// Spaces, line ends and comments.
    fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let comment = if trimmed.starts_with('#') { trimmed.find('\n').unwrap_or(trimmed.len()) } else { 0 };
            let skipped = rest.len() - trimmed.len() + comment;
            if skipped == 0 {
                return;
            }
            self.at += skipped;
        }
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn line(&self) -> usize {
        self.source[..self.at].matches('\n').count() + 1
    }

    fn error(&self, what: &str) -> Error {
        Error::invalid(format!("is not GBNF: {what}, in line {}", self.line()))
    }
}
