// SPDX-License-Identifier: Apache-2.0
//! Dunlin's text layer: Hugging Face `tokenizers` and chat templates behind a small C ABI (include/dunlin_text.h).
//!
//! The modules in the order of use: `load` reads and checks the files, `tokenizer` holds the result, `encode` and
//! `decode` use it, `abi` exposes it to C++. Everything but `abi` is safe Rust with ordinary errors.
//!
//! `vocabulary` writes a tokenizer.json where a model has none: for GGUF files and SentencePiece models.
//!
//! `chat` renders chat templates (minijinja). `grammar` compiles grammars of structured output (llguidance). `worker` does
//! the work of both that no bound holds in a process of its own.
//!
//! `image` decodes the pictures of multimodal requests.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

pub mod abi;
pub mod chat;
pub mod decode;
mod encode;
mod error;
pub mod grammar;
pub mod image;
pub mod limits;
pub mod load;
mod python_json;
mod tokenizer;
mod vocabulary;
pub mod worker;

pub use encode::{EncodeOptions, Encoded};
pub use error::{Code, Error, Result};
pub use tokenizer::TextTokenizer;
