// SPDX-License-Identifier: Apache-2.0
//! What a client's own rules may cost an output, and so the others that wait for its masks. In an ambiguous grammar, as
//! `x: x x`, the parser's work on a row grows with the cube of its items, of which each token adds some; in others with
//! their square at most. Which of them a grammar is, nothing tells. So the cubes are counted, and where they are many the
//! token's processor time: whatever the machine, nothing ends below the count, and no large grammar that is quick.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use llguidance::earley::{BiasComputer, ParserRecognizer};
use llguidance::toktrie::{Recognizer, SimpleVob, TokTrie};
use llguidance::TokenParser;

use crate::error::{Error, Result};
use crate::limits::{MAX_SLOW_TIME, SLOW_TOKEN_TIME, SLOW_TOKEN_WORK};

/// Processor time of the calling thread; only differences count.
pub type Clock = fn() -> Duration;

/// Of one output. A token's work is to take it, and the mask after it.
#[derive(Clone, Default)]
pub(super) struct Work {
    /// Without one nothing is counted.
    clock: Option<Clock>,
    /// Rows and items of the parser, when they were noted last, and the items of the widest row.
    seen: Counts,
    token: u64,
    token_time: Duration,
    /// Of the slow tokens before.
    slow_time: Duration,
}

/// Of rows: how many, their items, the items of the widest, and the cubes of their items.
#[derive(Clone, Copy, Default)]
struct Counts {
    rows: usize,
    items: usize,
    width: usize,
    work: u64,
}

impl Work {
    pub(super) fn bounded(clock: Clock) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// What `take` returns, which takes the next token.
    pub(super) fn of_token<T>(&mut self, parser: &mut TokenParser, take: impl FnOnce(&mut TokenParser) -> T) -> T {
        let Some(clock) = self.clock else { return take(parser) };
        self.slow_time = self.all_slow_time();
        (self.token, self.token_time) = (0, Duration::ZERO);
        let start = clock();
        let outcome = take(parser);
        self.token_time = clock().saturating_sub(start);
        self.note(parser, Counts::default());
        outcome
    }

    /// What `compute` returns, which computes the mask, and ends early at the bound.
    pub(super) fn of_mask<T>(&mut self, parser: &mut TokenParser, compute: impl FnOnce(&mut TokenParser) -> T) -> T {
        let Some(clock) = self.clock else { return compute(parser) };
        let start = clock();
        let counter = Arc::new(Counter {
            plain: parser.bias_computer.clone(),
            quick: SLOW_TOKEN_WORK.saturating_sub(self.token),
            // A mask is whole, or its token slow and the output at its bound.
            end: (start + SLOW_TOKEN_TIME.max(MAX_SLOW_TIME.saturating_sub(self.slow_time)))
                .saturating_sub(self.token_time),
            clock,
            counts: Mutex::default(),
        });
        parser.bias_computer = counter.clone();
        let outcome = compute(parser);
        parser.bias_computer = counter.plain.clone();
        self.token_time += clock().saturating_sub(start);
        self.note(parser, counter.counts());
        outcome
    }

    /// Rows that were not counted one by one are taken for as wide as the widest.
    fn note(&mut self, parser: &TokenParser, counted: Counts) {
        let stats = parser.parser.stats();
        let rows = stats.rows - self.seen.rows - counted.rows;
        let items = stats.all_items - self.seen.items - counted.items;
        let width = self.seen.width.max(counted.width).max(items.div_ceil(rows.max(1)));
        self.seen = Counts { rows: stats.rows, items: stats.all_items, width, work: 0 };
        let others = (items as u64).saturating_mul((width as u64).saturating_pow(2));
        self.token = self.token.saturating_add(counted.work).saturating_add(others);
    }

    /// Items of the token's rows, each row's cubed.
    pub(super) fn of_last_token(&self) -> u64 {
        self.token
    }

    fn all_slow_time(&self) -> Duration {
        let is_slow = self.token > SLOW_TOKEN_WORK && self.token_time > SLOW_TOKEN_TIME;
        self.slow_time + if is_slow { self.token_time } else { Duration::ZERO }
    }

    /// Errors: RESOURCE_EXHAUSTED.
    pub(super) fn check(&self) -> Result<()> {
        let time = self.all_slow_time();
        if time <= MAX_SLOW_TIME {
            return Ok(());
        }
        Err(Error::exhausted(format!(
            "the grammar is too ambiguous to continue: tokens of more than {} ms took {} ms of processor time; limit is {} \
             ms for an output",
            SLOW_TOKEN_TIME.as_millis(),
            time.as_millis(),
            MAX_SLOW_TIME.as_millis()
        )))
    }
}

/// Computes a mask and counts the rows that the parser makes for it.
struct Counter {
    plain: Arc<dyn BiasComputer>,
    /// Work that may take any time.
    quick: u64,
    end: Duration,
    clock: Clock,
    counts: Mutex<Counts>,
}

impl Counter {
    fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the bound allows for more.
    fn add(&self, rows: usize, items: usize) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.rows += rows;
        counts.items += items;
        counts.width = counts.width.max(items);
        counts.work = counts.work.saturating_add((items as u64).saturating_pow(3));
        counts.work <= self.quick || (self.clock)() <= self.end
    }
}

impl BiasComputer for Counter {
    /// Where a string goes on, slices of the vocabulary answer for most tokens, and few of the others make rows: they are
    /// not counted one by one.
    fn compute_bias(&self, rec: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let lexer_state = rec.lexer_state();
        if start.is_empty() && rec.lexer_mut().subsume_possible(lexer_state) {
            return self.plain.compute_bias(rec, start);
        }
        let mut set = self.trie().alloc_token_set();
        self.trie().add_bias(&mut Counted { rec, counter: self }, &mut set, start);
        set
    }

    fn trie(&self) -> &TokTrie {
        self.plain.trie()
    }
}

/// Pushes bytes as the parser does.
struct Counted<'a, 'b> {
    rec: &'a mut ParserRecognizer<'b>,
    counter: &'a Counter,
}

impl Recognizer for Counted<'_, '_> {
    fn pop_bytes(&mut self, num: usize) {
        self.rec.pop_bytes(num);
    }

    fn collapse(&mut self) {
        self.rec.collapse();
    }

    fn trie_started(&mut self, label: &str) {
        self.rec.trie_started(label);
    }

    fn trie_finished(&mut self) {
        self.rec.trie_finished();
    }

    fn try_push_byte(&mut self, byte: u8) -> bool {
        let before = (self.rec.stats_mut().rows, self.rec.stats_mut().all_items);
        let pushed = self.rec.try_push_byte(byte);
        let (rows, items) = (self.rec.stats_mut().rows - before.0, self.rec.stats_mut().all_items - before.1);
        if rows == 0 || self.counter.add(rows, items) || !pushed {
            return pushed;
        }
        self.rec.pop_bytes(1);
        false
    }

    fn save_stats(&mut self, nodes_walked: usize) {
        self.rec.save_stats(nodes_walked);
    }
}
