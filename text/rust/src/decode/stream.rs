// SPDX-License-Identifier: Apache-2.0
//! One output text, decoded incrementally.

use std::sync::Arc;

use super::stages::{self, StageState};
use crate::error::{Code, Error, Result};
use crate::limits::MAX_TOKEN_IDS;
use crate::tokenizer::TextTokenizer;

/// All deltas together are exactly the decoded whole; each is valid UTF-8.
pub struct DecodeStream {
    tokenizer: Arc<TextTokenizer>,
    skip_special: bool,
    states: Vec<StageState>,
    /// For a decoder without a plan: all ids, decoded at the end.
    kept: Vec<u32>,
    context_size: usize,
    ids_seen: usize,
    finished: bool,
}

impl DecodeStream {
    /// `context`: ids before the first pushed one.
    pub fn new(tokenizer: Arc<TextTokenizer>, context: &[u32], skip_special: bool) -> Result<Self> {
        let stages = tokenizer.plan.as_ref().map_or(0, |plan| plan.stages.len());
        let states = (0..stages).map(|_| StageState::default()).collect();
        let context_size = context.len();
        let mut stream =
            Self { tokenizer, skip_special, states, kept: Vec::new(), context_size, ids_seen: 0, finished: false };
        stream.push(context)?;
        if let Some(plan) = stream.tokenizer.plan.clone() {
            stages::end_context(&plan, &mut stream.states)?;
        }
        Ok(stream)
    }

    /// The text that is final after these ids.
    pub fn push(&mut self, ids: &[u32]) -> Result<String> {
        self.check_open()?;
        if ids.len() > MAX_TOKEN_IDS - self.ids_seen {
            let total = self.ids_seen + ids.len();
            return Err(Error::invalid(format!("{total} token ids in one stream; limit is {MAX_TOKEN_IDS}")));
        }
        self.ids_seen += ids.len();
        let mut text = String::new();
        let Some(plan) = self.tokenizer.plan.clone() else {
            self.kept.extend(ids);
            return Ok(text);
        };
        self.finished = true; // stays so if the library panics or refuses: the state is lost
        for id in ids {
            if let Some(token) = self.tokenizer.decoder_token(*id, self.skip_special) {
                stages::pass(&plan, &mut self.states, 0, token, &mut text)?;
            }
        }
        self.finished = false;
        Ok(text)
    }

    /// The held rest; callable once.
    pub fn finish(&mut self) -> Result<String> {
        self.check_open()?;
        self.finished = true;
        let mut text = String::new();
        match self.tokenizer.plan.clone() {
            Some(plan) => stages::finish(&plan, &mut self.states, &mut text)?,
            None => text = self.decode_kept()?,
        }
        Ok(text)
    }

    fn decode_kept(&self) -> Result<String> {
        let (context, ids) = self.kept.split_at(self.context_size);
        let before = self.tokenizer.decode(context, self.skip_special)?;
        let whole = self.tokenizer.decode(&self.kept, self.skip_special)?;
        match whole.strip_prefix(before.as_str()) {
            Some(text) => Ok(text.to_string()),
            None => self.tokenizer.decode(ids, self.skip_special),
        }
    }

    fn check_open(&self) -> Result<()> {
        match self.finished {
            true => Err(Error::new(Code::FailedPrecondition, "the stream is finished")),
            false => Ok(()),
        }
    }
}
