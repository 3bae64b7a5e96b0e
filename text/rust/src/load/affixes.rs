// SPDX-License-Identifier: Apache-2.0
//! The special tokens around a text, determined once: the post-processor of tokenizer.json is applied to one token,
//! then add_bos_token and add_eos_token of tokenizer_config.json override the result, as `transformers` does when it
//! rebuilds the post-processor.

use tokenizers::{Encoding, Token, Tokenizer};

use super::config::TokenizerConfig;
use crate::error::{Code, Error, Result};

/// Ids before and after a text.
#[derive(Debug, Default)]
pub(crate) struct Affixes {
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
}

/// The special tokens around a pair of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairFrame {
    /// Before the first text.
    pub prefix: Vec<u32>,
    /// Between them.
    pub middle: Vec<u32>,
    /// Behind the second.
    pub suffix: Vec<u32>,
    /// So many of `middle` have type 0, as all before them; all behind them have type 1. None: all have type 0.
    pub middle_first: Option<usize>,
}

/// No token has these ids: tokenizers are bounded to 2^22 ids.
const PROBE: u32 = u32::MAX;
const SECOND_PROBE: u32 = u32::MAX - 1;

fn probe(id: u32, type_id: u32) -> Encoding {
    Encoding::from_tokens(vec![Token::new(id, String::new(), (0, 0))], type_id)
}

impl Affixes {
    pub fn find(tokenizer: &Tokenizer, config: &TokenizerConfig) -> Result<Self> {
        let framed = tokenizer
            .post_process(probe(PROBE, 0), None, true)
            .map_err(|error| Error::invalid(format!("tokenizer.json: post_processor: {error}")))?;
        let mut parts = framed.get_ids().split(|id| *id == PROBE);
        let (Some(prefix), Some(suffix), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::invalid("tokenizer.json: post_processor does not keep the text exactly once"));
        };
        let mut affixes = Self { prefix: prefix.to_vec(), suffix: suffix.to_vec() };
        if let Some(add) = config.add_bos_token {
            let bos = config.bos_id(tokenizer);
            set(&mut affixes.prefix, add, bos, "bos_token", |ids, bos| ids.insert(0, bos))?;
        }
        if let Some(add) = config.add_eos_token {
            let eos = config.eos_id(tokenizer);
            set(&mut affixes.suffix, add, eos, "eos_token", |ids, eos| ids.push(eos))?;
        }
        Ok(affixes)
    }

    pub fn check(&self, id_limit: u32) -> Result<()> {
        match self.prefix.iter().chain(&self.suffix).find(|id| **id >= id_limit) {
            None => Ok(()),
            Some(id) => Err(Error::invalid(format!(
                "tokenizer.json: post_processor adds id {id}; the model has {id_limit} token ids (embedding rows)"
            ))),
        }
    }
}

impl PairFrame {
    /// None: the post-processor has no form for pairs, or one that this does not describe.
    pub fn find(tokenizer: &Tokenizer, id_limit: u32) -> Option<Self> {
        let framed = tokenizer.post_process(probe(PROBE, 0), Some(probe(SECOND_PROBE, 1)), true).ok()?;
        let (ids, types) = (framed.get_ids(), framed.get_type_ids());
        let first = ids.iter().position(|id| *id == PROBE)?;
        let second = ids.iter().position(|id| *id == SECOND_PROBE)?;
        let (prefix, middle, suffix) = (ids.get(..first)?, ids.get(first + 1..second)?, &ids[second + 1..]);
        if [prefix, middle, suffix].concat().iter().any(|id| *id >= id_limit) {
            return None;
        }
        let zeros = types.iter().take_while(|id| **id == 0).count();
        let middle_first = match zeros == types.len() {
            true => None,
            false if types[zeros..].iter().all(|id| *id == 1) && first < zeros && zeros <= second => {
                Some(zeros - first - 1)
            }
            false => return None,
        };
        Some(Self { prefix: prefix.to_vec(), middle: middle.to_vec(), suffix: suffix.to_vec(), middle_first })
    }
}

fn set(ids: &mut Vec<u32>, add: bool, id: Option<u32>, name: &str, place: impl Fn(&mut Vec<u32>, u32)) -> Result<()> {
    match id {
        Some(id) if !add => ids.retain(|other| *other != id),
        Some(id) if !ids.contains(&id) => place(ids, id),
        None if add => {
            return Err(Error::new(
                Code::InvalidArgument,
                format!("tokenizer_config.json: add_{name} is true, but {name} names no token of the vocabulary"),
            ));
        }
        _ => {}
    }
    Ok(())
}
