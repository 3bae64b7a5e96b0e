// SPDX-License-Identifier: Apache-2.0
//! Section "Chat" of the header.

use super::buffer::{put, put_ids, slice, Bytes, ErrorMessage, Ids};
use super::guard;
use super::tokenizer::{live, PARSE_SPECIAL};
use super::worker::Caller;
use crate::chat::{self, ChatFiles, ChatRequest, ChatTemplate, LocalTime, RenderOptions};
use crate::error::{Error, Result};
use crate::TextTokenizer;

const ADD_GENERATION_PROMPT: u32 = 8;
const CONTINUE_FINAL_MESSAGE: u32 = 16;

/// `dunlin_text_chat_request`.
#[repr(C)]
pub struct Request {
    messages: *const u8,
    messages_size: usize,
    tools: *const u8,
    tools_size: usize,
    options: *const u8,
    options_size: usize,
    unix_seconds: i64,
    utc_offset_seconds: i64,
    flags: u32,
}

/// `dunlin_text_chat_files`.
#[repr(C)]
pub struct Files {
    tokenizer_config: *const u8,
    tokenizer_config_size: usize,
    chat_template: *const u8,
    chat_template_size: usize,
    tool_use: *const u8,
    tool_use_size: usize,
    processor_template: *const u8,
    processor_template_size: usize,
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_chat_load(
    files: *const Files,
    given: *const u8,
    given_size: usize,
    apart: Caller,
    out: *mut *mut ChatTemplate,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a readable struct and the header's rule for inputs.
        let files = unsafe { files.as_ref() }.ok_or_else(|| Error::invalid("the files are null"))?;
        // SAFETY: as above.
        let (files, given) = unsafe {
            let config = slice(files.tokenizer_config, files.tokenizer_config_size);
            let chat_template = utf8("chat_template.jinja", files.chat_template, files.chat_template_size)?;
            let tool_use = utf8("tool_use.jinja", files.tool_use, files.tool_use_size)?;
            let processor_template = slice(files.processor_template, files.processor_template_size);
            let files = ChatFiles { config, chat_template, tool_use, processor_template };
            (files, utf8("the chat template", given, given_size)?)
        };
        // SAFETY: the header asks for a writable pointer.
        let out = unsafe { out.as_mut() }.ok_or_else(|| Error::invalid("the output pointer is null"))?;
        let template = chat::load(&files, Some(given).filter(|text| !text.is_empty()), apart.into_apart())?;
        *out = Box::into_raw(Box::new(template));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_chat_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        // SAFETY: made by chat_load, freed once.
        drop(unsafe { Box::from_raw(template) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_chat_source(
    template: *const ChatTemplate,
    text: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle, by the header.
        let template = unsafe { template.as_ref() }.ok_or_else(|| Error::invalid("the template handle is null"))?;
        put(text, template.source().into_bytes())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_chat_render(
    template: *const ChatTemplate,
    tokenizer: *const TextTokenizer,
    request: *const Request,
    text: *mut Bytes,
    breaks: *mut Ids,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: live handles and a readable struct, by the header.
        let (template, tokenizer, request) = unsafe { (template.as_ref(), live(tokenizer)?, request.as_ref()) };
        let template = template.ok_or_else(|| Error::invalid("the template handle is null"))?;
        let request = request.ok_or_else(|| Error::invalid("the request is null"))?;
        // SAFETY: the header's rule for inputs.
        let chat = unsafe {
            ChatRequest {
                messages: utf8("messages", request.messages, request.messages_size)?,
                tools: utf8("tools", request.tools, request.tools_size)?,
                options: utf8("options", request.options, request.options_size)?,
                add_generation_prompt: request.flags & ADD_GENERATION_PROMPT != 0,
                continue_final_message: request.flags & CONTINUE_FINAL_MESSAGE != 0,
            }
        };
        let now = LocalTime { unix_seconds: request.unix_seconds, utc_offset_seconds: request.utc_offset_seconds };
        let options = RenderOptions { now, parse_special: request.flags & PARSE_SPECIAL != 0 };
        let prompt = template.render(Some(tokenizer), &chat, options)?;
        // Offsets are below the limit of a text, which is far below 2^31.
        let offsets: Vec<i32> = prompt.breaks.iter().map(|at| *at as i32).collect();
        put(text, prompt.text.into_bytes())?;
        put(breaks, offsets)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_chat_encode(
    tokenizer: *const TextTokenizer,
    text: *const u8,
    text_size: usize,
    breaks: *const i32,
    num_breaks: usize,
    ids: *mut Ids,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, text, offsets) =
            unsafe { (live(tokenizer)?, utf8("text", text, text_size)?, slice(breaks, num_breaks)) };
        // A negative offset becomes a number beyond every text.
        let breaks: Vec<usize> = offsets.iter().map(|at| *at as u32 as usize).collect();
        put_ids(ids, &tokenizer.encode_chat(text, &breaks)?)
    })
}

/// SAFETY: as [`slice`].
unsafe fn utf8<'a>(name: &str, data: *const u8, size: usize) -> Result<&'a str> {
    // SAFETY: as above.
    let bytes = unsafe { slice(data, size) };
    std::str::from_utf8(bytes)
        .map_err(|broken| Error::invalid(format!("{name} is not UTF-8 at byte {}", broken.valid_up_to())))
}
