// SPDX-License-Identifier: Apache-2.0
//! Bytes of a byte-level token, whose characters stand for bytes by GPT-2's mapping.
//! Source: bytes_to_unicode in GPT-2's encoder.py.

use std::sync::LazyLock;

/// Byte of each character below U+0144; none where the character maps to no byte.
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

/// A token with any other character is not byte-level: its UTF-8 bytes are used, as in the library.
pub(super) fn token_bytes(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(|letter| *BYTE_OF_LETTER.get(letter as usize)?).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}
