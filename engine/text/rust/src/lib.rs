//! Dunlin's text layer: Hugging Face `tokenizers` behind a small C ABI (include/dunlin_text.h).
//!
//! A tokenizer travels through the crate in the order of the modules:
//! `load` reads and checks the files, `tokenizer` holds what came out, `encode` and `decode` use it, `abi` hands it to
//! C++. Everything but `abi` is safe Rust with ordinary errors.
//!
//! Chat templates (minijinja) and grammars (llguidance) get a module of their own next to these, `template` and
//! `grammar`, and a section of their own in the header; the dependencies come with them.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

pub mod abi;
pub mod decode;
mod encode;
mod error;
pub mod limits;
pub mod load;
mod tokenizer;

pub use encode::EncodeOptions;
pub use error::{Code, Error, Result};
pub use tokenizer::TextTokenizer;
