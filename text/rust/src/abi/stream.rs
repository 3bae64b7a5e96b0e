// SPDX-License-Identifier: Apache-2.0
//! Section "Stream" of the header.

use std::sync::Arc;

use super::buffer::{checked_ids, put, slice, Bytes, ErrorMessage};
use super::guard;
use super::tokenizer::{live, SKIP_SPECIAL};
use crate::decode::DecodeStream;
use crate::error::{Error, Result};
use crate::TextTokenizer;

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_stream_new(
    tokenizer: *const TextTokenizer,
    context: *const i32,
    num_context: usize,
    flags: u32,
    out: *mut *mut DecodeStream,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle, by the header; it came from Arc::into_raw, and this takes a new reference.
        let tokenizer = unsafe {
            live(tokenizer)?;
            Arc::increment_strong_count(tokenizer);
            Arc::from_raw(tokenizer)
        };
        // SAFETY: the header's rules for inputs and outputs.
        let (context, out) = unsafe { (slice(context, num_context), out.as_mut()) };
        let out = out.ok_or_else(|| Error::invalid("the output pointer is null"))?;
        let stream = DecodeStream::new(tokenizer, &checked_ids(context)?, flags & SKIP_SPECIAL != 0)?;
        *out = Box::into_raw(Box::new(stream));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_stream_free(stream: *mut DecodeStream) {
    if !stream.is_null() {
        // SAFETY: made by dunlin_text_stream_new, freed once.
        drop(unsafe { Box::from_raw(stream) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_stream_push(
    stream: *mut DecodeStream,
    ids: *const i32,
    num_ids: usize,
    out: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle that no other thread uses, and the header's rule for inputs.
        let (stream, ids) = unsafe { (live_stream(stream)?, slice(ids, num_ids)) };
        put(out, stream.push(&checked_ids(ids)?)?.into_bytes())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_stream_finish(
    stream: *mut DecodeStream,
    out: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    // SAFETY: a live handle that no other thread uses.
    guard::status(error, || put(out, unsafe { live_stream(stream) }?.finish()?.into_bytes()))
}

/// SAFETY: null, or a handle that no other thread uses or frees during `'a`.
unsafe fn live_stream<'a>(stream: *mut DecodeStream) -> Result<&'a mut DecodeStream> {
    // SAFETY: as above.
    unsafe { stream.as_mut() }.ok_or_else(|| Error::invalid("the stream handle is null"))
}
