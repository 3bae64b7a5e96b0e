// SPDX-License-Identifier: Apache-2.0
//! Chat templates: from messages to a prompt, as `apply_chat_template` of Hugging Face transformers 5.24 renders it.
//!
//! In the order of use: `source` finds a model's template, `environment` compiles it with the functions, filters and
//! whitespace rules that transformers gives it, `templates` holds the result, here or in another process, `request` reads a
//! chat, `marks` marks special tokens that stand in the client's strings, `render` runs the template within bounds, `encode`
//! turns the result into ids.

mod arguments;
mod bytes;
mod chance;
mod comparisons;
mod content_format;
mod encode;
mod environment;
mod filters;
mod generators;
mod globals;
mod html;
mod jinja_tests;
mod json;
mod list_filters;
mod marks;
mod methods;
mod operators;
mod pad;
mod pretty;
mod printf;
mod python_float;
mod python_text;
mod ranges;
mod render;
mod request;
mod source;
mod strftime;
mod tags;
mod templates;
mod text_filters;
mod text_methods;
mod urlize;
mod views;
mod word_wrap;

use serde_json::{Map, Value as Json};

pub use render::{Prompt, RenderOptions};
pub use request::ChatRequest;
pub use source::{load, ChatFiles};
pub use strftime::LocalTime;

pub(crate) use templates::{Context, Templates};

use content_format::ContentFormat;

/// The chat template of a model. Immutable: any thread may render.
pub struct ChatTemplate {
    templates: Templates,
    /// bos_token, eos_token and the like, as tokenizer_config.json names them.
    special_tokens: Map<String, Json>,
    content_format: ContentFormat,
}

impl ChatTemplate {
    /// The texts of the templates, one after another.
    pub fn source(&self) -> String {
        self.templates.source()
    }
}

/// The name of a template in `environment`; transformers' word.
const DEFAULT: &str = "default";
/// The one that transformers takes when tools are given.
const TOOL_USE: &str = "tool_use";

/// `str.strip()` of Python counts four more characters as white space than Rust does.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
