// SPDX-License-Identifier: Apache-2.0
//! Section "Image" of the header.

use super::buffer::{put, slice, Bytes, ErrorMessage};
use super::guard;
use crate::error::{Error, Result};
use crate::image;

/// `dunlin_text_image_size`.
#[repr(C)]
pub struct Size {
    width: i32,
    height: i32,
}

impl Size {
    /// Sides leave as i32: they are below 2^16.
    fn of((width, height): image::Size) -> Self {
        Self { width: width as i32, height: height as i32 }
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_image_read_size(
    file: *const u8,
    file_size: usize,
    max_pixels: i64,
    size: *mut Size,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: the header's rules for inputs and outputs.
        let (file, size) = unsafe { (slice(file, file_size), writable(size)?) };
        *size = Size::of(image::read_size(file, checked_limit(max_pixels)?)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_image_decode(
    file: *const u8,
    file_size: usize,
    max_pixels: i64,
    size: *mut Size,
    rgb: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: the header's rules for inputs and outputs.
        let (file, size) = unsafe { (slice(file, file_size), writable(size)?) };
        let picture = image::decode(file, checked_limit(max_pixels)?)?;
        put(rgb, picture.rgb)?;
        *size = Size::of(picture.size);
        Ok(())
    })
}

/// SAFETY: null, or a struct of the caller that nobody else uses during `'a`.
unsafe fn writable<'a>(size: *mut Size) -> Result<&'a mut Size> {
    // SAFETY: as above.
    unsafe { size.as_mut() }.ok_or_else(|| Error::invalid("the output pointer is null"))
}

fn checked_limit(max_pixels: i64) -> Result<u64> {
    u64::try_from(max_pixels).map_err(|_| Error::invalid(format!("max_pixels is {max_pixels}; it is 0 or more")))
}
