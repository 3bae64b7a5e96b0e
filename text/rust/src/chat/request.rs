// SPDX-License-Identifier: Apache-2.0
//! A chat as a template sees it: the messages, tools and options of the client, prepared as `apply_chat_template` of
//! transformers prepares them.

use serde_json::{Map, Value as Json};

use super::content_format::ContentFormat;
use crate::error::{Error, Result};

/// What the client gave, as JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChatRequest<'a> {
    /// A list of objects.
    pub messages: &'a str,
    /// A list of objects; empty: none.
    pub tools: &'a str,
    /// An object of further variables of the template (`enable_thinking`); empty: none.
    pub options: &'a str,
    /// Ask the template for the beginning of an answer.
    pub add_generation_prompt: bool,
    /// The prompt ends inside the last message, which the model continues.
    pub continue_final_message: bool,
}

/// Names under which a message's reasoning is passed, in the order of their precedence.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
/// Variables that the request has fields for.
const RESERVED: [&str; 4] = ["messages", "tools", "add_generation_prompt", "continue_final_message"];

/// The variables of one rendering.
pub(super) struct Variables {
    pub messages: Json,
    /// Null: no tools.
    pub tools: Json,
    pub options: Map<String, Json>,
}

impl ChatRequest<'_> {
    pub(super) fn parse(&self, format: ContentFormat) -> Result<Variables> {
        let Json::Array(messages) = parse("messages", self.messages)? else {
            return Err(Error::invalid("has messages that are not a JSON list"));
        };
        if messages.is_empty() {
            return Err(Error::invalid("has no messages"));
        }
        let messages = messages.into_iter().enumerate().map(|(i, message)| prepared(i, message, format));
        let messages = messages.collect::<Result<Vec<Json>>>()?;
        let tools = if self.tools.is_empty() { Json::Null } else { parse("tools", self.tools)? };
        if !tools.is_null() && !tools.as_array().is_some_and(|tools| tools.iter().all(Json::is_object)) {
            return Err(Error::invalid("has tools that are not a JSON list of objects"));
        }
        let options =
            if self.options.is_empty() { Json::Object(Map::new()) } else { parse("template options", self.options)? };
        let Json::Object(options) = options else {
            return Err(Error::invalid("has template options that are not a JSON object"));
        };
        if let Some(name) = RESERVED.iter().find(|name| options.contains_key(**name)) {
            return Err(Error::invalid(format!("has a template option \"{name}\", which has a field of its own")));
        }
        Ok(Variables { messages: Json::Array(messages), tools, options })
    }
}

fn parse(name: &str, json: &str) -> Result<Json> {
    serde_json::from_str(json).map_err(|error| {
        // The library's message names the place and what it expected, never the text.
        Error::invalid(format!("has {name} that are not JSON: {error}"))
    })
}

/// Fields that are null are dropped; reasoning is there under the names that templates read; the arguments of tool calls
/// are objects; parts of a text become one text where the template takes no parts.
fn prepared(index: usize, message: Json, format: ContentFormat) -> Result<Json> {
    let Json::Object(fields) = message else {
        return Err(Error::invalid(format!("has a message, number {index}, that is not an object")));
    };
    let mut fields: Map<String, Json> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
    let calls = fields.get_mut("tool_calls").and_then(Json::as_array_mut);
    for (at, call) in calls.into_iter().flatten().enumerate() {
        parse_arguments(call).map_err(|problem| {
            Error::invalid(format!("has arguments in messages[{index}].tool_calls[{at}] that are {problem}"))
        })?;
    }
    if format == ContentFormat::Text {
        if let Some(text) = fields.get("content").and_then(joined) {
            fields.insert("content".to_string(), Json::String(text));
        }
    }
    Ok(Json::Object(with_reasoning(fields)))
}

fn with_reasoning(mut fields: Map<String, Json>) -> Map<String, Json> {
    let Some(reasoning) = REASONING_FIELDS.iter().find_map(|name| fields.get(*name)).cloned() else {
        return fields;
    };
    let mut named = Map::new();
    named.insert("thinking".to_string(), fields.get("thinking").unwrap_or(&reasoning).clone());
    fields.shift_remove("thinking");
    named.extend(fields);
    named.insert("reasoning_content".to_string(), reasoning);
    named
}

/// APIs pass the arguments of a call as a text; templates read an object.
fn parse_arguments(call: &mut Json) -> std::result::Result<(), &'static str> {
    let arguments = match call.get_mut("function") {
        Some(function) => function.get_mut("arguments"),
        None => call.get_mut("arguments"),
    };
    let Some(arguments) = arguments else { return Ok(()) };
    if let Json::String(text) = arguments {
        let text = if text.trim().is_empty() { "{}" } else { text };
        *arguments = serde_json::from_str(text).map_err(|_| "not JSON")?;
    }
    if arguments.is_object() {
        Ok(())
    } else {
        Err("not a JSON object")
    }
}

/// The texts of a list of parts, one per line.
fn joined(content: &Json) -> Option<String> {
    let texts: Option<Vec<&str>> = content.as_array()?.iter().map(|part| part.get("text")?.as_str()).collect();
    texts.map(|texts| texts.join("\n"))
}
