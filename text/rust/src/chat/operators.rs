// SPDX-License-Identifier: Apache-2.0
//! Operators that minijinja has otherwise: `%` formats a text, `+` may stand before a number, no loop runs over None, and
//! `<` and `in` refuse what Python does not compare. A template is rewritten: operators and a check of what a loop runs over
//! are filters, and the sign is a blank. Its lines stay the same. A chain of comparisons is left as it is.
//! A filter bounds what `+` and `~` make.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{parse, tokenize, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{charge, charge_items, check_size, refuse};
use super::{comparisons, html, printf};

/// The filter that stands for `%`.
pub(super) const MODULO: &str = "__modulo__";

/// `left % right` of Python.
pub(super) fn modulo(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    match left.as_str() {
        Some(text) => printf::format(state, text, right).map(Value::from),
        None => remainder(left, right),
    }
}

/// With the sign of the divisor.
fn remainder(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !is_number(left) || !is_number(right) {
        return Err(refuse("an operand of % is no number"));
    }
    let whole = (i128::try_from(left.clone()), i128::try_from(right.clone()));
    if let (Ok(left), Ok(right), true) = (whole.0, whole.1, is_whole(left) && is_whole(right)) {
        let rest = left.checked_rem(right).ok_or_else(|| refuse("modulo by zero"))?;
        let is_other_sign = rest != 0 && (rest < 0) != (right < 0);
        return Ok(Value::from(if is_other_sign { rest + right } else { rest }));
    }
    let (left, right) = (printf::number(left)?, printf::number(right)?);
    if right == 0.0 {
        return Err(refuse("modulo by zero"));
    }
    let rest = left % right;
    let is_other_sign = rest != 0.0 && (rest < 0.0) != (right < 0.0);
    Ok(Value::from(match is_other_sign {
        true => rest + right,
        false => rest.abs().copysign(right),
    }))
}

/// The filter that stands for `+` where a template says what is escaped HTML.
pub(super) const SUM: &str = "__sum__";

/// `left + right` of Python, where one of two texts may be escaped HTML (Markup): the other one is then escaped.
pub(super) fn sum(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(first), Some(second)) = (left.as_str(), right.as_str()) {
        charge(state, first.len() + second.len())?;
        let part = |value: &Value, text: &str| if value.is_safe() { text.to_string() } else { html::escaped(text) };
        return Ok(match left.is_safe() || right.is_safe() {
            true => Value::from_safe_string(part(left, first) + &part(right, second)),
            false => Value::from(first.to_string() + second),
        });
    }
    if left.kind() == ValueKind::Seq && right.kind() == ValueKind::Seq && left.is_tuple() == right.is_tuple() {
        charge_items(state, left.len().unwrap_or(0) + right.len().unwrap_or(0))?;
        let items: Vec<Value> = left.try_iter()?.chain(right.try_iter()?).collect();
        return Ok(if left.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) });
    }
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !is_number(left) || !is_number(right) {
        return Err(refuse("unsupported operand types for +"));
    }
    match (i128::try_from(left.clone()), i128::try_from(right.clone())) {
        (Ok(first), Ok(second)) if is_whole(left) && is_whole(right) => {
            first.checked_add(second).map(Value::from).ok_or_else(|| refuse("a sum is too large"))
        }
        _ => Ok(Value::from(printf::number(left)? + printf::number(right)?)),
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_integer() || value.kind() == ValueKind::Bool
}

/// The filter that refuses loops over None.
pub(super) const ITERABLE: &str = "__iterable__";

/// What a loop runs over.
pub(super) fn iterable(value: Value) -> Result<Value, Error> {
    match value.is_none() {
        true => Err(refuse("'NoneType' object is not iterable")),
        false => Ok(value),
    }
}

/// The filter of what `+` and `~` make.
pub(super) const BOUNDED: &str = "__bounded__";

/// Refuses a text or a list that is too large, once it is there: what one chain of operators makes of others that are not.
pub(super) fn bounded(value: Value) -> Result<Value, Error> {
    check_size(&value).map(|()| value)
}

/// The template with filters for `%`, and for `+` where there may be escaped HTML. One that cannot be parsed is left as it
/// is.
pub(super) fn rewritten(text: &str, syntax: &SyntaxConfig) -> String {
    let text = tokens_rewritten(text, syntax);
    let has_html = ["safe", "escape"].iter().any(|name| text.contains(name));
    let mut edits: Vec<Edit> = vec![];
    let mut ends: Vec<Edit> = vec![];
    let mut sums = BTreeSet::new(); // where a chain of them begins; all of it is found first
    if let Ok(template) = parse(&text, "template", syntax.clone()) {
        statement(&template, &mut |found| match found {
            Found::Operator { op, left_end, from, to } => {
                if matches!(op, BinOpKind::Add | BinOpKind::Concat) && sums.insert(from) {
                    edits.push((from, from, "((".into()));
                    ends.push((to, to, format!(")|{BOUNDED})")));
                }
                let after = text[left_end..].trim_start_matches(|c: char| c.is_whitespace() || c == ')');
                let at = text.len() - after.len();
                let found =
                    spellings(op, has_html).iter().find_map(|(sign, call)| Some((sign_end(after, sign)?, call)));
                let Some((size, filter)) = found else { return };
                edits.extend([(from, from, "((".into()), (at, at + size, format!(")|{filter}("))]);
                ends.push((to, to, "))".into()));
            }
            Found::Slice { from, to } => {
                edits.push((from, from, "((".into()));
                ends.push((to, to, format!(")|{})", comparisons::SLICED)));
            }
        });
    }
    // Where several end, those inside, which were found later, end first, and all of them before an operator.
    apply(&text, ends.into_iter().rev().chain(edits).collect())
}

