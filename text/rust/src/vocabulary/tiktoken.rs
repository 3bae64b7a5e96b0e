// SPDX-License-Identifier: Apache-2.0
//! A tiktoken vocabulary (tiktoken.model) as Kimi's models have it: lines of a token's bytes in Base64 and its rank, which
//! is its id. Two parts of a text become one token where the bytes of both are a token, the lowest rank first. So there
//! is no list of merges; the one pair of tokens that each token can be made of is found by the same rule.
//!
//! Special tokens follow the ranks. tokenizer_config.json names some of them (added_tokens_decoder), the others are
//! reserved. How a text is split is not in the files: it is part of the class that tokenizer_class names.
//!
//! Source: github.com/openai/tiktoken, src/lib.rs; the tokenizer class that Kimi K2 brings with its weights.

use ahash::AHashMap;
use serde::Deserialize;

use super::{types, Vocabulary};
use crate::error::{quote, Error, Result};
use crate::limits::MAX_VOCAB_SIZE;
use crate::python_json;

const CLASS: &str = "TikTokenTokenizer";
const SPECIAL_TOKENS: usize = 258;
/// Kimi's longest token has 128 bytes; the time to find the parts of one grows with the square.
const MAX_TOKEN_BYTES: usize = 1024;

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    tokenizer_class: Option<String>,
    #[serde(default)]
    added_tokens_decoder: AHashMap<String, AddedToken>,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    #[serde(default)]
    special: bool,
}

pub(super) fn parse(ranks: &[u8], config: &[u8], vocab_limit: u32) -> Result<Vocabulary> {
    let config: Config = match config.is_empty() {
        true => Config::default(),
        false => python_json::parse("tokenizer_config.json", config)?,
    };
    if config.tokenizer_class.as_deref() != Some(CLASS) {
        let class = quote(config.tokenizer_class.as_deref().unwrap_or_default());
        return Err(Error::invalid(format!(
            "tokenizer_config.json: tokenizer_class is {class}; of those with a tiktoken.model only {CLASS} is supported"
        )));
    }
    let tokens = parse_ranks(ranks)?;
    let mut vocabulary = Vocabulary {
        model: "gpt2".to_string(),
        pre: "kimi-k2".to_string(),
        tokens: tokens.iter().map(|token| letters(token)).collect(),
        types: vec![1.0; tokens.len()],
        merges: merges(&tokens)?,
        ..Default::default()
    };
    let limit = if vocab_limit == 0 { usize::MAX } else { vocab_limit as usize };
    for id in (tokens.len()..tokens.len() + SPECIAL_TOKENS).take_while(|id| *id < limit) {
        let added = config.added_tokens_decoder.get(&id.to_string());
        let reserved = || format!("<|reserved_token_{id}|>");
        vocabulary.tokens.push(added.map_or_else(reserved, |added| added.content.clone()));
        let special = added.is_none_or(|added| added.special);
        vocabulary.types.push(if special { types::CONTROL } else { types::USER_DEFINED });
    }
    Ok(vocabulary)
}

fn refuse<T>(problem: String) -> Result<T> {
    Err(Error::invalid(format!("tiktoken.model {problem}")))
}

/// The tokens' bytes by rank.
fn parse_ranks(file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    for (i, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let row = line.iter().position(|byte| *byte == b' ').and_then(|at| {
            let rank = std::str::from_utf8(&line[at + 1..]).ok()?.parse::<usize>().ok()?;
            Some((from_base64(&line[..at])?, rank))
        });
        let Some((token, rank)) = row else {
            return refuse(format!("is no tiktoken vocabulary: line {} is not a token in Base64 and its rank", i + 1));
        };
        if rank != tokens.len() {
            return refuse(format!("has rank {rank} in line {}; expected {}", i + 1, tokens.len()));
        }
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            let size = token.len();
            return refuse(format!("has a token of {size} bytes in line {}; limit is [1, {MAX_TOKEN_BYTES}]", i + 1));
        }
        if tokens.len() >= MAX_VOCAB_SIZE as usize {
            return refuse(format!("has more than {MAX_VOCAB_SIZE} tokens"));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
        digits => digits,
    };
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// The bytes as letters of a byte-level tokenizer.
/// Source: bytes_to_unicode in GPT-2's encoder.py.
fn letters(bytes: &[u8]) -> String {
    let letter = |byte: u8| {
        let code = match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => u32::from(byte),
            0..=b' ' => 0x100 + u32::from(byte),
            0x7F..=0xA0 => 0x121 + u32::from(byte - 0x7F),
            0xAD => 0x143,
        };
        char::from_u32(code).unwrap_or_default()
    };
    bytes.iter().map(|byte| letter(*byte)).collect()
}

/// "left right" for each token that two others make, by rank.
fn merges(tokens: &[Vec<u8>]) -> Result<Vec<String>> {
    let mut ranks: AHashMap<&[u8], usize> = AHashMap::with_capacity(tokens.len());
    for (rank, token) in tokens.iter().enumerate() {
        if let Some(other) = ranks.insert(token, rank) {
            return refuse(format!("has {} twice, with ranks {other} and {rank}", quote(&letters(token))));
        }
    }
    if let Some(byte) = (0..=255u8).find(|byte| !ranks.contains_key([*byte].as_slice())) {
        return refuse(format!("has no token for the byte {byte:#04x}"));
    }
    let pairs = tokens.iter().enumerate().filter_map(|(rank, token)| {
        let at = last_cut(token, rank, &ranks)?;
        Some(format!("{} {}", letters(&token[..at]), letters(&token[at..])))
    });
    Ok(pairs.collect())
}

/// Where a token's last two parts meet, when its bytes are merged by the ranks below its own. None: they never become
/// two parts.
fn last_cut(token: &[u8], rank: usize, ranks: &AHashMap<&[u8], usize>) -> Option<usize> {
    let mut ends: Vec<usize> = (1..=token.len()).collect(); // of the parts
    while ends.len() > 2 {
        let start = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
        let pairs = (0..ends.len() - 1).filter_map(|i| Some((*ranks.get(&token[start(i)..ends[i + 1]])?, i)));
        let (_, i) = pairs.min().filter(|(lowest, _)| *lowest < rank)?;
        ends.remove(i);
    }
    (ends.len() == 2).then(|| ends[0])
}
