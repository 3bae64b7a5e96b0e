// SPDX-License-Identifier: Apache-2.0
//! A decoder without what makes the library panic: its Strip counts back from the end of a token that may be shorter, or
//! that it has stripped from the start already.

use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::Replace;

use crate::error::{Error, Result};

/// More characters at the end of one token than this are stripped whatever their number.
const COUNTED_CHARS: usize = 1000;

/// The same decoder, in which a regular expression takes characters from the end.
pub(super) fn without_panics(decoder: &DecoderWrapper) -> Result<DecoderWrapper> {
    match decoder {
        DecoderWrapper::Sequence(sequence) => {
            let parts = sequence.get_decoders().iter().map(without_panics).collect::<Result<Vec<_>>>()?;
            Ok(DecoderWrapper::Sequence(Sequence::new(parts)))
        }
        DecoderWrapper::Strip(strip) if strip.stop > 0 => {
            let count = if strip.stop > COUNTED_CHARS { "+".to_string() } else { format!("{{1,{}}}", strip.stop) };
            let pattern = ReplacePattern::Regex(format!("\\x{{{:X}}}{count}\\z", u32::from(strip.content)));
            let end = Replace::new(pattern, String::new())
                .map_err(|error| Error::invalid(format!("tokenizer.json: decoder: {error}")))?;
            let start = Strip::new(strip.content, strip.start, 0);
            Ok(DecoderWrapper::Sequence(Sequence::new(vec![start.into(), end.into()])))
        }
        other => Ok(other.clone()),
    }
}
