// SPDX-License-Identifier: Apache-2.0
//! The parts of tokenizer.json that our rules check. The library silently drops duplicate keys and ids; this reader
//! keeps them, so that `vocabulary` can name them.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// The parts of tokenizer.json that are checked.
#[derive(Deserialize)]
pub(super) struct Document {
    pub model: ModelPart,
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub normalizer: Value,
    #[serde(default)]
    pub pre_tokenizer: Value,
    #[serde(default)]
    pub post_processor: Value,
    #[serde(default)]
    pub decoder: Value,
}

#[derive(Deserialize)]
pub(super) struct ModelPart {
    pub vocab: Vocab,
    #[serde(default)]
    pub merges: Vec<Merge>,
    #[serde(default)]
    pub unk_token: Option<String>,
    #[serde(default)]
    pub unk_id: Option<u32>,
    #[serde(default)]
    pub continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub max_input_chars_per_word: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub id: Value,
    pub content: String,
}

/// Newer files write a merge as a pair, older ones as one string with a space.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Merge {
    Pair(String, String),
    Line(String),
}

/// (token, id) in file order. Unigram lists [piece, score] pairs: the id is the index.
pub(super) struct Vocab(pub Vec<(String, Value)>);

impl Document {
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Error::invalid(format!("tokenizer.json: {error}")))
    }

    /// Id of the unknown token.
    pub fn unknown_id(&self) -> Option<u32> {
        let by_name = || {
            let name = self.model.unk_token.as_ref()?;
            let (_, id) = self.model.vocab.0.iter().find(|(token, _)| token == name)?;
            id.as_u64().and_then(|id| u32::try_from(id).ok())
        };
        self.model.unk_id.or_else(by_name)
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct VocabVisitor;
        impl<'de> Visitor<'de> for VocabVisitor {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("model.vocab: an object of token to id, or a list of [token, score]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Vocab, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Vocab(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Vocab, A::Error> {
                let mut entries = Vec::new();
                while let Some((token, _score)) = list.next_element::<(String, f64)>()? {
                    let id = entries.len() as u64;
                    entries.push((token, Value::from(id)));
                }
                Ok(Vocab(entries))
            }
        }
        deserializer.deserialize_any(VocabVisitor)
    }
}
