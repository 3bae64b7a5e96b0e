// SPDX-License-Identifier: Apache-2.0
//! From a vocabulary with its rules to a tokenizer.json: for models whose files have none. What comes out is loaded by
//! `load` like any other, with all its limits.
//!
//! The vocabulary is an object. `model`: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "gemma4" (the same with
//! merges) or "bert" (WordPiece), the words of GGUF. `pre`: how byte-level text is split. `tokens`, and beside them
//! `scores` and `types` (GGUF's numbers). `merges`: "left right". The ids bos_token, eos_token, unk_token, sep_token,
//! cls_token. The flags add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces.

mod byte_level;
mod proto;
mod sentencepiece;
mod tiktoken;
mod wordpiece;

use std::borrow::Cow;

use ahash::AHashMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{json, Map, Value};

use crate::error::{quote, Error, Result};
use crate::limits::MAX_TOKENIZER_JSON_BYTES;

/// GGUF's types of tokens (those of SentencePiece).
mod types {
    pub const UNKNOWN: f64 = 2.0;
    pub const CONTROL: f64 = 3.0;
    pub const USER_DEFINED: f64 = 4.0;
    pub const UNUSED: f64 = 5.0;
    pub const BYTE: f64 = 6.0;
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Vocabulary {
    model: String,
    pre: String,
    tokens: Vec<String>,
    scores: Vec<f64>,
    types: Vec<f64>,
    merges: Vec<String>,
    bos_token: Option<usize>,
    eos_token: Option<usize>,
    unk_token: Option<usize>,
    sep_token: Option<usize>,
    cls_token: Option<usize>,
    add_bos: Option<bool>,
    add_eos: Option<bool>,
    add_sep: Option<bool>,
    add_space_prefix: Option<bool>,
    remove_extra_whitespaces: Option<bool>,
}

/// The tokenizer.json of a vocabulary in JSON.
pub(crate) fn from_json(text: &[u8]) -> Result<Vec<u8>> {
    check_size("the vocabulary", text)?;
    let vocabulary: Vocabulary =
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!("the vocabulary: {error}")))?;
    write(&vocabulary)
}

/// The tokenizer.json of a SentencePiece model.
pub(crate) fn from_sentencepiece(bytes: &[u8]) -> Result<Vec<u8>> {
    check_size("tokenizer.model", bytes)?;
    write(&proto::parse(bytes)?)
}

/// The tokenizer.json of a tiktoken vocabulary with its tokenizer_config.json. vocab_limit: as `load` has it.
pub(crate) fn from_tiktoken(ranks: &[u8], config: &[u8], vocab_limit: u32) -> Result<Vec<u8>> {
    check_size("tiktoken.model", ranks)?;
    write(&tiktoken::parse(ranks, config, vocab_limit)?)
}

fn check_size(name: &str, bytes: &[u8]) -> Result<()> {
    let size = bytes.len();
    match size > MAX_TOKENIZER_JSON_BYTES {
        true => Err(Error::invalid(format!("{name} has {size} bytes; limit is {MAX_TOKENIZER_JSON_BYTES}"))),
        false => Ok(()),
    }
}

fn write(vocabulary: &Vocabulary) -> Result<Vec<u8>> {
    let document = match vocabulary.model.as_str() {
        "gpt2" => byte_level::write(vocabulary)?,
        "llama" => sentencepiece::write(vocabulary)?,
        "gemma4" => sentencepiece::write_with_merges(vocabulary)?,
        "bert" => wordpiece::write(vocabulary)?,
        other => {
            let name = quote(other);
            let known = "gpt2, llama, gemma4, bert";
            return Err(Error::invalid(format!("tokenizer model {name} is not supported; known: {known}")));
        }
    };
    serde_json::to_vec(&document).map_err(|error| Error::invalid(format!("the vocabulary: {error}")))
}

impl Vocabulary {
    fn type_of(&self, id: usize) -> f64 {
        self.types.get(id).copied().unwrap_or(1.0)
    }

