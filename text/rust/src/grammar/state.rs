// SPDX-License-Identifier: Apache-2.0
//! A compiled grammar, and how far one output has come in it. States of two outputs share nothing that changes, so the
//! mask of an output and its bounds do not depend on others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use llguidance::api::StopReason;
use llguidance::TokenParser;

use super::work::Work;
use crate::error::{Error, Result};
use crate::limits::{GRAMMAR_STATE_GROWTH, MAX_GRAMMAR_GROWTH};

/// Rules and symbols of a grammar, for each byte of its source.
const BYTES_PER_SOURCE_BYTE: usize = 100;

/// What the states of all grammars of a compiler have grown by, beyond what each may: one counter for them.
#[derive(Clone)]
pub(super) struct Growth(Arc<Counts>);

struct Counts {
    bytes: AtomicUsize,
    limit: AtomicUsize,
}

impl Default for Growth {
    fn default() -> Self {
        Self(Arc::new(Counts { bytes: AtomicUsize::new(0), limit: AtomicUsize::new(MAX_GRAMMAR_GROWTH) }))
    }
}

impl Growth {
    pub(super) fn limit(&self, bytes: usize) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }
}

/// The part of one state, which it gives back.
struct GrowthShare {
    all: Growth,
    start_bytes: usize,
    bytes: usize,
}

impl GrowthShare {
    fn new(all: Growth, start_bytes: usize) -> Self {
        Self { all, start_bytes, bytes: 0 }
    }

    /// Of a state that goes on from here with the same lexer: only what that grows by from now on.
    fn fork(&self) -> Self {
        Self::new(self.all.clone(), self.start_bytes + self.bytes)
    }

    /// Errors: RESOURCE_EXHAUSTED (the states of all outputs together).
    fn set(&mut self, bytes: usize) -> Result<()> {
        let grown = bytes.saturating_sub(self.start_bytes + GRAMMAR_STATE_GROWTH).saturating_sub(self.bytes);
        if grown == 0 {
            return Ok(());
        }
        let before = self.all.0.bytes.fetch_add(grown, Ordering::Relaxed);
        self.bytes += grown;
        if before + grown <= self.all.0.limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::exhausted("the grammars of all outputs take more memory than they may"))
    }
}

impl Drop for GrowthShare {
    fn drop(&mut self) {
        self.all.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Immutable; any thread.
pub struct CompiledGrammar {
    start: GrammarState,
    bytes: usize,
}

/// One thread at a time.
pub struct GrammarState {
    parser: TokenParser,
    growth: GrowthShare,
    work: Work,
    eos_ids: Arc<[u32]>,
    /// Of a state without a token: computed once.
    first_mask: Option<Arc<[u32]>>,
    accepting: bool,
    is_broken: bool,
}

impl CompiledGrammar {
    /// Errors: INVALID_ARGUMENT (no text can begin), RESOURCE_EXHAUSTED.
    pub(super) fn new(
        parser: TokenParser,
        growth: Growth,
        work: Work,
        eos_ids: Arc<[u32]>,
        width: u32,
        source_bytes: usize,
    ) -> Result<Self> {
        let growth = GrowthShare::new(growth, usize::MAX / 2); // the compilation is bounded by itself
        let mut start =
            GrammarState { parser, growth, work, eos_ids, first_mask: None, accepting: false, is_broken: false };
        start.settle()?;
        let mut mask = vec![0; (width as usize).div_ceil(32)];
        start.fill_mask(&mut mask)?;
        if !start.accepting && mask.iter().all(|word| *word == 0) {
            return Err(Error::invalid("matches nothing that the model's tokens can spell"));
        }
        let bytes = lexer_bytes(&start.parser) + 4 * mask.len() + BYTES_PER_SOURCE_BYTE * source_bytes;
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
            growth: GrowthShare::new(start.growth.all.clone(), lexer_bytes(&start.parser)),
            work: start.work.clone(),
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
            None => {
                self.compute_mask(mask)?;
                self.work.check()?;
                self.note_growth()?;
            }
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
        self.work.of_token(&mut self.parser, |parser| take(parser, token))?;
        self.settle()?;
        self.is_broken = false;
        Ok(())
    }

    /// The text so far is a complete match.
    pub fn is_accepting(&self) -> bool {
        self.accepting
    }

    /// A state of the same text that goes on by itself. Both share the lexer, whose states depend on no text, so that
    /// neither computes what the other one has; what a fork makes it grow by counts for both.
    pub fn fork(&self) -> GrammarState {
        GrammarState {
            parser: self.parser.clone(),
            growth: self.growth.fork(),
            work: self.work.clone(),
            eos_ids: self.eos_ids.clone(),
            first_mask: self.first_mask.clone(),
            accepting: self.accepting,
            is_broken: self.is_broken,
        }
    }

    /// Estimate of what its lexer has grown by since the output began.
    pub fn grown_bytes(&self) -> usize {
        lexer_bytes(&self.parser).saturating_sub(self.growth.start_bytes)
    }

    /// Work of the last token and the mask after it, on a client's own rules: as [`crate::limits::SLOW_TOKEN_WORK`] counts.
    pub fn token_work(&self) -> u64 {
        self.work.of_last_token()
    }

    fn check(&self) -> Result<()> {
        match self.is_broken {
            false => self.work.check(),
            true => Err(Error::exhausted("the state has failed before")),
        }
    }

    /// Of the lexer, which makes its states when a text needs them.
    fn note_growth(&mut self) -> Result<()> {
        let noted = self.growth.set(lexer_bytes(&self.parser));
        self.is_broken = self.is_broken || noted.is_err();
        noted
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
        match self.work.of_mask(&mut self.parser, TokenParser::compute_mask) {
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

fn take(parser: &mut TokenParser, token: u32) -> Result<()> {
    if !parser.validate_token(token).map_err(exhausted)? {
        return Err(Error::invalid(format!("token {token} does not continue the text")));
    }
    match parser.consume_token(token).map_err(exhausted)? {
        0 => Ok(()),
        _ => Err(Error::exhausted("the grammar takes tokens back")),
    }
}

/// About what the allocator gives for what the lexer counts.
fn lexer_bytes(parser: &TokenParser) -> usize {
    2 * parser.parser.lexer_stats().num_bytes
}

fn exhausted<E>(_: E) -> Error {
    Error::exhausted("the grammar is too complex to continue")
}
