// SPDX-License-Identifier: Apache-2.0
//! Text to ids by the library's own steps (added tokens, normalizer, pre-tokenizer, model), called one by one: one
//! tokenizer then serves both treatments of special tokens, and no unused offsets or strings are made. A text is taken
//! in pieces, because the steps need up to 120 bytes of memory per byte of what they read.

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

/// A text's ids, or as many as were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// All ids; of a longer text those of its beginning, or none.
    pub ids: Vec<u32>,
    /// The text has more ids than were asked for.
    pub is_longer: bool,
}

impl TextTokenizer {
    /// Ids of a text of at most [`MAX_TEXT_BYTES`].
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>> {
        Ok(self.encode_at_most(text, options, usize::MAX, false)?.ids)
    }

    /// As `encode`, but of a text with more than `max_ids` no more is read than shows this. With `truncate` its result is
    /// then the beginning of the text in `max_ids` ids, special tokens around it included, unless these alone are more.
    pub fn encode_at_most(
        &self,
        text: &str,
        options: EncodeOptions,
        max_ids: usize,
        truncate: bool,
    ) -> Result<Encoded> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::invalid(format!("text has {} bytes; limit is {MAX_TEXT_BYTES}", text.len())));
        }
        let affixes: [&[u32]; 2] = match options.add_special_tokens {
            true => [&self.affixes.prefix, &self.affixes.suffix],
            false => [&[], &[]],
        };
        let Some(room) = max_ids.checked_sub(affixes[0].len() + affixes[1].len()) else {
            return Ok(Encoded { ids: Vec::new(), is_longer: true });
        };
        let mut ids = Vec::with_capacity(affixes[0].len() + (text.len() / 4).min(room) + 8);
        ids.extend(affixes[0]);
        let end = room.saturating_add(ids.len());
        let fits = self.encode_pieces(text, options.parse_special, end, truncate, &mut ids)?;
        if !fits && !truncate {
            return Ok(Encoded { ids: Vec::new(), is_longer: true });
        }
        ids.truncate(end);
        ids.extend(affixes[1]);
        Ok(Encoded { ids, is_longer: !fits })
    }

    /// Bytes of the largest part of the text that is encoded at once.
    pub fn widest_piece(&self, text: &str) -> usize {
        self.pieces(text).map(str::len).max().unwrap_or(0)
    }

    /// False as soon as more than `end` ids are certain; then `ids` holds more, if `truncate`.
    fn encode_pieces(
        &self,
        text: &str,
        parse_special: bool,
        end: usize,
        truncate: bool,
        ids: &mut Vec<u32>,
    ) -> Result<bool> {
        let at_least = |bytes: usize| self.bounds.bytes_per_token.map_or(0, |most| bytes.div_ceil(most));
        let mut left = text.len();
        for piece in self.pieces(text) {
            if !truncate && ids.len().saturating_add(at_least(left)) > end {
                return Ok(false);
            }
            self.encode_text(piece, parse_special, ids).map_err(|_| refused())?;
            if ids.len() > end {
                return Ok(false);
            }
            left = left.saturating_sub(piece.len() + 1);
        }
        Ok(true)
    }

    /// The text in parts whose ids, one after the other, are those of the text.
    fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = Some(text);
        std::iter::from_fn(move || {
            let text = rest.take()?;
            let rule = self.bounds.cut_rule.as_ref().filter(|_| text.len() > self.piece_bytes);
            match rule.and_then(|rule| rule.next(text, self.piece_bytes)) {
                None => Some(text),
                Some((end, next)) => {
                    rest = Some(&text[next..]);
                    Some(&text[..end])
                }
            }
        })
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
