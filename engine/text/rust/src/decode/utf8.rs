//! Bytes to characters where more bytes may follow. Broken sequences become U+FFFD as `String::from_utf8_lossy` makes
//! them, wherever the bytes are cut.

/// Takes everything that later bytes cannot change: leaves at most 3 bytes, the start of a character.
pub(super) fn take_certain(bytes: &mut Vec<u8>) -> String {
    let tail = unfinished_tail(bytes).len();
    let certain = bytes.len() - tail;
    let text = String::from_utf8_lossy(&bytes[..certain]).into_owned();
    bytes.drain(..certain);
    text
}

/// The start of a character that `bytes` end in the middle of; empty when they do not.
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
