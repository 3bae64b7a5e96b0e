// SPDX-License-Identifier: Apache-2.0
//! A compiled grammar, and how far one output has come in it. States share nothing that changes, so the mask of an output
//! and its bounds do not depend on others.

use std::sync::Arc;

use llguidance::api::StopReason;
use llguidance::TokenParser;

use crate::error::{Error, Result};

/// Rules and symbols of a grammar, for each byte of its source.
const BYTES_PER_SOURCE_BYTE: usize = 100;

/// Immutable; any thread.
pub struct CompiledGrammar {
    start: GrammarState,
    bytes: usize,
}

/// One thread at a time.
pub struct GrammarState {
    parser: TokenParser,
    eos_ids: Arc<[u32]>,
    /// Of a state without a token: computed once.
    first_mask: Option<Arc<[u32]>>,
    accepting: bool,
    is_broken: bool,
}

impl CompiledGrammar {
    /// Errors: INVALID_ARGUMENT (no text can begin), RESOURCE_EXHAUSTED.
    pub(super) fn new(parser: TokenParser, eos_ids: Arc<[u32]>, width: u32, source_bytes: usize) -> Result<Self> {
        let mut start = GrammarState { parser, eos_ids, first_mask: None, accepting: false, is_broken: false };
        start.settle()?;
        let mut mask = vec![0; (width as usize).div_ceil(32)];
        start.fill_mask(&mut mask)?;
        if !start.accepting && mask.iter().all(|word| *word == 0) {
            return Err(Error::invalid("matches nothing that the model's tokens can spell"));
        }
        let lexer = start.parser.parser.lexer_stats();
        let bytes = 2 * lexer.num_bytes + 4 * mask.len() + BYTES_PER_SOURCE_BYTE * source_bytes;
        start.first_mask = Some(mask.into());
        Ok(Self { start, bytes })
    }

    /// Estimate of the memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state of an output without a token.
    pub fn start(&self) -> GrammarState {
        let start = &self.start;
        GrammarState {
            parser: start.parser.deep_clone(),
            eos_ids: start.eos_ids.clone(),
            first_mask: start.first_mask.clone(),
            accepting: start.accepting,
            is_broken: false,
        }
    }
}

impl GrammarState {
    /// One bit per token that may come next: every end of a text where it may end. `mask`: as many words as the
    /// compiler's width needs. Errors: RESOURCE_EXHAUSTED; the state is then unusable.
    pub fn fill_mask(&mut self, mask: &mut [u32]) -> Result<()> {
        self.check()?;
        match &self.first_mask {
            Some(first) => {
                mask.fill(0);
                let size = first.len().min(mask.len());
                mask[..size].copy_from_slice(&first[..size]);
            }
            None => self.compute_mask(mask)?,
        }
        for id in self.eos_ids.iter() {
            if let Some(word) = mask.get_mut(*id as usize / 32) {
                let bit = 1 << (id % 32);
                *word = if self.accepting { *word | bit } else { *word & !bit };
            }
        }
        Ok(())
    }

    /// Takes the next token. Errors: INVALID_ARGUMENT (not in the mask), RESOURCE_EXHAUSTED; the state is then unusable.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        self.check()?;
        self.first_mask = None;
        self.is_broken = true; // until it has succeeded
        if !self.parser.validate_token(token).map_err(exhausted)? {
            return Err(Error::invalid(format!("token {token} does not continue the text")));
        }
        if self.parser.consume_token(token).map_err(exhausted)? != 0 {
            return Err(Error::exhausted("the grammar takes tokens back"));
        }
        self.settle()?;
        self.is_broken = false;
        Ok(())
    }

    /// The text so far is a complete match.
    pub fn is_accepting(&self) -> bool {
        self.accepting
    }

    fn check(&self) -> Result<()> {
        match self.is_broken {
            false => Ok(()),
            true => Err(Error::exhausted("the state has failed before")),
        }
    }

    fn settle(&mut self) -> Result<()> {
        self.accepting = self.parser.is_accepting();
        self.parser.check_stop().map(|_| ()).map_err(exhausted)
    }

    fn compute_mask(&mut self, mask: &mut [u32]) -> Result<()> {
        mask.fill(0);
        if self.parser.stopped() {
            return Ok(()); // a complete match that nothing continues
        }
        match self.parser.compute_mask() {
            Ok(allowed) => {
                let words = allowed.as_slice();
                let size = words.len().min(mask.len());
                mask[..size].copy_from_slice(&words[..size]);
                Ok(())
            }
            Err(_) if self.parser.stop_reason() == StopReason::NoExtensionBias => Ok(()),
            Err(error) => {
                self.is_broken = true;
                Err(exhausted(error))
            }
        }
    }
}

fn exhausted<E>(_: E) -> Error {
    Error::exhausted("the grammar is too complex to continue")
}
