// SPDX-License-Identifier: Apache-2.0
//! A rendered chat to ids: special tokens are recognised, but those that stood in the client's strings are text. Nothing
//! is added around the text (`add_special_tokens=False` of transformers): the template writes the BOS token itself.

use std::ops::Range;

use tokenizers::tokenizer::normalizer::Range as TextRange;
use tokenizers::tokenizer::pre_tokenizer::Split;
use tokenizers::{Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Token};

use crate::error::{Code, Error, Result};
use crate::limits::MAX_TEXT_BYTES;
use crate::tokenizer::TextTokenizer;

impl TextTokenizer {
    /// `breaks`: [`super::Prompt::breaks`] of this text.
    pub fn encode_chat(&self, text: &str, breaks: &[usize]) -> Result<Vec<u32>> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::invalid(format!("has a prompt of {} bytes; limit is {MAX_TEXT_BYTES}", text.len())));
        }
        if !breaks.is_sorted() {
            return Err(Error::invalid("has breaks that are not in ascending order"));
        }
        // Without the library's reason, which may quote the text.
        let failed = |_| {
            let reason = "has characters that the tokenizer's vocabulary lacks, and there is no token for the unknown";
            Error::new(Code::InvalidArgument, reason)
        };
        let mut pieces = self.split_chat(text, breaks).map_err(failed)?;
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(failed)?;
        }
        let mut ids = Vec::with_capacity(text.len() / 4 + 8);
        for (piece, _, added_token) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match added_token {
                Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                // The model's own vocabulary must not make a special token of plain text.
                None => self.encode_piece(piece, false, &mut ids).map_err(failed)?,
            }
        }
        Ok(ids)
    }

    fn split_chat(&self, text: &str, breaks: &[usize]) -> tokenizers::Result<PreTokenizedString> {
        let added = self.inner.get_added_vocabulary();
        let normalizer = self.inner.get_normalizer();
        if breaks.is_empty() {
            return Ok(added.extract_and_normalize(normalizer, text));
        }
        let tokens = self.template_tokens(text, breaks);
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, whole| {
            // Nothing is normalized yet, so both kinds of ranges are the same; this one is found without a search.
            let slice = |range: Range<usize>| whole.slice(TextRange::Normalized(range));
            let mut splits: Vec<Split> = Vec::with_capacity(2 * tokens.len() + 1);
            let mut done = 0;
            for (range, token) in &tokens {
                splits.extend((done < range.start).then(|| slice(done..range.start)).flatten().map(Split::from));
                splits.extend(slice(range.clone()).map(|token_text| Split::from((token_text, Some(token.clone())))));
                done = range.end;
            }
            splits.extend((done < text.len()).then(|| slice(done..text.len())).flatten().map(Split::from));
            Ok(splits)
        })?;
        // What is left are added tokens that are no special ones and match in normalized text.
        pieces.split(|_, mut piece| {
            let found = self.plain_added.extract_and_normalize(normalizer, piece.get());
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut piece)?;
            }
            let splits = found.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
            let split = |(_, (from, to), token): (&str, (usize, usize), &Option<Vec<Token>>)| {
                Some(Split::from((piece.slice(TextRange::Normalized(from..to))?, token.clone())))
            };
            Ok(splits.into_iter().filter_map(split).collect::<Vec<_>>())
        })?;
        Ok(pieces)
    }

    /// The special tokens of a text that no break divides, and the other added ones that match before it is normalized.
    fn template_tokens(&self, text: &str, breaks: &[usize]) -> Vec<(Range<usize>, Vec<Token>)> {
        let added = self.inner.get_added_vocabulary();
        let decoder = added.get_added_tokens_decoder();
        let is_special = |token: &Token| self.special_ids().binary_search(&token.id).is_ok();
        let is_cut_first =
            |token: &Token| decoder.get(&token.id).is_some_and(|added| added.special || !added.normalized);
        let found = added.extract_and_normalize(self.inner.get_normalizer(), text);
        let mut tokens = Vec::new();
        for (_, (from, to), added_token) in found.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            let next = breaks.partition_point(|at| *at <= from);
            // A break is behind a client's character, so for a token of one character it is at its end.
            let end = if text[from..to].chars().nth(1).is_some() { to } else { to + 1 };
            let is_broken = breaks.get(next).is_some_and(|at| *at < end);
            match added_token {
                Some(token) if token.iter().all(is_cut_first) && !(is_broken && token.iter().any(is_special)) => {
                    tokens.push((from..to, token.clone()));
                }
                _ => {}
            }
        }
        tokens
    }
}
