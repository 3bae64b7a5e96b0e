// SPDX-License-Identifier: Apache-2.0
//! The C ABI. Its contract is include/dunlin_text.h; the functions here only translate: pointers to slices, results to
//! codes. All `unsafe` of the crate is in this module, and every function runs inside [`guard::status`] or is too small
//! to fail.

#![allow(missing_docs)] // the header documents them

mod buffer;
mod chat;
pub(crate) mod clock;
mod grammar;
mod guard;
mod image;
mod stream;
mod tokenizer;
mod worker;

pub use buffer::{Bytes, ErrorMessage, Ids};
