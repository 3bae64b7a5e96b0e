// SPDX-License-Identifier: Apache-2.0
//! The plain structs of the header, and slices from its pointers.

use std::mem::ManuallyDrop;

use crate::error::{Error, Result};

/// `dunlin_text_bytes` and `dunlin_text_ids`: the parts of a Vec.
#[repr(C)]
pub struct Buffer<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

pub type Bytes = Buffer<u8>;
pub type Ids = Buffer<i32>;

impl<T> Buffer<T> {
    fn new(values: Vec<T>) -> Self {
        let mut values = ManuallyDrop::new(values);
        Self { data: values.as_mut_ptr(), size: values.len(), capacity: values.capacity() }
    }

    /// SAFETY: `self` was filled by [`put`], or is all zero.
    unsafe fn free(&mut self) {
        if !self.data.is_null() {
            // SAFETY: the three numbers are those that `new` took from a Vec.
            drop(unsafe { Vec::from_raw_parts(self.data, self.size, self.capacity) });
        }
        *self = Self { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

/// `dunlin_text_error`.
#[repr(C)]
pub struct ErrorMessage {
    message: [u8; 512],
}

impl Default for ErrorMessage {
    fn default() -> Self {
        Self { message: [0; 512] }
    }
}

impl ErrorMessage {
    /// Truncates at a character boundary; the last byte is NUL. An inner NUL becomes a space.
    pub(super) fn set(&mut self, text: &str) {
        let mut size = text.len().min(self.message.len() - 1);
        while !text.is_char_boundary(size) {
            size -= 1;
        }
        for (to, from) in self.message.iter_mut().zip(text[..size].bytes()) {
            *to = if from == 0 { b' ' } else { from };
        }
        self.message[size] = 0;
    }

    pub(super) fn text(&self) -> String {
        let size = self.message.iter().position(|byte| *byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&self.message[..size]).into_owned()
    }
}

/// Hands a Vec to the caller.
pub(super) fn put<T>(out: *mut Buffer<T>, values: Vec<T>) -> Result<()> {
    // SAFETY: the header asks for a writable struct of the caller.
    let out = unsafe { out.as_mut() }.ok_or_else(|| Error::invalid("the output pointer is null"))?;
    *out = Buffer::new(values);
    Ok(())
}

/// Ids leave as i32: they are below 2^22.
pub(super) fn put_ids(out: *mut Ids, ids: &[u32]) -> Result<()> {
    put(out, ids.iter().map(|id| *id as i32).collect())
}

/// SAFETY: `data` points to `size` readable values that are not written during `'a`, or size is 0.
pub(super) unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    match data.is_null() || size == 0 {
        true => &[],
        // SAFETY: as above.
        false => unsafe { std::slice::from_raw_parts(data, size) },
    }
}

/// Ids enter as i32; the library's are u32.
pub(super) fn checked_ids(ids: &[i32]) -> Result<Vec<u32>> {
    let limit = crate::limits::MAX_TOKEN_IDS;
    if ids.len() > limit {
        return Err(Error::invalid(format!("{} token ids; limit is {limit}", ids.len())));
    }
    let checked = |(at, id): (usize, &i32)| {
        u32::try_from(*id).map_err(|_| Error::invalid(format!("token_ids[{at}] is {id}, which is negative")))
    };
    ids.iter().enumerate().map(checked).collect()
}

/// SAFETY: null, or a struct that this library filled or that is all zero.
#[no_mangle]
pub unsafe extern "C" fn dunlin_text_bytes_free(bytes: *mut Bytes) {
    // SAFETY: as above.
    unsafe { bytes.as_mut().map(|bytes| bytes.free()) };
}

/// SAFETY: null, or a struct that this library filled or that is all zero.
#[no_mangle]
pub unsafe extern "C" fn dunlin_text_ids_free(ids: *mut Ids) {
    // SAFETY: as above.
    unsafe { ids.as_mut().map(|ids| ids.free()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character_border() {
        let mut error = ErrorMessage::default();
        error.set(&"é".repeat(400));
        assert_eq!(error.text(), "é".repeat(255));
        error.set("a\0b");
        assert_eq!(error.text(), "a b");
    }

    #[test]
    fn a_buffer_is_freed_once_and_then_empty() {
        let mut bytes = Bytes { data: std::ptr::null_mut(), size: 0, capacity: 0 };
        put(&mut bytes, vec![1, 2, 3]).unwrap();
        assert_eq!(bytes.size, 3);
        for _ in 0..2 {
            // SAFETY: filled by put, then all zero.
            unsafe { dunlin_text_bytes_free(&mut bytes) };
            assert!(bytes.data.is_null() && bytes.size == 0);
        }
    }
}
