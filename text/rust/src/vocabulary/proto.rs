// SPDX-License-Identifier: Apache-2.0
//! A SentencePiece model (tokenizer.model): the fields of its protocol buffer that a BPE of pieces needs.
//!
//! Source: github.com/google/sentencepiece, src/sentencepiece_model.proto (field numbers).

use super::{types, Vocabulary};
use crate::error::{quote, Error, Result};
use crate::limits::MAX_VOCAB_SIZE;

const BPE: u64 = 2;

/// A field of a message: a number, or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of one message, front to back.
struct Fields<'a> {
    rest: &'a [u8],
}

fn broken() -> Error {
    Error::invalid("tokenizer.model is no SentencePiece model: its protocol buffer is cut short or malformed")
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or_else(broken)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken())
    }

    fn take(&mut self, size: u64) -> Result<&'a [u8]> {
        let size = usize::try_from(size).map_err(|_| broken())?;
        let taken = self.rest.get(..size).ok_or_else(broken)?;
        self.rest = &self.rest[size..];
        Ok(taken)
    }

    fn fixed(&mut self, size: u64) -> Result<u64> {
        let bytes = self.take(size)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The next field's number and value; none at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Number(self.fixed(8)?),
            2 => {
                let size = self.varint()?;
                Field::Bytes(self.take(size)?)
            }
            5 => Field::Number(self.fixed(4)?),
            _ => return Err(broken()),
        };
        Ok(Some((tag >> 3, value)))
    }
}

fn each<'a>(message: &'a [u8], mut visit: impl FnMut(u64, Field<'a>) -> Result<()>) -> Result<()> {
    let mut fields = Fields { rest: message };
    while let Some((number, value)) = fields.next()? {
        visit(number, value)?;
    }
    Ok(())
}

/// TrainerSpec and NormalizerSpec, with their defaults.
struct Rules {
    model_type: u64,
    whitespace_is_suffix: bool,
    bos_id: u64,
    eos_id: u64,
    unk_id: u64,
    normalizer: String,
    has_map: bool,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Vocabulary> {
    let mut vocabulary = Vocabulary { model: "llama".to_string(), ..Default::default() };
    let mut rules = Rules {
        model_type: 1,
        whitespace_is_suffix: false,
        bos_id: 1,
        eos_id: 2,
        unk_id: 0,
        normalizer: String::new(),
        has_map: false,
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
    };
    each(bytes, |number, value| match (number, value) {
        (1, Field::Bytes(piece)) => parse_piece(piece, &mut vocabulary),
        (2, Field::Bytes(trainer)) => parse_trainer(trainer, &mut rules),
        (3, Field::Bytes(normalizer)) => parse_normalizer(normalizer, &mut rules),
        _ => Ok(()),
    })?;
    check(&vocabulary, &rules)?;
    let id = |id: u64| usize::try_from(id).ok().filter(|id| *id < vocabulary.tokens.len());
    (vocabulary.bos_token, vocabulary.eos_token) = (id(rules.bos_id), id(rules.eos_id));
    vocabulary.unk_token = id(rules.unk_id);
    vocabulary.add_bos = Some(vocabulary.bos_token.is_some());
    vocabulary.add_space_prefix = Some(rules.add_dummy_prefix);
    vocabulary.remove_extra_whitespaces = Some(rules.remove_extra_whitespaces);
    Ok(vocabulary)
}

fn check(vocabulary: &Vocabulary, rules: &Rules) -> Result<()> {
    let refuse = |what: String| Err(Error::invalid(format!("tokenizer.model {what}")));
    if vocabulary.tokens.is_empty() {
        return refuse("has no pieces".to_string());
    }
    if rules.model_type != BPE {
        return refuse(format!("has model_type {}; of SentencePiece only BPE ({BPE}) is supported", rules.model_type));
    }
    if rules.has_map {
        return refuse(format!("normalizes text by {}, which is not supported", quote(&rules.normalizer)));
    }
    if rules.whitespace_is_suffix || !rules.escape_whitespaces {
        return refuse("puts white space behind words or keeps it as it is, which is not supported".to_string());
    }
    Ok(())
}

fn parse_piece(message: &[u8], vocabulary: &mut Vocabulary) -> Result<()> {
    let (mut piece, mut score, mut kind) = (String::new(), 0.0, 1.0);
    each(message, |number, value| {
        match (number, value) {
            (1, Field::Bytes(text)) => piece = String::from_utf8(text.to_vec()).map_err(|_| broken())?,
            (2, Field::Number(bits)) => score = f64::from(f32::from_bits(bits as u32)),
            (3, Field::Number(number)) if number <= types::BYTE as u64 => kind = number as f64,
            _ => {}
        }
        Ok(())
    })?;
    if vocabulary.tokens.len() >= MAX_VOCAB_SIZE as usize {
        return Err(Error::invalid(format!("tokenizer.model has more than {MAX_VOCAB_SIZE} pieces")));
    }
    vocabulary.tokens.push(piece);
    vocabulary.scores.push(score);
    vocabulary.types.push(kind);
    Ok(())
}

fn parse_trainer(message: &[u8], rules: &mut Rules) -> Result<()> {
    each(message, |number, value| {
        match (number, value) {
            (3, Field::Number(kind)) => rules.model_type = kind,
            (24, Field::Number(flag)) => rules.whitespace_is_suffix = flag != 0,
            (40, Field::Number(id)) => rules.unk_id = id,
            (41, Field::Number(id)) => rules.bos_id = id,
            (42, Field::Number(id)) => rules.eos_id = id,
            _ => {}
        }
        Ok(())
    })
}

fn parse_normalizer(message: &[u8], rules: &mut Rules) -> Result<()> {
    each(message, |number, value| {
        match (number, value) {
            (1, Field::Bytes(name)) => rules.normalizer = String::from_utf8_lossy(name).into_owned(),
            (2, Field::Bytes(map)) => rules.has_map = !map.is_empty(),
            (3, Field::Number(flag)) => rules.add_dummy_prefix = flag != 0,
            (4, Field::Number(flag)) => rules.remove_extra_whitespaces = flag != 0,
            (5, Field::Number(flag)) => rules.escape_whitespaces = flag != 0,
            _ => {}
        }
        Ok(())
    })
}
