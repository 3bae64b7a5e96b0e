// SPDX-License-Identifier: Apache-2.0
//! Runs a template. Its work is bounded in steps, depth and output; there is no clock in it, so a request is refused on
//! every machine or on none.

use std::collections::HashSet;
use std::error::Error as _;
use std::io;

use minijinja::{Error as JinjaError, ErrorKind, Template, Value};
use serde_json::Value as Json;

use super::arguments::{LIST_TOO_LARGE, TEXT_TOO_LARGE};
use super::environment::Raised;
use super::marks::{self, Marks};
use super::ranges;
use super::strftime::LocalTime;
use super::templates::Context;
use super::{is_python_space, ChatRequest, ChatTemplate};
use crate::error::{Code, Error, Result};
use crate::limits::{MAX_CHAT_STEPS, MAX_TEXT_BYTES};
use crate::tokenizer::TextTokenizer;

/// A rendered chat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Byte offsets in `text`, ascending, that no special token spans: inside those of the client's strings.
    pub breaks: Vec<usize>,
}

/// What does not come from the client's chat.
#[derive(Debug, Clone, Copy, Default)]
pub struct RenderOptions {
    /// For `strftime_now`.
    pub now: LocalTime,
    /// Special tokens in the client's strings are special tokens of the prompt.
    pub parse_special: bool,
}

/// What transformers appends to the message that is continued.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

impl ChatTemplate {
    /// `tokenizer`: none for text without ids. Errors: INVALID_ARGUMENT (the chat, a bound, what the template raised).
    pub fn render(
        &self,
        tokenizer: Option<&TextTokenizer>,
        request: &ChatRequest,
        options: RenderOptions,
    ) -> Result<Prompt> {
        let Some(tokenizer) = tokenizer.filter(|_| !options.parse_special) else {
            return Ok(self.render_once(None, None, request, options)?.unwrap_or_default());
        };
        let prompt = self.render_once(Some(tokenizer), None, request, options)?.unwrap_or_default();
        let letters = marks::beginnings(tokenizer);
        let Some(fenced) = self.render_once(Some(tokenizer), Some(&letters), request, options)? else {
            return Ok(prompt);
        };
        if fenced.text == prompt.text {
            return Ok(fenced); // whose breaks are more
        }
        // The template looks at what its strings say. Its own special tokens must be the same nevertheless.
        let special = |prompt: &Prompt| -> Result<Vec<u32>> {
            let mut ids = tokenizer.encode_chat(&prompt.text, &prompt.breaks)?;
            ids.retain(|id| tokenizer.special_ids().binary_search(id).is_ok());
            Ok(ids)
        };
        if special(&prompt)? != special(&fenced)? {
            return Err(Error::invalid("has strings of which the model's chat template makes special tokens"));
        }
        Ok(prompt)
    }

    /// `tokenizer`: its special tokens are marked in the client's strings. `letters`: these are, too; nothing is rendered
    /// if the client's strings have none of them.
    fn render_once(
        &self,
        tokenizer: Option<&TextTokenizer>,
        letters: Option<&HashSet<char>>,
        request: &ChatRequest,
        options: RenderOptions,
    ) -> Result<Option<Prompt>> {
        let mut variables = request.parse(self.content_format)?;
        let choice = Json::Object(variables.options);
        let mut inputs = [variables.messages, variables.tools, choice];
        let [messages, tools, choice] = &inputs;
        let mut marks = Marks::choose(&[messages, tools, choice])?;
        if let Some(tokenizer) = tokenizer {
            inputs.iter_mut().for_each(|input| marks.mark(tokenizer, input));
        }
        if let Some(letters) = letters {
            if !inputs.iter().any(|input| marks::has_any(letters, input)) {
                return Ok(None);
            }
            inputs.iter_mut().for_each(|input| marks.fence(letters, input));
        }
        let [messages, tools, choice] = inputs;
        variables.messages = messages;
        variables.tools = tools;
        let Json::Object(choice) = choice else { return Err(Error::new(Code::Internal, "options are an object")) };

        let name = self.templates.name(!variables.tools.is_null());
        let continued = match request.continue_final_message {
            true => Some(tag_final_message(&mut variables.messages, self.templates.text(name))?),
            false => None,
        };
        let mut context = self.special_tokens.clone();
        context.extend(choice);
        context.insert("messages".to_string(), variables.messages);
        context.insert("tools".to_string(), variables.tools);
        context.insert("add_generation_prompt".to_string(), request.add_generation_prompt.into());
        let context = Context { variables: context, mark: marks.variable(), now: options.now };
        // What a template raises may quote the client's strings.
        let unmarked = |error: Error| Error::new(error.code, marks.remove(error.message).0);
        let mut rendered = self.templates.run(name, context).map_err(unmarked)?;
        if let Some(final_text) = continued {
            rendered = cut_at_tag(rendered, &final_text)?;
        }
        let (text, breaks) = marks.remove(rendered);
        Ok(Some(Prompt { text, breaks }))
    }
}

