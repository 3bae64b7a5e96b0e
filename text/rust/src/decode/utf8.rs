// SPDX-License-Identifier: Apache-2.0
//! Incremental UTF-8 decoding. Invalid sequences become U+FFFD as in `String::from_utf8_lossy`, however the bytes are
//! split.

/// Takes everything that later bytes cannot change; leaves at most 3 bytes, the start of a character.
pub(super) fn take_certain(bytes: &mut Vec<u8>) -> String {
    let tail = unfinished_tail(bytes).len();
    let certain = bytes.len() - tail;
    let text = String::from_utf8_lossy(&bytes[..certain]).into_owned();
    bytes.drain(..certain);
    text
}

/// The unfinished character at the end of `bytes`, or empty.
pub(super) fn unfinished_tail(bytes: &[u8]) -> &[u8] {
    // A character has at most 4 bytes, so an unfinished one starts in the last 3.
    let window = bytes.len().saturating_sub(3);
    for at in window..bytes.len() {
        let tail = &bytes[at..];
        if let Err(error) = std::str::from_utf8(tail) {
            if error.valid_up_to() == 0 && error.error_len().is_none() {
                return tail;
            }
        }
    }
    &[]
}
