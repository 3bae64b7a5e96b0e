// SPDX-License-Identifier: Apache-2.0
//! One program, because each would be linked with the whole library.

#[path = "../golden_files/mod.rs"]
mod golden_files;
#[path = "../grammar_model/mod.rs"]
mod grammar_model;

mod ambiguous_grammars;
mod bad_files;
mod chat_bounds;
mod chat_expressions;
mod code_points;
mod decode_stream;
mod grammar;
mod honest_grammars;
mod long_strings;
mod vocabulary;
