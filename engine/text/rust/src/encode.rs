// SPDX-License-Identifier: Apache-2.0
//! Text to ids by the library's own steps (added tokens, normalizer, pre-tokenizer, model), called one by one: one
//! tokenizer then serves both treatments of special tokens, and no unused offsets or strings are made.

use tokenizers::{Model, OffsetReferential, OffsetType, PreTokenizer};

use crate::error::{Code, Error, Result};
use crate::limits::MAX_TEXT_BYTES;
use crate::tokenizer::TextTokenizer;

/// How to read a text.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodeOptions {
    /// Add the special tokens that the model expects around the text.
    pub add_special_tokens: bool,
    /// Recognise special tokens in the text.
    pub parse_special: bool,
}

impl TextTokenizer {
    /// Ids of a text of at most [`MAX_TEXT_BYTES`].
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::invalid(format!("text has {} bytes; limit is {MAX_TEXT_BYTES}", text.len())));
        }
        let mut ids = Vec::with_capacity(text.len() / 4 + 8);
        if options.add_special_tokens {
            ids.extend(&self.affixes.prefix);
        }
        self.encode_text(text, options.parse_special, &mut ids).map_err(|_| refused())?;
        if options.add_special_tokens {
            ids.extend(&self.affixes.suffix);
        }
        Ok(ids)
    }

    fn encode_text(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) -> tokenizers::Result<()> {
        let added = if parse_special { self.inner.get_added_vocabulary() } else { &self.plain_added };
        let mut pieces = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        for (piece, _, added_token) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match added_token {
                Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                None => self.encode_piece(piece, parse_special, ids)?,
            }
        }
        Ok(())
    }

    /// The model's own vocabulary can still produce a special token from plain text; its characters are then encoded
    /// one by one. The unknown token is exempt: any unknown character produces it.
    pub(crate) fn encode_piece(&self, piece: &str, parse_special: bool, ids: &mut Vec<u32>) -> tokenizers::Result<()> {
        let model = self.inner.get_model();
        for token in model.tokenize(piece)? {
            if parse_special || !self.is_forgeable(token.id) {
                ids.push(token.id);
                continue;
            }
            let letters = &piece[token.offsets.0..token.offsets.1];
            for (at, letter) in letters.char_indices() {
                for token in model.tokenize(&letters[at..at + letter.len_utf8()])? {
                    let id = if self.is_forgeable(token.id) { self.unknown_id } else { Some(token.id) };
                    ids.push(id.ok_or("one letter that only a special token spells")?);
                }
            }
        }
        Ok(())
    }

    fn is_forgeable(&self, id: u32) -> bool {
        self.special_ids().binary_search(&id).is_ok() && Some(id) != self.unknown_id
    }
}

/// Without the library's reason, which may quote the text.
fn refused() -> Error {
    let reason = "the tokenizer cannot spell the text with its vocabulary, and has no token for the unknown";
    Error::new(Code::InvalidArgument, reason)
}