/// Where the operator ends that the text begins with; its words may stand apart.
fn sign_end(text: &str, sign: &str) -> Option<usize> {
    let mut rest = text;
    for word in sign.split(' ') {
        rest = rest.trim_start().strip_prefix(word)?;
    }
    Some(text.len() - rest.len())
}

/// A part of a text, from and to, and what stands for it.
type Edit = (usize, usize, String);

/// Edits of one place are applied in their order.
fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.0);
    let mut out = String::with_capacity(text.len() + 16 * edits.len());
    let mut done = 0;
    for (from, to, new) in edits {
        out.push_str(&text[done..from]);
        out.push_str(&new);
        done = to;
    }
    out.push_str(&text[done..]);
    out
}

/// A plus that has no operand before it is a blank, and what a loop runs over passes [`iterable`].
fn tokens_rewritten(text: &str, syntax: &SyntaxConfig) -> String {
    let mut edits = vec![];
    let mut has_operand = true;
    let mut header = ForHeader::default();
    for token in tokenize(text, false, syntax.clone()) {
        let Ok((token, span)) = token else { break };
        let (from, to) = (span.start_offset as usize, span.end_offset as usize);
        header.take(&token, from, &mut edits);
        if matches!(token, Token::Plus) && !has_operand {
            edits.push((from, to, " ".into()));
        }
        has_operand = match token {
            Token::Ident(name) => !["and", "or", "not", "in", "is", "if", "else", "elif"].contains(&name),
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => true,
            Token::ParenClose | Token::BracketClose | Token::BraceClose | Token::TemplateData(_) => true,
            _ => false,
        };
    }
    apply(text, edits)
}

/// How much of the tag of a loop was read.
#[derive(Default, PartialEq)]
enum ForHeader {
    #[default]
    Outside,
    Start,
    Target,
    /// The next token begins what the loop runs over.
    Before,
    /// In it, and in so many brackets.
    Inside(usize),
}

impl ForHeader {
    fn take(&mut self, token: &Token, from: usize, edits: &mut Vec<Edit>) {
        *self = match (&self, token) {
            (_, Token::BlockStart) => Self::Start,
            (Self::Start, Token::Ident("for")) => Self::Target,
            (Self::Start, _) => Self::Outside,
            (Self::Target, Token::Ident("in")) => Self::Before,
            (Self::Inside(0), Token::BlockEnd | Token::Ident("if" | "recursive")) => {
                edits.push((from, from, ")|__iterable__ ".into()));
                Self::Outside
            }
            (Self::Before, _) => {
                edits.push((from, from, "(".into()));
                Self::Inside(usize::from(opens(token)))
            }
            (Self::Inside(depth), _) if opens(token) => Self::Inside(depth + 1),
            (Self::Inside(depth), Token::ParenClose | Token::BracketClose | Token::BraceClose) => {
                Self::Inside(depth.saturating_sub(1))
            }
            _ => return,
        };
    }
}

fn opens(token: &Token) -> bool {
    matches!(token, Token::ParenOpen | Token::BracketOpen | Token::BraceOpen)
}

/// What is rewritten, by its places in the text.
enum Found {
    /// Between two operands, which begin and end there.
    Operator { op: BinOpKind, left_end: usize, from: usize, to: usize },
    /// What a slice is taken of.
    Slice { from: usize, to: usize },
}

type Take<'f> = dyn FnMut(Found) + 'f;

fn statements(all: &[Stmt], found: &mut Take) {
    all.iter().for_each(|one| statement(one, found));
}

