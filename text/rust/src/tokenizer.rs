// SPDX-License-Identifier: Apache-2.0
//! One loaded tokenizer. Immutable: every method takes `&self` and may run on any thread.

use std::sync::Arc;

use tokenizers::{AddedVocabulary, Tokenizer};

use crate::decode::Plan;
use crate::error::{Code, Error, Result};
use crate::limits::{MAX_TOKEN_IDS, PIECE_BYTES};
use crate::load::{Affixes, PairFrame, TextBounds};

/// A tokenizer and the data derived from it at load.
pub struct TextTokenizer {
    pub(crate) inner: Tokenizer,
    /// The added tokens in the library's mode that does not match special ones: for text from users.
    pub(crate) plain_added: AddedVocabulary,
    pub(crate) affixes: Affixes,
    pair_frame: Option<PairFrame>,
    pub(crate) bounds: TextBounds,
    pub(crate) piece_bytes: usize,
    pub(crate) unknown_id: Option<u32>,
    /// The decoder as stages for a stream; none: it cannot be split into stages.
    pub(crate) plan: Option<Arc<Plan>>,
    special_ids: Vec<u32>,
    vocab_size: u32,
    bos_id: Option<u32>,
    eos_id: Option<u32>,
}

impl TextTokenizer {
    pub(crate) fn new(
        inner: Tokenizer,
        affixes: Affixes,
        bounds: TextBounds,
        unknown_id: Option<u32>,
        bos_id: Option<u32>,
        eos_id: Option<u32>,
    ) -> Self {
        let mut plain_added = inner.get_added_vocabulary().clone();
        plain_added.set_encode_special_tokens(true);
        let added = inner.get_added_vocabulary().get_added_tokens_decoder();
        let mut special_ids: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        special_ids.sort_unstable();
        let vocab_size = inner.get_vocab(true).into_values().max().map_or(0, |max| max + 1);
        let plan = Plan::compile(inner.get_decoder()).map(Arc::new);
        Self {
            inner,
            plain_added,
            affixes,
            pair_frame: None,
            bounds,
            piece_bytes: PIECE_BYTES,
            unknown_id,
            plan,
            special_ids,
            vocab_size,
            bos_id,
            eos_id,
        }
    }

    pub(crate) fn set_pair_frame(&mut self, frame: Option<PairFrame>) {
        self.pair_frame = frame;
    }

    /// The special tokens around a pair of texts, as the post-processor of tokenizer.json has them.
    pub fn pair_frame(&self) -> Option<&PairFrame> {
        self.pair_frame.as_ref()
    }

    /// Sets from how many bytes on a text is encoded in pieces: for tests with short texts.
    pub fn set_piece_bytes(&mut self, bytes: usize) {
        self.piece_bytes = bytes;
    }

    /// Most bytes of text that one token can stand for, where that has a bound.
    pub fn bytes_per_token(&self) -> Option<usize> {
        self.bounds.bytes_per_token
    }

    /// Whether long texts are encoded in pieces.
    pub fn has_cuts(&self) -> bool {
        self.bounds.cut_rule.is_some()
    }

    /// Largest id + 1.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Ids of special tokens, ascending.
    pub fn special_ids(&self) -> &[u32] {
        &self.special_ids
    }

    /// bos_token of tokenizer_config.json.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// eos_token of tokenizer_config.json.
    pub fn eos_id(&self) -> Option<u32> {
        self.eos_id
    }

    /// Id of a token as the vocabulary spells it.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token as the vocabulary spells it.
    pub fn token_text(&self, id: u32) -> Result<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        let token = added.get(&id).map(|token| token.content.clone());
        let token = token.or_else(|| self.inner.id_to_token(id));
        token.ok_or_else(|| Error::new(Code::OutOfRange, format!("no token has id {}", id as i32)))
    }

    /// The bytes that the token contributes inside a text.
    pub fn token_bytes(&self, id: u32) -> Result<Vec<u8>> {
        let token = self.token_text(id)?;
        let is_added = self.inner.get_added_vocabulary().get_added_tokens_decoder().contains_key(&id);
        match &self.plan {
            Some(plan) if !is_added => plan.token_bytes(token),
            _ => Ok(token.into_bytes()),
        }
    }

    /// The token that the library's decoder receives for an id; none: the id is skipped.
    pub(crate) fn decoder_token(&self, id: u32, skip_special: bool) -> Option<String> {
        let token = self.inner.id_to_token(id)?;
        let skipped = skip_special && self.inner.get_added_vocabulary().is_special_token(&token);
        (!skipped).then_some(token)
    }

    /// Text of all ids at once. An id without a token adds nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        if ids.len() > MAX_TOKEN_IDS {
            return Err(Error::invalid(format!("{} token ids to decode; limit is {MAX_TOKEN_IDS}", ids.len())));
        }
        let text = self.inner.decode(ids, skip_special);
        text.map_err(|_| Error::new(Code::Internal, "the tokenizer's decoder refused the token ids"))
    }
}
