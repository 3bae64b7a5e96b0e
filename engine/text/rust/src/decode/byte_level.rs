//! Bytes of a byte-level token: its letters stand for bytes, as GPT-2 fixed it.
//! Source: bytes_to_unicode in GPT-2's encoder.py.

use std::sync::LazyLock;

/// Byte of each letter below U+0144; none where the letter stands for no byte.
static BYTE_OF_LETTER: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut table = [None; 0x144];
    let mut next_free = 0x100;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        if printable {
            table[usize::from(byte)] = Some(byte);
        } else {
            table[next_free] = Some(byte);
            next_free += 1;
        }
    }
    table
});

/// A token with any other letter in it is no byte-level token: its own UTF-8 counts, as in the library.
pub(super) fn token_bytes(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(|letter| *BYTE_OF_LETTER.get(letter as usize)?).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}
