// SPDX-License-Identifier: Apache-2.0
//! The one error type. Codes carry the numbers of `absl::StatusCode`, so that C++ passes them on unchanged.

use std::fmt;

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Nobody waits for the result.
    Cancelled = 1,
    /// An argument or a file breaks a rule.
    InvalidArgument = 3,
    /// The time that the work had.
    DeadlineExceeded = 4,
    /// A file does not exist.
    NotFound = 5,
    /// A bound on time or memory.
    ResourceExhausted = 8,
    /// The object's state does not allow the call.
    FailedPrecondition = 9,
    /// No token has this id.
    OutOfRange = 11,
    /// A part of a language that is not supported.
    Unimplemented = 12,
    /// A bug in this library or its dependencies.
    Internal = 13,
    /// A text worker could not be started.
    Unavailable = 14,
}

impl Code {
    /// None: no code has this number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        use Code::*;
        let all = [
            InvalidArgument,
            NotFound,
            ResourceExhausted,
            FailedPrecondition,
            OutOfRange,
            Unimplemented,
            Internal,
            Cancelled,
            DeadlineExceeded,
            Unavailable,
        ];
        all.into_iter().find(|code| *code as u8 == number)
    }
}

/// A code and a message for the operator. Messages never quote the text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub code: Code,
    /// What, where, the value and the limit.
    pub message: String,
    /// Of a composed grammar: the part that is refused, where it is one.
    pub part: Option<usize>,
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, part: None }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    pub(crate) fn exhausted(message: impl Into<String>) -> Self {
        Self::new(Code::ResourceExhausted, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A token from a file, quoted for a message: escaped, at most 40 characters.
pub(crate) fn quote(token: &str) -> String {
    let mut chars = token.chars();
    let head: String = chars.by_ref().take(40).collect();
    let cut = if chars.next().is_some() { "..." } else { "" };
    format!("{head:?}{cut}")
}
