// SPDX-License-Identifier: Apache-2.0
//! The tokens of a model as llguidance's trie.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};

use crate::error::{Code, Error, Result};
use crate::TextTokenizer;

/// A byte that no UTF-8 text has. llguidance marks special tokens with it.
const NO_TEXT: u8 = TokTrie::SPECIAL_TOKEN_MARKER;

/// The bytes of `width` ids, at most 255 each. A special token, an id without a token, and one whose bytes are in no
/// text have none. Errors: FAILED_PRECONDITION (the tokens' bytes are not known).
pub fn words_of(tokenizer: &TextTokenizer, width: u32) -> Result<Vec<Vec<u8>>> {
    if tokenizer.plan.is_none() {
        return Err(Error::new(Code::FailedPrecondition, "the tokenizer's decoder has no bytes for single tokens"));
    }
    let mut words = vec![Vec::new(); width as usize];
    for id in 0..width.min(tokenizer.vocab_size()) {
        if tokenizer.special_ids().binary_search(&id).is_ok() {
            continue;
        }
        match tokenizer.token_bytes(id) {
            Ok(bytes) if bytes.len() <= usize::from(u8::MAX) && !bytes.contains(&NO_TEXT) => words[id as usize] = bytes,
            Ok(_) => {}
            Err(error) if error.code == Code::OutOfRange => {}
            Err(error) => return Err(error),
        }
    }
    Ok(words)
}

/// Their trie. Ids without bytes match nothing, and are therefore in no mask. The end of a text is not the trie's concern.
pub(super) fn token_env(words: &[Vec<u8>], width: u32) -> TokEnv {
    let trie = TokTrie::from(&TokRxInfo::new(width, INVALID_TOKEN), words);
    Arc::new(ApproximateTokEnv::new(trie))
}
