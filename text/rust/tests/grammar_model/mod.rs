// SPDX-License-Identifier: Apache-2.0
//! Grammars over the demo model's tokens, for the tests beside it.
#![allow(dead_code)] // each test program uses a part

use dunlin_text::grammar::{Clock, GrammarCompiler, GrammarSource, GrammarState};
use dunlin_text::{load, EncodeOptions, Error, TextTokenizer};
use serde_json::Value;

pub const PLAIN: EncodeOptions = EncodeOptions { add_special_tokens: false, parse_special: false };
pub const WIDTH: u32 = 4100; // beyond the vocabulary
pub const WORDS: usize = (WIDTH as usize).div_ceil(32);

pub struct Model {
    pub tokenizer: TextTokenizer,
    pub compiler: GrammarCompiler,
    pub eos: u32,
}

/// Its compiler counts the processor time of `clock`.
pub fn model_with_clock(clock: Clock) -> Model {
    let model = model();
    Model { compiler: model.compiler.with_clock(clock), ..model }
}

pub fn model() -> Model {
    let json = std::fs::read("../../models/demo/tokenizer.json").unwrap();
    let config = std::fs::read("../../models/demo/tokenizer_config.json").unwrap();
    let tokenizer = load::load_json(&json, &config, 0).unwrap();
    let eos = tokenizer.eos_id().unwrap();
    let compiler = GrammarCompiler::new(&tokenizer, &[eos], WIDTH).unwrap();
    Model { tokenizer, compiler, eos }
}

pub fn has(mask: &[u32], id: u32) -> bool {
    mask[id as usize / 32] >> (id % 32) & 1 == 1
}

impl Model {
    pub fn mask(&self, state: &mut GrammarState) -> Vec<u32> {
        let mut mask = vec![u32::MAX; WORDS];
        state.fill_mask(&mut mask).unwrap();
        assert_eq!(has(&mask, self.eos), state.is_accepting());
        mask
    }

    /// Whether the text's tokens are taken one by one, by mask and by Accept alike, and it may end there.
    pub fn matches(&self, source: &GrammarSource, text: &str) -> bool {
        let grammar = self.compiler.compile(source).unwrap_or_else(|error| panic!("{error}"));
        let mut state = grammar.start();
        for id in self.tokenizer.encode(text, PLAIN).unwrap() {
            let allowed = has(&self.mask(&mut state), id);
            assert_eq!(state.accept(id).is_ok(), allowed, "{text:?} at {id}");
            if !allowed {
                return false;
            }
        }
        has(&self.mask(&mut state), self.eos)
    }

    pub fn refusal(&self, source: &GrammarSource) -> Error {
        match self.compiler.compile(source) {
            Ok(_) => panic!("compiled"),
            Err(error) => error,
        }
    }

    pub fn schema_refusal(&self, schema: &Value) -> Error {
        self.refusal(&GrammarSource::JsonSchema(&schema.to_string()))
    }

    pub fn schema_matches(&self, schema: &Value, text: &str) -> bool {
        self.matches(&GrammarSource::JsonSchema(&schema.to_string()), text)
    }
}
