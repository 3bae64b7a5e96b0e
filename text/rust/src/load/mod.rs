// SPDX-License-Identifier: Apache-2.0
//! From the files of a model directory to a [`TextTokenizer`]: size, JSON, our rules, the library, and checks of its
//! result. Errors of each stage name the file and the place in it.

mod affixes;
mod bytes_per_token;
mod components;
mod config;
mod cut_points;
mod decoder;
mod document;
pub(crate) mod patterns;
mod post_processor;
mod vocabulary;

use tokenizers::models::ModelWrapper;
use tokenizers::Tokenizer;

use crate::error::{quote, Code, Error, Result};
use crate::limits;
use crate::tokenizer::TextTokenizer;
use crate::vocabulary as vocabulary_json;

pub(crate) use affixes::Affixes;
pub use affixes::PairFrame;
use config::TokenizerConfig;
pub use cut_points::is_word;
pub(crate) use cut_points::CutRule;
use document::Document;

/// What is known of a tokenizer before it reads a text.
pub(crate) struct TextBounds {
    /// Most bytes of text that one token can stand for; none: there is no such bound.
    pub bytes_per_token: Option<usize>,
    /// Where a text may be cut; none: nowhere.
    pub cut_rule: Option<CutRule>,
}

/// Loads from memory. `config` may be empty.
pub fn load_json(json: &[u8], config: &[u8], vocab_limit: u32) -> Result<TextTokenizer> {
    if json.len() > limits::MAX_TOKENIZER_JSON_BYTES {
        return Err(too_large("tokenizer.json", json.len() as u64, limits::MAX_TOKENIZER_JSON_BYTES));
    }
    let config = TokenizerConfig::parse(config)?;
    let document = Document::parse(json)?;
    let id_limit = match vocab_limit {
        0 => limits::MAX_VOCAB_SIZE,
        rows => rows.min(limits::MAX_VOCAB_SIZE),
    };
    vocabulary::check(&document, id_limit)?;
    components::check(&document)?;
    post_processor::check(&document.post_processor)?;

    let mut tokenizer =
        Tokenizer::from_bytes(json).map_err(|error| Error::invalid(format!("tokenizer.json: {error}")))?;
    check_added_ids(&document, &tokenizer)?;
    make_predictable(&mut tokenizer)?;
    let bos_id = config.bos_id(&tokenizer);
    let eos_id = config.eos_id(&tokenizer);
    let affixes = Affixes::find(&tokenizer, &config)?;
    affixes.check(id_limit)?;
    let bounds =
        TextBounds { bytes_per_token: bytes_per_token::bound(&tokenizer), cut_rule: cut_points::find(&tokenizer) };
    let pair_frame = PairFrame::find(&tokenizer, id_limit);
    let mut built = TextTokenizer::new(tokenizer, affixes, bounds, document.unknown_id(), bos_id, eos_id);
    built.set_pair_frame(pair_frame);
    Ok(built)
}

/// Loads from a vocabulary with its rules in JSON (src/vocabulary).
pub fn load_vocabulary(text: &[u8], config: &[u8], vocab_limit: u32) -> Result<TextTokenizer> {
    load_json(&vocabulary_json::from_json(text)?, config, vocab_limit)
}

/// The same from a SentencePiece model, the bytes of tokenizer.model.
pub fn load_sentencepiece(model: &[u8], config: &[u8], vocab_limit: u32) -> Result<TextTokenizer> {
    load_json(&vocabulary_json::from_sentencepiece(model)?, config, vocab_limit)
}

/// The same from a tiktoken vocabulary, the bytes of tiktoken.model.
pub fn load_tiktoken(ranks: &[u8], config: &[u8], vocab_limit: u32) -> Result<TextTokenizer> {
    load_json(&vocabulary_json::from_tiktoken(ranks, config, vocab_limit)?, config, vocab_limit)
}

fn too_large(name: &str, size: u64, limit: usize) -> Error {
    Error::invalid(format!("{name} has {size} bytes; limit is {limit}"))
}

/// The library assigns ids to added tokens itself and only warns if the file disagrees; here that is an error.
fn check_added_ids(document: &Document, tokenizer: &Tokenizer) -> Result<()> {
    for (i, added) in document.added_tokens.iter().enumerate() {
        let id = tokenizer.token_to_id(&added.content);
        if id.map(u64::from) != added.id.as_u64() {
            let content = quote(&added.content);
            let found = id.map_or("no id".to_string(), |id| format!("id {id}"));
            return Err(Error::invalid(format!(
                "tokenizer.json: added_tokens[{i}] {content} says id {}, but its place in the vocabulary gives {found}",
                added.id
            )));
        }
    }
    Ok(())
}

/// Disables the file's truncation, padding and dropout, and the library's word cache, which would keep parts of prompts
/// and grows per thread without being freed; and mends its decoder.
fn make_predictable(tokenizer: &mut Tokenizer) -> Result<()> {
    let failed = |error| Error::new(Code::Internal, format!("tokenizer.json: {error}"));
    tokenizer.with_truncation(None).map_err(failed)?;
    tokenizer.with_padding(None);
    let mut model = tokenizer.get_model().clone();
    match &mut model {
        ModelWrapper::BPE(bpe) => {
            bpe.dropout = None;
            bpe.resize_cache(0);
        }
        ModelWrapper::Unigram(unigram) => unigram.resize_cache(0),
        ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => {}
    }
    tokenizer.with_model(model);
    let decoder = tokenizer.get_decoder().map(decoder::without_panics).transpose()?;
    tokenizer.with_decoder(decoder);
    Ok(())
}
