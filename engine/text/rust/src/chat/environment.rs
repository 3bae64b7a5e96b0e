// SPDX-License-Identifier: Apache-2.0
//! The environment that transformers gives a template: trim_blocks, lstrip_blocks, break and continue, generation
//! blocks, `raise_exception`, `tojson`; and Python's methods and Jinja2's tests where minijinja differs.
//! `strftime_now` depends on the time of the call and is a variable of each rendering.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error as JinjaError, ErrorKind, Value};

use super::{filters, methods, tags};
use crate::error::{Error, Result};
use crate::limits::{MAX_CHAT_STEPS, MAX_CHAT_TEMPLATE_DEPTH};

/// What a template says with `raise_exception`.
#[derive(Debug)]
pub(super) struct Raised(pub String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the default delimiters are valid"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(MAX_CHAT_TEMPLATE_DEPTH);
    environment.set_fuel(Some(MAX_CHAT_STEPS));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(filters::write);
    environment.add_filter("tojson", filters::tojson);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("items", filters::items);
    environment.add_filter("int", filters::int);
    environment.add_filter("float", filters::float);
    environment.add_filter("string", filters::string);
    environment.add_test("sequence", filters::is_sequence);
    environment.add_function("raise_exception", raise_exception);
    environment
}

/// The text as it is compiled. As Jinja2 does it: a carriage return ends a line, alone or before a line feed.
pub(super) fn normalized(text: &str) -> String {
    tags::replace_generation_tags(&text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Compiles a template whose text is normalized. Errors: INVALID_ARGUMENT with the line.
pub(super) fn add(environment: &mut Environment<'static>, name: &str, text: &str) -> Result<()> {
    environment.add_template_owned(name.to_string(), text.to_string()).map_err(|error| {
        let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
        Error::invalid(format!("chat template{line}: {}", error.detail().unwrap_or("syntax error")))
    })
}

fn raise_exception(message: Value) -> std::result::Result<Value, JinjaError> {
    let message = message.to_string();
    Err(JinjaError::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}
