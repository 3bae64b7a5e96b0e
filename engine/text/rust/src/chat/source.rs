// SPDX-License-Identifier: Apache-2.0
//! Where a model's template comes from. The first of: the text that the operator gives, chat_template.jinja with
//! additional_chat_templates/*.jinja, chat_template of tokenizer_config.json (a text, or a list of named ones).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{environment, ChatTemplate, ContentFormat, DEFAULT, TOOL_USE};
use crate::error::{quote, Code, Error, Result};
use crate::limits::{MAX_CHAT_TEMPLATE_BYTES, MAX_TOKENIZER_CONFIG_BYTES};
use crate::load::read_file;

/// The variables of transformers' `special_tokens_map`, by name.
const TOKEN_NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// The template of the model in `dir`, which may be empty (no directory). `given`: the operator's template; it replaces
/// the model's own. Errors: NOT_FOUND (none), INVALID_ARGUMENT (it is too large or does not compile).
pub fn load(dir: &Path, given: Option<&str>) -> Result<ChatTemplate> {
    let config = read_config(dir)?;
    let texts = match given {
        Some(text) => BTreeMap::from([(DEFAULT.to_string(), text.to_string())]),
        None => match files(dir)? {
            texts if texts.is_empty() => from_config(&config)?,
            texts => texts,
        },
    };
    if texts.is_empty() {
        return Err(Error::new(Code::NotFound, "the model has no chat template"));
    }
    if !texts.contains_key(DEFAULT) {
        let names: Vec<String> = texts.keys().map(|name| quote(name)).collect();
        return Err(Error::invalid(format!("chat templates {} do not include \"default\"", names.join(", "))));
    }
    compile(texts, special_tokens(&config))
}

fn compile(texts: BTreeMap<String, String>, special_tokens: Map<String, Json>) -> Result<ChatTemplate> {
    let mut environment = environment::new();
    for (name, text) in texts.into_iter().filter(|(name, _)| name == DEFAULT || name == TOOL_USE) {
        if text.len() > MAX_CHAT_TEMPLATE_BYTES {
            let size = text.len();
            return Err(Error::invalid(format!("chat template has {size} bytes; limit is {MAX_CHAT_TEMPLATE_BYTES}")));
        }
        environment::add(&mut environment, &name, &text)?;
    }
    let mut template = ChatTemplate { environment, special_tokens, content_format: ContentFormat::Parts };
    template.content_format = ContentFormat::of(&template);
    Ok(template)
}

fn read_config(dir: &Path) -> Result<Map<String, Json>> {
    if dir.as_os_str().is_empty() {
        return Ok(Map::new());
    }
    let bytes = match read_file(dir, "tokenizer_config.json", MAX_TOKENIZER_CONFIG_BYTES) {
        Err(error) if error.code == Code::NotFound => return Ok(Map::new()),
        other => other?,
    };
    serde_json::from_slice(&bytes).map_err(|error| Error::invalid(format!("tokenizer_config.json: {error}")))
}

fn from_config(config: &Map<String, Json>) -> Result<BTreeMap<String, String>> {
    let Some(value) = config.get("chat_template").filter(|value| !value.is_null()) else {
        return Ok(BTreeMap::new());
    };
    let templates = Templates::deserialize(value).map_err(|_| {
        Error::invalid("tokenizer_config.json: chat_template is neither a text nor a list of {name, template}")
    })?;
    Ok(match templates {
        Templates::One(text) => BTreeMap::from([(DEFAULT.to_string(), text)]),
        Templates::Named(list) => list.into_iter().map(|entry| (entry.name, entry.template)).collect(),
    })
}

/// chat_template.jinja, and of the additional ones that which is used.
fn files(dir: &Path) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    if dir.as_os_str().is_empty() {
        return Ok(texts);
    }
    for (name, file) in [(DEFAULT, "chat_template.jinja"), (TOOL_USE, "additional_chat_templates/tool_use.jinja")] {
        match read_file(dir, file, MAX_CHAT_TEMPLATE_BYTES) {
            Err(error) if error.code == Code::NotFound => {}
            Err(error) => return Err(error),
            Ok(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{file} is not UTF-8")))?;
                texts.insert(name.to_string(), text);
            }
        }
    }
    Ok(texts)
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