    /// Ids by token; a token that occurs twice is an error.
    fn ids(&self) -> Result<AHashMap<&str, usize>> {
        let mut ids = AHashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(other) = ids.insert(token.as_str(), id) {
                let token = quote(token);
                return Err(Error::invalid(format!("the vocabulary has {token} twice, with ids {other} and {id}")));
            }
        }
        Ok(ids)
    }

    /// `model.vocab`: the tokens that `keep`, as `spell` writes them.
    fn vocab<'a>(
        &'a self,
        keep: impl Fn(usize) -> bool,
        spell: impl Fn(usize, &'a str) -> Cow<'a, str>,
    ) -> Vec<(Cow<'a, str>, usize)> {
        let tokens = self.tokens.iter().enumerate().filter(|(id, _)| keep(*id));
        tokens.map(|(id, token)| (spell(id, token), id)).collect()
    }

    /// `added_tokens`: those that are matched in a text before it is split.
    fn added(&self) -> Vec<Value> {
        let added = self.tokens.iter().enumerate().filter(|(id, token)| {
            let kind = self.type_of(*id);
            !token.is_empty() && [types::UNKNOWN, types::CONTROL, types::USER_DEFINED].contains(&kind)
        });
        let write = |(id, token): (usize, &String)| {
            let special = self.type_of(id) != types::USER_DEFINED;
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": special})
        };
        added.map(write).collect()
    }

    /// `model.merges`, from "left right".
    fn listed_merges(&self) -> Result<Vec<[&str; 2]>> {
        let mut merges = Vec::with_capacity(self.merges.len());
        for (i, merge) in self.merges.iter().enumerate() {
            // A token may be a space: the separator is the first one after the first character.
            let start = merge.chars().next().map_or(0, char::len_utf8);
            let space = merge[start..].find(' ').map(|at| at + start);
            let Some(space) = space else {
                let merge = quote(merge);
                return Err(Error::invalid(format!("merges[{i}] of the vocabulary, {merge}, is not two tokens")));
            };
            merges.push([&merge[..space], &merge[space + 1..]]);
        }
        Ok(merges)
    }

    fn token(&self, id: Option<usize>, name: &str) -> Result<(usize, &str)> {
        let found = id.and_then(|id| Some((id, self.tokens.get(id)?.as_str())));
        found.ok_or_else(|| Error::invalid(format!("the vocabulary names no {name}, which its rules add to a text")))
    }

    /// A post-processor that puts tokens around a text; null without any.
    fn around(&self, before: Option<(usize, &str)>, after: Option<(usize, &str)>) -> Value {
        let special = |(_, token): (usize, &str)| json!({"SpecialToken": {"id": token, "type_id": 0}});
        let text = |kind: &str, type_id: u32| json!({"Sequence": {"id": kind, "type_id": type_id}});
        let mut single: Vec<Value> = before.iter().copied().map(special).collect();
        single.push(text("A", 0));
        single.extend(after.iter().copied().map(special));
        if single.len() == 1 {
            return Value::Null;
        }
        let mut pair = single.clone();
        pair.push(text("B", 1));
        pair.extend(after.iter().copied().map(special));
        let mut tokens = Map::new();
        for (id, token) in before.into_iter().chain(after) {
            tokens.insert(token.to_string(), json!({"id": token, "ids": [id], "tokens": [token]}));
        }
        json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
    }

    /// BOS and EOS around a text, by the vocabulary's flags and these defaults.
    fn bos_and_eos(&self, add_bos: bool, add_eos: bool) -> Result<Value> {
        let bos = self.add_bos.unwrap_or(add_bos).then(|| self.token(self.bos_token, "BOS token")).transpose()?;
        let eos = self.add_eos.unwrap_or(add_eos).then(|| self.token(self.eos_token, "EOS token")).transpose()?;
        Ok(self.around(bos, eos))
    }
}

/// A tokenizer.json. Its long parts are written from what the vocabulary holds: as values of serde_json they took a
/// quarter of the time that a tokenizer takes to load.
#[derive(Serialize)]
struct TokenizerJson<'a> {
    version: &'static str,
    truncation: Value,
    padding: Value,
    added_tokens: Vec<Value>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: ModelJson<'a>,
}

#[derive(Serialize)]
struct ModelJson<'a> {
    /// All fields but those below.
    #[serde(flatten)]
    rules: Value,
    #[serde(serialize_with = "as_object")]
    vocab: Vec<(Cow<'a, str>, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merges: Option<Vec<[&'a str; 2]>>,
}

fn as_object<S: Serializer>(entries: &[(Cow<str>, usize)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(token, id)| (token, id)))
}

impl<'a> TokenizerJson<'a> {
    /// Of a model alone: every other part is null or empty.
    fn of(model: ModelJson<'a>) -> Self {
        TokenizerJson {
            version: "1.0",
            truncation: Value::Null,
            padding: Value::Null,
            added_tokens: Vec::new(),
            normalizer: Value::Null,
            pre_tokenizer: Value::Null,
            post_processor: Value::Null,
            decoder: Value::Null,
            model,
        }
    }
}
