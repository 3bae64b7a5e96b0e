// SPDX-License-Identifier: Apache-2.0
//! The stages of a tokenizer's decoder, derived once at load.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::Decoder;

use super::{byte_level, stages};
use crate::error::{Code, Error, Result};

/// The stages of a decoder, in order.
pub struct Plan {
    pub(super) stages: Vec<StageKind>,
}

/// What one stage does with each token.
pub(super) enum StageKind {
    /// Each token on its own: Replace, Strip before Fuse.
    EachToken(DecoderWrapper),
    /// Each token, the first one differently: Metaspace, WordPiece.
    FirstDiffers(DecoderWrapper),
    /// No decoder at all: tokens are joined with a space.
    JoinWithSpace,
    /// Runs of `<0xNN>` become characters.
    ByteFallback,
    /// Letters that stand for bytes become characters.
    ByteLevel,
    /// Strip after Fuse: up to `max` leading `content` of the whole text.
    StripStart { content: char, max: usize },
}

impl Plan {
    /// None for a decoder whose output may depend on an unbounded number of later tokens.
    pub(crate) fn compile(decoder: Option<&DecoderWrapper>) -> Option<Self> {
        let Some(decoder) = decoder else {
            return Some(Self { stages: vec![StageKind::JoinWithSpace] });
        };
        let mut parts = Vec::new();
        flatten(decoder, &mut parts);
        let mut stages = Vec::new();
        let mut fused = false; // the text is one token from here on
        for part in parts {
            match part {
                DecoderWrapper::Fuse(_) => fused = true,
                DecoderWrapper::Strip(strip) if fused && strip.stop == 0 => {
                    stages.push(StageKind::StripStart { content: strip.content, max: strip.start });
                }
                DecoderWrapper::ByteLevel(_) if !fused => {
                    fused = true;
                    stages.push(StageKind::ByteLevel);
                }
                DecoderWrapper::ByteFallback(_) if !fused => stages.push(StageKind::ByteFallback),
                DecoderWrapper::Replace(_) | DecoderWrapper::Strip(_) if !fused => {
                    stages.push(StageKind::EachToken(part.clone()));
                }
                DecoderWrapper::Metaspace(_) | DecoderWrapper::WordPiece(_) if !fused => {
                    stages.push(StageKind::FirstDiffers(part.clone()));
                }
                _ => return None,
            }
        }
        Some(Self { stages })
    }

    /// The bytes of one token in the middle of a text.
    pub(crate) fn token_bytes(&self, token: String) -> Result<Vec<u8>> {
        let mut token = token;
        for stage in &self.stages {
            match stage {
                StageKind::ByteLevel => return Ok(byte_level::token_bytes(&token)),
                StageKind::ByteFallback => {
                    if let Some(byte) = stages::byte_of(&token) {
                        return Ok(vec![byte]);
                    }
                }
                StageKind::EachToken(decoder) => token = decode_one(decoder, vec![token])?,
                StageKind::FirstDiffers(decoder) => token = decode_one(decoder, vec![String::new(), token])?,
                StageKind::JoinWithSpace | StageKind::StripStart { .. } => {}
            }
        }
        Ok(token.into_bytes())
    }
}

/// The library's output for the last of `tokens`.
pub(super) fn decode_one(decoder: &DecoderWrapper, tokens: Vec<String>) -> Result<String> {
    let decoded = decoder.decode_chain(tokens).ok().and_then(|mut tokens| tokens.pop());
    decoded.ok_or_else(|| Error::new(Code::Internal, "the tokenizer's decoder refused a token"))
}

fn flatten<'a>(decoder: &'a DecoderWrapper, parts: &mut Vec<&'a DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().for_each(|part| flatten(part, parts)),
        part => parts.push(part),
    }
}
