// SPDX-License-Identifier: Apache-2.0
//! Counts of a grammar.

use crate::limits::LEXER_STATES_PER_CHARACTER;

/// Of all schemas of a grammar so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) schemas: usize,
    /// Items that they state.
    pub(super) items: u64,
    /// Characters of the longest string that one states.
    pub(super) longest: u64,
    /// Of the client's own.
    pub(super) has_expressions: bool,
    /// Long strings may be counted in blocks; some are.
    pub(super) in_blocks: bool,
    pub(super) has_blocks: bool,
}

impl Totals {
    /// States of the lexer that count characters.
    pub(super) fn counting_states(&self) -> usize {
        if self.has_expressions {
            0
        } else {
            LEXER_STATES_PER_CHARACTER * self.longest as usize
        }
    }
}
