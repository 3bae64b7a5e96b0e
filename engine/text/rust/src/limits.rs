// SPDX-License-Identifier: Apache-2.0
//! Limits of one call. The C++ headers repeat the first four; tokenizer_test.cc compares them.

/// Bytes of text in one encode call.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// A text is encoded in pieces that end at the first safe cut after so many bytes: some 10 ms and 4 MiB of memory.
pub const PIECE_BYTES: usize = 32 << 10;
/// Token ids in one decode call, or in the life of one stream.
pub const MAX_TOKEN_IDS: usize = 1 << 20;
/// Bytes of tokenizer.json; the largest in the field are about half of it.
pub const MAX_TOKENIZER_JSON_BYTES: usize = 64 << 20;
/// Token ids of any tokenizer; the largest vocabularies in the field have 2^18.
pub const MAX_VOCAB_SIZE: u32 = 1 << 22;
/// Bytes of tokenizer_config.json; it holds names and flags.
pub const MAX_TOKENIZER_CONFIG_BYTES: usize = 16 << 20;
/// Parts (normalizers, pre-tokenizers, ...) in one component of tokenizer.json; real files have at most 12.
pub const MAX_COMPONENT_PARTS: usize = 64;
/// Largest factor by which all normalizers together may expand a text. Llama 2's turn a space into 3 bytes.
pub const MAX_NORMALIZER_GROWTH: usize = 64;
/// Longest word that WordPiece searches, in quadratic time.
pub const MAX_WORDPIECE_WORD_CHARS: u64 = 1000;
/// Bytes of one chat template; the largest in the field have some 20 KiB.
pub const MAX_CHAT_TEMPLATE_BYTES: usize = 1 << 20;
/// Macros and loops that a rendering may nest.
pub const MAX_CHAT_TEMPLATE_DEPTH: usize = 100;
/// Steps of one rendering: a step is an instruction, or 64 bytes of text that are made or searched. They bound its time
/// (0.2 to 6 s at the limit, measured) and its memory.
pub const MAX_CHAT_STEPS: u64 = 4_000_000;
