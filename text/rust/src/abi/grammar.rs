// SPDX-License-Identifier: Apache-2.0
//! Section "Grammar" of the header.

use super::buffer::{checked_ids, put, slice, Bytes, ErrorMessage};
use super::guard;
use super::tokenizer::live;
use crate::error::{Error, Result};
use crate::grammar::{CompiledGrammar, GrammarCompiler, GrammarSource, GrammarState};
use crate::{worker, TextTokenizer};

const JSON_SCHEMA: i32 = 0;
const JSON_OBJECT: i32 = 1;
const REGEX: i32 = 2;
const CHOICE: i32 = 3;
const GRAMMAR: i32 = 4;
const COMPOSED: i32 = 5;

/// `dunlin_text_grammar_source`.
#[repr(C)]
pub struct Source {
    kind: i32,
    text: *const u8,
    text_size: usize,
    choice_sizes: *const usize,
    num_choices: usize,
    parts: *const Source,
    num_parts: usize,
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_compiler_new(
    tokenizer: *const TextTokenizer,
    eos_ids: *const i32,
    num_eos_ids: usize,
    vocab_size: i32,
    out: *mut *mut GrammarCompiler,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, eos_ids) = unsafe { (live(tokenizer)?, slice(eos_ids, num_eos_ids)) };
        let width = u32::try_from(vocab_size).unwrap_or(0);
        put_handle(out, GrammarCompiler::new(tokenizer, &checked_ids(eos_ids)?, width)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_limit_growth(compiler: *const GrammarCompiler, bytes: usize) {
    // SAFETY: a live handle.
    if let Some(compiler) = unsafe { compiler.as_ref() } {
        compiler.limit_growth(bytes);
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_compiler_free(compiler: *mut GrammarCompiler) {
    // SAFETY: made by compiler_new, freed once.
    unsafe { free(compiler) };
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_compile(
    compiler: *const GrammarCompiler,
    source: *const Source,
    out: *mut *mut CompiledGrammar,
    refused_part: *mut i64,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and a readable struct.
        let (compiler, source) = unsafe { (compiler.as_ref(), source.as_ref()) };
        let compiler = compiler.ok_or_else(|| Error::invalid("the compiler handle is null"))?;
        let source = source.ok_or_else(|| Error::invalid("the source is null"))?;
        // SAFETY: the header's rule for inputs.
        let compiled = unsafe { whole_source(source) }.and_then(|source| compiler.compile(&source));
        compiled.map_err(|error| noted(error, refused_part)).and_then(|compiled| put_handle(out, compiled))
    })
}

/// The index of the part that is refused.
fn noted(error: Error, refused_part: *mut i64) -> Error {
    // SAFETY: null or writable.
    if let (Some(part), Some(out)) = (error.part, unsafe { refused_part.as_mut() }) {
        *out = part as i64;
    }
    error
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_setup(
    tokenizer: *const TextTokenizer,
    eos_ids: *const i32,
    num_eos_ids: usize,
    vocab_size: i32,
    request: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, eos_ids) = unsafe { (live(tokenizer)?, slice(eos_ids, num_eos_ids)) };
        let width = u32::try_from(vocab_size).unwrap_or(0);
        put(request, worker::setup_of(tokenizer, &checked_ids(eos_ids)?, width)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_request(
    source: *const Source,
    request: *mut Bytes,
    refused_part: *mut i64,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a readable struct, and the header's rule for inputs.
        let source = unsafe { source.as_ref() }.ok_or_else(|| Error::invalid("the source is null"))?;
        let source = unsafe { whole_source(source) }.map_err(|error| noted(error, refused_part))?;
        put(request, worker::compilation_of(&source))
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_check_reply(
    reply: *const u8,
    reply_size: usize,
    refused_part: *mut i64,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: the header's rule for inputs.
        worker::check_reply(unsafe { slice(reply, reply_size) }).map_err(|error| noted(error, refused_part))
    })
}

/// SAFETY: the header's rule for inputs, for as long as what is returned lives.
unsafe fn whole_source<'a>(source: &Source) -> Result<GrammarSource<'a>> {
    // SAFETY: as above.
    let parts = unsafe { slice(source.parts, source.num_parts) };
    let parts = parts.iter().enumerate().map(|(at, part)| {
        // SAFETY: as above.
        unsafe { grammar_source(part, vec![]) }.map_err(|error| Error { part: Some(at), ..error })
    });
    // SAFETY: as above.
    unsafe { grammar_source(source, parts.collect::<Result<Vec<_>>>()?) }
}

/// SAFETY: the header's rule for inputs, for as long as what is returned lives.
unsafe fn grammar_source<'a>(source: &Source, parts: Vec<GrammarSource<'a>>) -> Result<GrammarSource<'a>> {
    // SAFETY: as above.
    let (bytes, sizes) =
        unsafe { (slice(source.text, source.text_size), slice(source.choice_sizes, source.num_choices)) };
    let text = std::str::from_utf8(bytes)
        .map_err(|broken| Error::invalid(format!("is not UTF-8 at byte {}", broken.valid_up_to())))?;
    Ok(match source.kind {
        JSON_SCHEMA => GrammarSource::JsonSchema(text),
        JSON_OBJECT => GrammarSource::JsonObject,
        REGEX => GrammarSource::Regex(text),
        GRAMMAR => GrammarSource::Grammar(text),
        CHOICE => GrammarSource::Choice(choices(text, sizes)?),
        COMPOSED => GrammarSource::Composed(text, parts),
        _ => return Err(Error::invalid("the kind is unknown")),
    })
}

fn choices<'a>(text: &'a str, sizes: &[usize]) -> Result<Vec<&'a str>> {
    let mut rest = text;
    let mut choices = Vec::with_capacity(sizes.len());
    for size in sizes {
        let choice = rest.get(..*size).ok_or_else(|| Error::invalid("has a text that is not UTF-8"))?;
        choices.push(choice);
        rest = &rest[*size..];
    }
    Ok(choices)
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_free(grammar: *mut CompiledGrammar) {
    // SAFETY: made by compile, freed once.
    unsafe { free(grammar) };
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_bytes(grammar: *const CompiledGrammar) -> usize {
    // SAFETY: null or a live handle.
    unsafe { grammar.as_ref() }.map_or(0, CompiledGrammar::bytes)
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_state_new(
    grammar: *const CompiledGrammar,
    out: *mut *mut GrammarState,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: null or a live handle.
        let grammar = unsafe { grammar.as_ref() }.ok_or_else(|| Error::invalid("the grammar handle is null"))?;
        put_handle(out, grammar.start())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_state_free(state: *mut GrammarState) {
    // SAFETY: made by state_new, freed once.
    unsafe { free(state) };
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_state_clone(
    state: *const GrammarState,
    out: *mut *mut GrammarState,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: null or a live handle that no other thread uses.
        let state = unsafe { state.as_ref() }.ok_or_else(|| Error::invalid("the state handle is null"))?;
        put_handle(out, state.fork())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_fill_mask(
    state: *mut GrammarState,
    mask: *mut u32,
    num_words: usize,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        if mask.is_null() {
            return Err(Error::invalid("the mask is null"));
        }
        // SAFETY: a live handle that no other thread uses, and num_words writable words.
        let (state, mask) = unsafe { (live_state(state)?, std::slice::from_raw_parts_mut(mask, num_words)) };
        state.fill_mask(mask)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_accept(
    state: *mut GrammarState,
    token: i32,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        let token = u32::try_from(token).map_err(|_| Error::invalid("the token is negative"))?;
        // SAFETY: a live handle that no other thread uses.
        unsafe { live_state(state) }?.accept(token)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_grammar_is_accepting(state: *const GrammarState) -> bool {
    // SAFETY: null or a live handle.
    unsafe { state.as_ref() }.is_some_and(GrammarState::is_accepting)
}

/// SAFETY: null, or a handle that no other thread uses or frees during `'a`.
unsafe fn live_state<'a>(state: *mut GrammarState) -> Result<&'a mut GrammarState> {
    // SAFETY: as above.
    unsafe { state.as_mut() }.ok_or_else(|| Error::invalid("the state handle is null"))
}

pub(super) fn put_handle<T>(out: *mut *mut T, value: T) -> Result<()> {
    // SAFETY: the header asks for a writable pointer.
    let out = unsafe { out.as_mut() }.ok_or_else(|| Error::invalid("the output pointer is null"))?;
    *out = Box::into_raw(Box::new(value));
    Ok(())
}

/// SAFETY: null, or made by [`put_handle`] and freed once.
pub(super) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(handle) });
    }
}
