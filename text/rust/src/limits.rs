// SPDX-License-Identifier: Apache-2.0
//! Limits of one call. The C++ headers repeat the first four; tokenizer_test.cc compares them.

use std::time::Duration;

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
/// Tokens and texts that the post-processor of tokenizer.json puts one after another; real ones have some 10.
pub const MAX_POST_PROCESSOR_TOKENS: usize = 256;
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
/// Bytes of a text that a template makes or searches.
pub const MAX_CHAT_VALUE_BYTES: usize = 16 << 20;
/// Items of a list that a template makes.
pub const MAX_CHAT_LIST_ITEMS: usize = 1 << 20;
/// Bytes of a JSON Schema or of a grammar.
pub const MAX_GRAMMAR_BYTES: usize = 256 << 10;
/// Bytes of a composed grammar: its text and those of its parts.
pub const MAX_COMPOSED_BYTES: usize = 1 << 20;
/// Bytes of a regular expression, alone or in a schema.
pub const MAX_REGEX_BYTES: usize = 16 << 10;
/// Texts of a choice, and bytes of all of them.
pub const MAX_CHOICES: usize = 1024;
/// Bytes of all texts of a choice.
pub const MAX_CHOICE_BYTES: usize = 64 << 10;
/// Schemas inside schemas, groups inside groups.
pub const MAX_GRAMMAR_DEPTH: usize = 64;
/// Rules and groups of a grammar.
pub const MAX_GRAMMAR_PARTS: usize = 20_000;
/// Strings and regular expressions of a grammar: the lexer's work grows with their square.
pub const MAX_GRAMMAR_TERMINALS: usize = 2_000;
/// Schemas of a JSON Schema, each counted where it is used, and names of properties.
pub const MAX_SCHEMAS: usize = 4_000;
/// Patterns and formats that one schema combines by allOf, and operators & of a grammar: an intersection of many takes
/// memory without bound.
pub const MAX_INTERSECTED_PATTERNS: usize = 8;
/// Properties of an object.
pub const MAX_PROPERTIES: usize = 2048;
/// Items of an array and properties of an object, where a schema states the number.
pub const MAX_SCHEMA_COUNT: u64 = 10_000;
/// All numbers of items that a schema states, together: each item is some symbols of the grammar.
pub const MAX_SCHEMA_ITEMS: u64 = 32_000;
/// Characters of a string, where a schema states the number: each is a state of the lexer, or a part of a block.
pub const MAX_SCHEMA_LENGTH: u64 = 65_536;
/// Divisor of multipleOf: each remainder is a state of the lexer.
pub const MAX_MULTIPLE_OF: u64 = 10_000;
/// Work of the compiler on regular expressions, in llguidance's unit: some 20 ns each.
pub const GRAMMAR_COMPILE_FUEL: u64 = 1_000_000;
/// Symbols of a compiled grammar.
pub const MAX_GRAMMAR_SYMBOLS: usize = 200_000;
/// Work on regular expressions for one mask: 70 to 700 ns each.
pub const GRAMMAR_STEP_FUEL: u64 = 100_000;
/// Items that the parser makes for one mask: some 50 ns each.
pub const GRAMMAR_STEP_ITEMS: usize = 50_000;
/// Items in one row of the parser: the ambiguity of a grammar.
pub const GRAMMAR_ROW_ITEMS: usize = 10_000;
/// Work of a token on a client's own rules that may take any time: the items of its rows, each row's cubed. Expressions of C,
/// SQL and Python take 4,000,000 at most, a sum of 30 operands in `e: e "+" e` 20,000,000.
pub const SLOW_TOKEN_WORK: u64 = 600_000_000;
/// Beyond that work, a token that takes more processor time is slow.
pub const SLOW_TOKEN_TIME: Duration = Duration::from_millis(10);
/// What the slow tokens of an output may take together: others wait for them.
pub const MAX_SLOW_TIME: Duration = Duration::from_millis(250);
/// States that the lexer of one output makes: 1 to 2 KiB each.
pub const MAX_LEXER_STATES: usize = 20_000;
/// And so many more, of some 400 bytes, for each character of the longest string that a schema counts, where no client's
/// expression can make larger ones.
pub const LEXER_STATES_PER_CHARACTER: usize = 12;
/// What the lexer of one output may grow by, beside what it has when the output begins.
pub const GRAMMAR_STATE_GROWTH: usize = 256 << 10;
/// What those of a model's outputs may grow by beyond that, together. Nobody else loses what one takes of it.
pub const MAX_GRAMMAR_GROWTH: usize = 64 << 20;
/// Stack of the thread that compiles a grammar: both compilers descend by recursion.
pub const GRAMMAR_STACK_BYTES: usize = 64 << 20;
/// Width and height of an image: the most that JPEG and GIF can state.
pub const MAX_IMAGE_SIDE: u32 = 65_535;
/// What the decoder of an image may allocate beside its pixels: tables, lines, metadata.
pub const IMAGE_DECODER_BYTES: u64 = 16 << 20;
/// Scans of a JPEG: each may go over all pixels in a few bytes. Encoders make 10 or so.
pub const MAX_JPEG_SCANS: usize = 64;