fn statement(one: &Stmt, found: &mut Take) {
    let mut bodies: Vec<&[Stmt]> = vec![];
    let mut expressions: Vec<&Expr> = vec![];
    match one {
        Stmt::Template(inner) => bodies.push(&inner.children),
        Stmt::EmitExpr(inner) => expressions.push(&inner.expr),
        Stmt::ForLoop(inner) => {
            expressions.push(&inner.iter);
            expressions.extend(&inner.filter_expr);
            bodies.extend([&inner.body[..], &inner.else_body]);
        }
        Stmt::IfCond(inner) => {
            expressions.push(&inner.expr);
            bodies.extend([&inner.true_body[..], &inner.false_body]);
        }
        Stmt::WithBlock(inner) => {
            expressions.extend(inner.assignments.iter().map(|(_, value)| value));
            bodies.push(&inner.body);
        }
        Stmt::Set(inner) => expressions.push(&inner.expr),
        Stmt::SetBlock(inner) => {
            expressions.extend(&inner.filter);
            bodies.push(&inner.body);
        }
        Stmt::AutoEscape(inner) => bodies.push(&inner.body),
        Stmt::FilterBlock(inner) => {
            expressions.push(&inner.filter);
            bodies.push(&inner.body);
        }
        Stmt::Macro(inner) => {
            expressions.extend(&inner.defaults);
            bodies.push(&inner.body);
        }
        Stmt::CallBlock(inner) => {
            expressions.extend(inner.call.args.iter().map(argument));
            bodies.push(&inner.macro_decl.body);
        }
        Stmt::Do(inner) => expressions.extend(inner.call.args.iter().map(argument)),
        _ => {}
    }
    expressions.into_iter().for_each(|one| expression(one, found));
    bodies.into_iter().for_each(|all| statements(all, found));
}

/// The place of its first operand: the spans of what follows one begin later.
fn start_of(one: &Expr) -> usize {
    match one {
        Expr::BinOp(inner) => start_of(&inner.left),
        Expr::Compare(inner) => start_of(&inner.expr),
        Expr::IfExpr(inner) => start_of(&inner.true_expr),
        Expr::Filter(inner) => inner.expr.as_ref().map_or(inner.span().start_offset as usize, start_of),
        Expr::Test(inner) => start_of(&inner.expr),
        Expr::GetAttr(inner) => start_of(&inner.expr),
        Expr::GetItem(inner) => start_of(&inner.expr),
        Expr::Slice(inner) => start_of(&inner.expr),
        Expr::Call(inner) => start_of(&inner.expr),
        _ => one.span().start_offset as usize,
    }
}

/// How it is written, and the filters that stand for it. None: minijinja has it as Python has.
fn spellings(op: BinOpKind, has_html: bool) -> &'static [(&'static str, &'static str)] {
    match op {
        BinOpKind::Rem => &[("%", MODULO)],
        BinOpKind::Add if has_html => &[("+", SUM)],
        BinOpKind::Lt => &[("<", comparisons::LESS)],
        BinOpKind::Lte => &[("<=", comparisons::LESS_EQUAL)],
        BinOpKind::Gt => &[(">", comparisons::GREATER)],
        BinOpKind::Gte => &[(">=", comparisons::GREATER_EQUAL)],
        BinOpKind::In => &[("in", comparisons::IN), ("not in", comparisons::NOT_IN)],
        _ => &[],
    }
}

fn argument<'e, 'a>(one: &'e CallArg<'a>) -> &'e Expr<'a> {
    match one {
        CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value) => value,
    }
}

fn expression(one: &Expr, found: &mut Take) {
    let mut parts: Vec<&Expr> = vec![];
    match one {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(inner) => {
            found(Found::Slice { from: start_of(&inner.expr), to: inner.expr.span().end_offset as usize });
            parts.push(&inner.expr);
            parts.extend([&inner.start, &inner.stop, &inner.step].into_iter().flatten());
        }
        Expr::UnaryOp(inner) => parts.push(&inner.expr),
        Expr::BinOp(inner) => {
            let span = inner.span();
            let (from, to) = (span.start_offset as usize, span.end_offset as usize);
            // The span of a comparison begins with what stands before it.
            let from = if matches!(inner.op, BinOpKind::Rem | BinOpKind::Add) { from } else { start_of(&inner.left) };
            found(Found::Operator { op: inner.op, left_end: inner.left.span().end_offset as usize, from, to });
            parts.extend([&inner.left, &inner.right]);
        }
        Expr::Compare(inner) => {
            parts.push(&inner.expr);
            parts.extend(inner.ops.iter().map(|op| &op.expr));
        }
        Expr::IfExpr(inner) => {
            parts.extend([&inner.test_expr, &inner.true_expr]);
            parts.extend(&inner.false_expr);
        }
        Expr::Filter(inner) => {
            parts.extend(&inner.expr);
            parts.extend(inner.args.iter().map(argument));
        }
        Expr::Test(inner) => {
            parts.push(&inner.expr);
            parts.extend(inner.args.iter().map(argument));
        }
        Expr::GetAttr(inner) => parts.push(&inner.expr),
        Expr::GetItem(inner) => parts.extend([&inner.expr, &inner.subscript_expr]),
        Expr::Call(inner) => {
            parts.push(&inner.expr);
            parts.extend(inner.args.iter().map(argument));
        }
        Expr::List(inner) => parts.extend(&inner.items),
        Expr::Tuple(inner) => parts.extend(&inner.items),
        Expr::Map(inner) => parts.extend(inner.keys.iter().chain(&inner.values)),
    }
    parts.into_iter().for_each(|part| expression(part, found));
}
