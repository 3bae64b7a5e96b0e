// SPDX-License-Identifier: Apache-2.0
//! Nothing unwinds into C++: a panic becomes INTERNAL. Its message is not passed on, because it may quote the text of a
//! request; the file and line of the library are.

use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::Once;

use super::buffer::ErrorMessage;
use crate::error::{Code, Error, Result};

thread_local! {
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `body`; 0, or the code with the message in `error`.
pub(super) fn status(error: *mut ErrorMessage, body: impl FnOnce() -> Result<()>) -> i32 {
    install_hook();
    // AssertUnwindSafe: a tokenizer is immutable, and a stream closes itself before it can panic.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(panicked()));
    match result {
        Ok(()) => 0,
        Err(failure) => {
            // SAFETY: the header asks for null or a dunlin_text_error of the caller.
            if let Some(error) = unsafe { error.as_mut() } {
                error.set(&failure.message);
            }
            failure.code as i32
        }
    }
}

/// The default hook would print the message, and with it the text, to stderr. This is the library's own copy of the
/// standard library: no other Rust code in the process sees this hook.
fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        set_hook(Box::new(|panic| {
            let place = panic.location().map_or(String::new(), |at| {
                let file = at.file().rsplit('/').next().unwrap_or_default();
                format!("{file}:{}", at.line())
            });
            PANIC_PLACE.with(|slot| slot.replace(place));
        }));
    });
}

fn panicked() -> Error {
    let place = PANIC_PLACE.with(|slot| slot.take());
    Error::new(Code::Internal, format!("the text library failed at {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_internal_and_names_the_place_not_the_message() {
        let mut error = ErrorMessage::default();
        let code = status(&mut error, || panic!("secret"));
        assert_eq!(code, Code::Internal as i32);
        assert!(error.text().starts_with("the text library failed at guard.rs:"), "{}", error.text());
    }

    #[test]
    fn an_error_without_a_place_for_the_message_is_still_a_code() {
        assert_eq!(status(std::ptr::null_mut(), || Err(Error::invalid("no"))), 3);
    }
}
