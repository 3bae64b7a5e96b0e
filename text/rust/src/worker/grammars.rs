// SPDX-License-Identifier: Apache-2.0
//! Grammars compiled apart. What is compiled cannot leave the worker's process; the proof that the same work ends, in
//! which time and memory, can.

use super::wire::{broken, Reader, Writer};
use super::{result_of, COMPILE_GRAMMAR, LOAD_VOCABULARY};
use crate::error::Result;
use crate::grammar::{words_of, GrammarCompiler, GrammarSource};
use crate::TextTokenizer;

/// The request after which a worker compiles for the model of this tokenizer; arguments as [`GrammarCompiler::new`]'s.
pub fn setup_of(tokenizer: &TextTokenizer, eos_ids: &[u32], width: u32) -> Result<Vec<u8>> {
    let mut setup = Writer::default();
    setup.byte(LOAD_VOCABULARY);
    setup.number(eos_ids.len() as u64);
    eos_ids.iter().for_each(|id| setup.number(u64::from(*id)));
    let words = words_of(tokenizer, width)?;
    setup.number(words.len() as u64);
    for word in &words {
        setup.byte(word.len() as u8); // as short as words_of says
        setup.0.extend_from_slice(word);
    }
    Ok(setup.0)
}

/// The request that compiles this source.
pub fn compilation_of(source: &GrammarSource) -> Vec<u8> {
    let mut request = Writer::default();
    request.byte(COMPILE_GRAMMAR);
    write_source(source, &mut request);
    request.0
}

/// Whether the worker could do what it was asked for. Errors: those of the work.
pub fn check_reply(reply: &[u8]) -> Result<()> {
    result_of(reply).map(drop)
}

pub(super) fn read_compiler(setup: &mut Reader) -> Result<GrammarCompiler> {
    let count = setup.number()?;
    let eos_ids = (0..count).map(|_| Ok(setup.number()? as u32)).collect::<Result<Vec<u32>>>()?;
    let width = u32::try_from(setup.number()?).map_err(|_| broken())?;
    let mut words = Vec::new();
    for _ in 0..width {
        let size = usize::from(setup.byte()?);
        words.push((0..size).map(|_| setup.byte()).collect::<Result<Vec<u8>>>()?);
    }
    GrammarCompiler::of_words(&words, &eos_ids, width)
}

/// A source with its own texts.
pub(super) enum Source {
    Schema(String),
    Object,
    Regex(String),
    Choice(Vec<String>),
    Grammar(String),
    Composed(String, Vec<Source>),
}

impl Source {
    pub(super) fn view(&self) -> GrammarSource<'_> {
        match self {
            Self::Schema(text) => GrammarSource::JsonSchema(text),
            Self::Object => GrammarSource::JsonObject,
            Self::Regex(text) => GrammarSource::Regex(text),
            Self::Choice(texts) => GrammarSource::Choice(texts.iter().map(String::as_str).collect()),
            Self::Grammar(text) => GrammarSource::Grammar(text),
            Self::Composed(text, parts) => GrammarSource::Composed(text, parts.iter().map(Self::view).collect()),
        }
    }
}

fn write_source(source: &GrammarSource, out: &mut Writer) {
    let mut text = |kind: u8, text: &str| {
        out.byte(kind);
        out.bytes(text.as_bytes());
    };
    match source {
        GrammarSource::JsonSchema(schema) => text(0, schema),
        GrammarSource::JsonObject => text(1, ""),
        GrammarSource::Regex(regex) => text(2, regex),
        GrammarSource::Choice(texts) => {
            text(3, "");
            out.number(texts.len() as u64);
            texts.iter().for_each(|text| out.bytes(text.as_bytes()));
        }
        GrammarSource::Grammar(grammar) => text(4, grammar),
        GrammarSource::Composed(lark, parts) => {
            text(5, lark);
            out.number(parts.len() as u64);
            parts.iter().for_each(|part| write_source(part, out));
        }
    }
}

pub(super) fn read_source(request: &mut Reader) -> Result<Source> {
    let kind = request.byte()?;
    let text = request.text()?.to_owned();
    Ok(match kind {
        0 => Source::Schema(text),
        1 => Source::Object,
        2 => Source::Regex(text),
        3 => {
            let count = request.number()?;
            Source::Choice((0..count).map(|_| Ok(request.text()?.to_owned())).collect::<Result<_>>()?)
        }
        4 => Source::Grammar(text),
        5 => {
            let count = request.number()?;
            Source::Composed(text, (0..count).map(|_| read_source(request)).collect::<Result<_>>()?)
        }
        _ => return Err(broken()),
    })
}
