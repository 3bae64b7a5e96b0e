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

/// No token has this id: tokenizers are bounded to 2^22 ids.
const PROBE: u32 = u32::MAX;

impl Affixes {
    pub fn find(tokenizer: &Tokenizer, config: &TokenizerConfig) -> Result<Self> {
        let probe = Encoding::from_tokens(vec![Token::new(PROBE, String::new(), (0, 0))], 0);
        let framed = tokenizer
            .post_process(probe, None, true)
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
