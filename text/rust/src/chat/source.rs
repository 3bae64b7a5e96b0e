// SPDX-License-Identifier: Apache-2.0
//! Where a model's template comes from. The first of: the text that the operator gives, chat_template.jinja with
//! additional_chat_templates/*.jinja, chat_template of tokenizer_config.json (a text, or a list of named ones), that of
//! chat_template.json, which processors of transformers wrote.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::templates::Templates;
use super::{ChatTemplate, ContentFormat, DEFAULT, TOOL_USE};
use crate::error::{quote, Code, Error, Result};
use crate::python_json;
use crate::worker::Apart;

/// The variables of transformers' `special_tokens_map`, by name.
const TOKEN_NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

const CONFIG_FILE: &str = "tokenizer_config.json";
const PROCESSOR_FILE: &str = "chat_template.json";

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// Files of a model directory; one that is absent is empty.
pub struct ChatFiles<'a> {
    /// tokenizer_config.json
    pub config: &'a [u8],
    /// chat_template.jinja
    pub chat_template: &'a str,
    /// additional_chat_templates/tool_use.jinja
    pub tool_use: &'a str,
    /// chat_template.json
    pub processor_template: &'a [u8],
}

/// The template of the model. `given`: the operator's template; it replaces the model's own. `apart`: where it runs;
/// none: in this process. Errors: NOT_FOUND (none), INVALID_ARGUMENT (it is too large or does not compile), those of
/// `apart`.
pub fn load(files: &ChatFiles, given: Option<&str>, apart: Option<Box<dyn Apart>>) -> Result<ChatTemplate> {
    let config = parse(CONFIG_FILE, files.config)?;
    let texts = match given {
        Some(text) => BTreeMap::from([(DEFAULT.to_string(), text.to_string())]),
        None => of_model(files, &config)?,
    };
    if texts.is_empty() {
        return Err(Error::new(Code::NotFound, "the model has no chat template"));
    }
    if !texts.contains_key(DEFAULT) {
        let names: Vec<String> = texts.keys().map(|name| quote(name)).collect();
        return Err(Error::invalid(format!("chat templates {} do not include \"default\"", names.join(", "))));
    }
    let templates = Templates::new(texts, apart)?;
    let special_tokens = special_tokens(&config);
    let mut template = ChatTemplate { templates, special_tokens, content_format: ContentFormat::Parts };
    template.content_format = ContentFormat::of(&template);
    Ok(template)
}

/// An empty file is an empty object.
fn parse(name: &str, bytes: &[u8]) -> Result<Map<String, Json>> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    python_json::parse(name, bytes)
}

/// By name; none: the model has no template.
fn of_model(files: &ChatFiles, config: &Map<String, Json>) -> Result<BTreeMap<String, String>> {
    let mut texts = from_files(files);
    if texts.is_empty() {
        texts = from_config(CONFIG_FILE, config)?;
    }
    if texts.is_empty() {
        texts = from_config(PROCESSOR_FILE, &parse(PROCESSOR_FILE, files.processor_template)?)?;
    }
    Ok(texts)
}

fn from_config(name: &str, config: &Map<String, Json>) -> Result<BTreeMap<String, String>> {
    let Some(value) = config.get("chat_template").filter(|value| !value.is_null()) else {
        return Ok(BTreeMap::new());
    };
    let templates = Given::deserialize(value).map_err(|_| {
        Error::invalid(format!("{name}: chat_template is neither a text nor a list of {{name, template}}"))
    })?;
    Ok(match templates {
        Given::One(text) => BTreeMap::from([(DEFAULT.to_string(), text)]),
        Given::Named(list) => list.into_iter().map(|entry| (entry.name, entry.template)).collect(),
    })
}

/// Of the files.
fn from_files(files: &ChatFiles) -> BTreeMap<String, String> {
    [(DEFAULT, files.chat_template), (TOOL_USE, files.tool_use)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_string(), text.to_string()))
        .collect()
}

fn special_tokens(config: &Map<String, Json>) -> Map<String, Json> {
    let text = |value: &Json| match value {
        Json::String(text) => Some(text.clone()),
        Json::Object(fields) => fields.get("content")?.as_str().map(str::to_string),
        _ => None,
    };
    let mut tokens = Map::new();
    for name in TOKEN_NAMES {
        if let Some(token) = config.get(name).and_then(text) {
            tokens.insert(name.to_string(), Json::String(token));
        }
    }
    tokens
}
