// SPDX-License-Identifier: Apache-2.0
//! The environment that transformers gives a template: trim_blocks, lstrip_blocks, break and continue, generation
//! blocks, `raise_exception`, `tojson`; and Python's methods and Jinja2's tests where minijinja differs.
//! `strftime_now` depends on the time of the call and is a variable of each rendering.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error as JinjaError, ErrorKind, Value};

use super::{
    chance, comparisons, filters, generators, globals, html, jinja_tests, list_filters, methods, operators, pretty,
    ranges, tags, text_filters, urlize,
};
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

fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    syntax.build().expect("the default delimiters are valid")
}

pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(MAX_CHAT_TEMPLATE_DEPTH);
    environment.set_fuel(Some(MAX_CHAT_STEPS));
    environment.set_unknown_method_callback(methods::call);
    environment.set_formatter(filters::write);
    add_filters(&mut environment);
    environment.add_test("iterable", jinja_tests::is_iterable);
    environment.add_test("sequence", jinja_tests::is_sequence);
    environment.add_test("mapping", jinja_tests::is_mapping);
    environment.add_test("callable", jinja_tests::is_callable);
    environment.add_global(globals::NAMESPACE, Value::from_function(minijinja::functions::namespace));
    environment.add_function("namespace", globals::namespace);
    environment.add_function("range", ranges::range);
    environment.add_function("lipsum", chance::lipsum);
    environment.add_function("dict", globals::dict);
    environment.add_function("cycler", globals::cycler);
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", raise_exception);
    environment
}

/// Filters that minijinja lacks or has otherwise.
fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", filters::tojson);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("int", filters::int);
    environment.add_filter("float", filters::float);
    environment.add_filter("abs", filters::abs);
    environment.add_filter("string", filters::string);
    environment.add_filter("join", filters::join);
    environment.add_filter("random", chance::random);
    environment.add_filter("pprint", pretty::filter);
    environment.add_filter(operators::ITERABLE, operators::iterable);
    environment.add_filter(operators::BOUNDED, operators::bounded);
    environment.add_filter(operators::SUM, operators::sum);
    environment.add_filter(operators::MODULO, operators::modulo);
    environment.add_filter(comparisons::LESS, comparisons::less);
    environment.add_filter(comparisons::LESS_EQUAL, comparisons::less_equal);
    environment.add_filter(comparisons::GREATER, comparisons::greater);
    environment.add_filter(comparisons::GREATER_EQUAL, comparisons::greater_equal);
    environment.add_filter(comparisons::IN, comparisons::is_in);
    environment.add_filter(comparisons::NOT_IN, comparisons::is_not_in);
    environment.add_filter(comparisons::SLICED, comparisons::sliced);
    environment.add_filter("center", text_filters::center);
    environment.add_filter("truncate", text_filters::truncate);
    environment.add_filter("wordcount", text_filters::word_count);
    environment.add_filter("wordwrap", text_filters::word_wrap);
    environment.add_filter("indent", text_filters::indent);
    environment.add_filter("filesizeformat", text_filters::file_size);
    environment.add_filter("format", text_filters::format);
    environment.add_filter("escape", html::escape);
    environment.add_filter("e", html::escape);
    environment.add_filter("forceescape", html::force_escape);
    environment.add_filter("striptags", html::strip_tags);
    environment.add_filter("urlencode", html::url_encode);
    environment.add_filter("xmlattr", html::xml_attributes);
    environment.add_filter("urlize", urlize::urlize);
    environment.add_filter("map", generators::map);
    environment.add_filter("select", generators::select);
    environment.add_filter("reject", generators::reject);
    environment.add_filter("selectattr", generators::select_attr);
    environment.add_filter("rejectattr", generators::reject_attr);
    environment.add_filter("sort", list_filters::sort);
    environment.add_filter("min", list_filters::min);
    environment.add_filter("max", list_filters::max);
    environment.add_filter("dictsort", list_filters::dict_sort);
    environment.add_filter("unique", list_filters::unique);
    environment.add_filter("slice", list_filters::slice);
    environment.add_filter("batch", list_filters::batch);
    environment.add_filter("list", list_filters::list);
    environment.add_filter("default", list_filters::default);
    environment.add_filter("d", list_filters::default);
    environment.add_filter("groupby", list_filters::group_by);
    environment.add_filter("attr", list_filters::attribute);
    environment.add_filter("items", list_filters::items);
}

/// The text as it is compiled. As Jinja2 does it: a carriage return ends a line, alone or before a line feed.
pub(super) fn normalized(text: &str) -> String {
    tags::replace_generation_tags(&text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Compiles a template whose text is normalized. Errors: INVALID_ARGUMENT with the line.
pub(super) fn add(environment: &mut Environment<'static>, name: &str, text: &str) -> Result<()> {
    environment.add_template_owned(name.to_string(), operators::rewritten(text, &syntax())).map_err(|error| {
        let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
        Error::invalid(format!("chat template{line}: {}", error.detail().unwrap_or("syntax error")))
    })
}

fn raise_exception(message: Value) -> std::result::Result<Value, JinjaError> {
    let message = message.to_string();
    Err(JinjaError::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}