pub(super) fn run(template: &Template, context: Value) -> Result<String> {
    let mut output = BoundedOutput::default();
    let result = template.render_captured_to(context, &mut output).map(drop);
    if output.overflowed {
        return Err(Error::invalid(format!(
            "makes a prompt of more than {MAX_TEXT_BYTES} bytes; limit is {MAX_TEXT_BYTES}"
        )));
    }
    result.map_err(|error| described(&error))?;
    String::from_utf8(output.bytes).map_err(|_| Error::new(Code::Internal, "the template wrote no UTF-8"))
}

/// What the template raised, or why it failed. Only details that speak of the template, not of values, are passed on.
fn described(error: &JinjaError) -> Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(raised) = cause.downcast_ref::<Raised>() {
            let message = format!("is refused by the model's chat template: {}", raised.0);
            return Error::new(Code::FailedPrecondition, message);
        }
        source = cause.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return Error::invalid(format!(
            "takes more steps of its template than {MAX_CHAT_STEPS}; limit is {MAX_CHAT_STEPS}"
        ));
    }
    let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
    let detail = match error.kind() {
        ErrorKind::UndefinedError
        | ErrorKind::UnknownMethod
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownFilter => error.detail().map(|detail| format!(": {detail}")).unwrap_or_default(),
        ErrorKind::InvalidOperation if error.detail().is_some_and(|detail| detail.contains("recursion")) => {
            format!(": nested deeper than {}", crate::limits::MAX_CHAT_TEMPLATE_DEPTH)
        }
        ErrorKind::InvalidOperation if error.detail() == Some(ranges::TOO_LONG) => {
            ": a range of more than 100000 elements".to_owned()
        }
        ErrorKind::InvalidOperation => {
            let sizes = [TEXT_TOO_LARGE, LIST_TOO_LARGE].into_iter();
            sizes.filter(|size| error.detail() == Some(size)).map(|size| format!(": {size}")).collect()
        }
        _ => String::new(),
    };
    Error::invalid(format!("fails in the model's chat template{line}: {}{detail}", error.kind()))
}

/// Appends the tag to the text that is continued, and returns that text.
fn tag_final_message(messages: &mut Json, template: &str) -> Result<String> {
    let last = messages.as_array_mut().and_then(|messages| messages.last_mut());
    let content = last.and_then(|message| message.get_mut("content"));
    let none = || Error::invalid("sets continue_final_message, but its last message has no text content");
    if !template.contains("content") {
        return Err(Error::invalid(
            "sets continue_final_message, but the model's chat template does not read the content of messages",
        ));
    }
    let text = match content.ok_or_else(none)? {
        Json::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")).ok_or_else(none)?,
        content => content,
    };
    let Json::String(text) = text else { return Err(none()) };
    let original = text.clone();
    text.push_str(CONTINUE_TAG);
    Ok(original)
}

fn cut_at_tag(mut rendered: String, final_text: &str) -> Result<String> {
    let tag = CONTINUE_TAG.trim_end();
    let at = rendered.rfind(tag).filter(|_| rendered.contains(final_text.trim_matches(is_python_space)));
    let at = at.ok_or_else(|| {
        Error::invalid("sets continue_final_message, but the last message does not appear in the prompt as it is")
    })?;
    let is_whole = rendered[at..].starts_with(CONTINUE_TAG);
    rendered.truncate(at);
    if !is_whole {
        // The template trims the message, and with it the end of the text before the tag.
        rendered.truncate(rendered.trim_end_matches(is_python_space).len());
    }
    Ok(rendered)
}

#[derive(Default)]
struct BoundedOutput {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl io::Write for BoundedOutput {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + text.len() > MAX_TEXT_BYTES {
            self.overflowed = true;
            return Err(io::Error::other("the output is full"));
        }
        self.bytes.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
