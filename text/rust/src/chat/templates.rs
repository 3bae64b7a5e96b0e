// SPDX-License-Identifier: Apache-2.0
//! The compiled templates of a model, in this process or in another one. A template is a program of whoever made the
//! model. Its steps, depth and output are bounded, but a stack may still end under it, or the memory: only a process of
//! its own holds what no bound does.

use std::collections::BTreeMap;

use minijinja::{Environment, Value};
use serde_json::{Map, Value as Json};

use super::strftime::{self, LocalTime};
use super::{chance, environment, marks, render, DEFAULT, TOOL_USE};
use crate::error::{Code, Error, Result};
use crate::limits::MAX_CHAT_TEMPLATE_BYTES;
use crate::worker::{self, Apart};

/// What a template sees.
pub(crate) struct Context {
    pub(crate) variables: Map<String, Json>,
    pub(crate) mark: String,
    pub(crate) now: LocalTime,
}

/// The templates, by name.
pub(crate) struct Templates {
    texts: BTreeMap<String, String>,
    runner: Runner,
}

enum Runner {
    Here(Environment<'static>),
    Apart(Box<dyn Apart>),
}

impl Templates {
    /// `apart`: where they are to be compiled and run; none: here. Errors: INVALID_ARGUMENT (too large, or not a
    /// template).
    pub(crate) fn new(texts: BTreeMap<String, String>, apart: Option<Box<dyn Apart>>) -> Result<Self> {
        let texts = texts.into_iter().filter(|(name, _)| name == DEFAULT || name == TOOL_USE);
        let texts: BTreeMap<_, _> = texts.map(|(name, text)| (name, environment::normalized(&text))).collect();
        if let Some(size) = texts.values().map(String::len).find(|size| *size > MAX_CHAT_TEMPLATE_BYTES) {
            return Err(Error::invalid(format!("chat template has {size} bytes; limit is {MAX_CHAT_TEMPLATE_BYTES}")));
        }
        let runner = match apart {
            None => Runner::Here(compile(&texts)?),
            Some(apart) => {
                worker::load_templates(apart.as_ref(), &texts)?;
                Runner::Apart(apart)
            }
        };
        Ok(Self { texts, runner })
    }

    /// Texts that are normalized already, here.
    pub(crate) fn normalized(texts: BTreeMap<String, String>) -> Result<Self> {
        let runner = Runner::Here(compile(&texts)?);
        Ok(Self { texts, runner })
    }

    /// The name of the one for a chat with tools or without.
    pub(crate) fn name(&self, has_tools: bool) -> &'static str {
        if has_tools && self.texts.contains_key(TOOL_USE) {
            TOOL_USE
        } else {
            DEFAULT
        }
    }

    /// Empty: there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// All of them, one after another.
    pub(crate) fn source(&self) -> String {
        [DEFAULT, TOOL_USE].iter().filter_map(|name| self.texts.get(*name)).cloned().collect::<Vec<_>>().join("\n")
    }

    /// What a template writes. Errors: INVALID_ARGUMENT (a bound, or it fails), FAILED_PRECONDITION (what it raises).
    pub(crate) fn run(&self, name: &str, context: Context) -> Result<String> {
        match &self.runner {
            Runner::Apart(apart) => worker::run_template(apart.as_ref(), name, &context),
            Runner::Here(environment) => {
                let template = environment.get_template(name);
                let template = template.map_err(|_| Error::new(Code::Internal, "the template is gone"))?;
                render::run(&template, value_of_context(context))
            }
        }
    }
}

fn compile(texts: &BTreeMap<String, String>) -> Result<Environment<'static>> {
    let mut environment = environment::new();
    for (name, text) in texts {
        environment::add(&mut environment, name, text)?;
    }
    Ok(environment)
}

fn value_of_context(context: Context) -> Value {
    let now = context.now;
    let now = move |format: &str| strftime::format(format, now);
    let mut values = vec![
        ("strftime_now".to_string(), Value::from_function(now)),
        ("documents".to_string(), Value::from(())),
        (chance::TIME.to_string(), Value::from(context.now.unix_seconds)),
        (marks::VARIABLE.to_string(), Value::from(context.mark)),
    ];
    values.extend(context.variables.into_iter().map(|(name, value)| (name, value_of(value))));
    Value::from_pairs(values)
}

/// Not through minijinja's serde support: it gives a key of its own a meaning, which a request could use.
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), _, _) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (_, _, value) => Value::from(value.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::from(items.into_iter().map(value_of).collect::<Vec<_>>()),
        Json::Object(fields) => Value::from_pairs(fields.into_iter().map(|(key, value)| (key, value_of(value)))),
    }
}
