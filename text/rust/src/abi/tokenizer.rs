// SPDX-License-Identifier: Apache-2.0
//! Section "Tokenizer" of the header. A handle is an `Arc`: a stream holds its own reference.

use std::sync::Arc;

use super::buffer::{checked_ids, put, put_ids, slice, Bytes, ErrorMessage, Ids};
use super::guard;
use crate::error::{Code, Error, Result};
use crate::{limits, load, EncodeOptions, TextTokenizer};

pub(super) const ADD_SPECIAL_TOKENS: u32 = 1;
pub(super) const PARSE_SPECIAL: u32 = 2;
pub(super) const SKIP_SPECIAL: u32 = 4;
pub(super) const TRUNCATE: u32 = 8;

const TOKENIZER_JSON: i32 = 0;
const VOCABULARY: i32 = 1;
const SENTENCEPIECE: i32 = 2;
const TIKTOKEN: i32 = 3;

#[repr(C)]
pub struct Limits {
    text_bytes: usize,
    token_ids: usize,
    tokenizer_json_bytes: usize,
    vocab_size: i64,
}

#[repr(C)]
pub struct Facts {
    vocab_size: i64,
    bos_token_id: i64,
    eos_token_id: i64,
    max_bytes_per_token: usize,
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_get_limits(out: *mut Limits) {
    // SAFETY: the header asks for a writable struct.
    if let Some(out) = unsafe { out.as_mut() } {
        *out = Limits {
            text_bytes: limits::MAX_TEXT_BYTES,
            token_ids: limits::MAX_TOKEN_IDS,
            tokenizer_json_bytes: limits::MAX_TOKENIZER_JSON_BYTES,
            vocab_size: i64::from(limits::MAX_VOCAB_SIZE),
        };
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_tokenizer_load(
    form: i32,
    text: *const u8,
    text_size: usize,
    config: *const u8,
    config_size: usize,
    vocab_limit: i64,
    out: *mut *const TextTokenizer,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: the header's rule for inputs.
        let (text, config) = unsafe { (slice(text, text_size), slice(config, config_size)) };
        let load = match form {
            TOKENIZER_JSON => load::load_json,
            VOCABULARY => load::load_vocabulary,
            SENTENCEPIECE => load::load_sentencepiece,
            TIKTOKEN => load::load_tiktoken,
            _ => return Err(Error::invalid(format!("form is {form}; limit is [0, 3]"))),
        };
        put_tokenizer(out, load(text, config, checked_limit(vocab_limit)?)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_tokenizer_free(tokenizer: *const TextTokenizer) {
    if !tokenizer.is_null() {
        // SAFETY: made by put_tokenizer, freed once.
        drop(unsafe { Arc::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_get_facts(tokenizer: *const TextTokenizer, out: *mut Facts) {
    // SAFETY: a live handle and a writable struct, by the header.
    if let (Some(tokenizer), Some(out)) = unsafe { (tokenizer.as_ref(), out.as_mut()) } {
        let or_none = |id: Option<u32>| id.map_or(-1, i64::from);
        *out = Facts {
            vocab_size: i64::from(tokenizer.vocab_size()),
            bos_token_id: or_none(tokenizer.bos_id()),
            eos_token_id: or_none(tokenizer.eos_id()),
            max_bytes_per_token: tokenizer.bytes_per_token().unwrap_or(0),
        };
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_special_ids(
    tokenizer: *const TextTokenizer,
    out: *mut Ids,
    error: *mut ErrorMessage,
) -> i32 {
    // SAFETY: a live handle, by the header.
    guard::status(error, || put_ids(out, unsafe { live(tokenizer) }?.special_ids()))
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_encode(
    tokenizer: *const TextTokenizer,
    text: *const u8,
    text_size: usize,
    flags: u32,
    max_ids: usize,
    out: *mut Ids,
    is_longer: *mut bool,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and the header's rules for inputs and outputs.
        let (tokenizer, text, is_longer) = unsafe { (live(tokenizer)?, slice(text, text_size), is_longer.as_mut()) };
        let is_longer = is_longer.ok_or_else(|| Error::invalid("the output pointer is null"))?;
        let options = EncodeOptions {
            add_special_tokens: flags & ADD_SPECIAL_TOKENS != 0,
            parse_special: flags & PARSE_SPECIAL != 0,
        };
        let encoded = tokenizer.encode_at_most(utf8(text)?, options, max_ids, flags & TRUNCATE != 0)?;
        put_ids(out, &encoded.ids)?;
        *is_longer = encoded.is_longer;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_pair_frame(
    tokenizer: *const TextTokenizer,
    prefix: *mut Ids,
    middle: *mut Ids,
    suffix: *mut Ids,
    middle_first: *mut i64,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and a writable number, by the header.
        let (tokenizer, middle_first) = unsafe { (live(tokenizer)?, middle_first.as_mut()) };
        let middle_first = middle_first.ok_or_else(|| Error::invalid("the output pointer is null"))?;
        let frame = tokenizer.pair_frame().ok_or_else(|| {
            Error::new(Code::FailedPrecondition, "tokenizer.json: post_processor has no form for a pair of texts")
        })?;
        put_ids(prefix, &frame.prefix)?;
        put_ids(middle, &frame.middle)?;
        put_ids(suffix, &frame.suffix)?;
        *middle_first = frame.middle_first.map_or(-1, |count| count as i64);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_widest_piece(
    tokenizer: *const TextTokenizer,
    text: *const u8,
    text_size: usize,
) -> usize {
    let mut widest = text_size;
    guard::status(std::ptr::null_mut(), || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, text) = unsafe { (live(tokenizer)?, slice(text, text_size)) };
        widest = tokenizer.widest_piece(utf8(text)?);
        Ok(())
    });
    widest
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_decode(
    tokenizer: *const TextTokenizer,
    ids: *const i32,
    num_ids: usize,
    flags: u32,
    out: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, ids) = unsafe { (live(tokenizer)?, slice(ids, num_ids)) };
        let text = tokenizer.decode(&checked_ids(ids)?, flags & SKIP_SPECIAL != 0)?;
        put(out, text.into_bytes())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_token_to_id(
    tokenizer: *const TextTokenizer,
    token: *const u8,
    token_size: usize,
) -> i64 {
    let mut found = -1;
    guard::status(std::ptr::null_mut(), || {
        // SAFETY: a live handle and the header's rule for inputs.
        let (tokenizer, token) = unsafe { (live(tokenizer)?, slice(token, token_size)) };
        let id = std::str::from_utf8(token).ok().and_then(|token| tokenizer.token_to_id(token));
        found = id.map_or(-1, i64::from);
        Ok(())
    });
    found
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_token_text(
    tokenizer: *const TextTokenizer,
    id: i32,
    out: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    // SAFETY: a live handle, by the header. A negative id becomes a number beyond every vocabulary.
    guard::status(error, || put(out, unsafe { live(tokenizer) }?.token_text(id as u32)?.into_bytes()))
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_token_bytes(
    tokenizer: *const TextTokenizer,
    id: i32,
    out: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    // SAFETY: a live handle, by the header. A negative id becomes a number beyond every vocabulary.
    guard::status(error, || put(out, unsafe { live(tokenizer) }?.token_bytes(id as u32)?))
}

fn utf8(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text)
        .map_err(|broken| Error::invalid(format!("text is not UTF-8 at byte {}", broken.valid_up_to())))
}

/// SAFETY: null, or a handle that is not freed during `'a`.
pub(super) unsafe fn live<'a>(tokenizer: *const TextTokenizer) -> Result<&'a TextTokenizer> {
    // SAFETY: as above.
    unsafe { tokenizer.as_ref() }.ok_or_else(|| Error::invalid("the tokenizer handle is null"))
}

fn put_tokenizer(out: *mut *const TextTokenizer, tokenizer: TextTokenizer) -> Result<()> {
    // SAFETY: the header asks for a writable pointer.
    let out = unsafe { out.as_mut() }.ok_or_else(|| Error::invalid("the output pointer is null"))?;
    *out = Arc::into_raw(Arc::new(tokenizer));
    Ok(())
}

fn checked_limit(vocab_limit: i64) -> Result<u32> {
    let limit = vocab_limit.min(i64::from(limits::MAX_VOCAB_SIZE));
    u32::try_from(limit).map_err(|_| Error::invalid(format!("vocab_limit is {vocab_limit}; it is 0 or more")))
}
