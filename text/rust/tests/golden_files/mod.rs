// SPDX-License-Identifier: Apache-2.0
//! The goldens of tests/golden/text, and a small generator of numbers for the property tests.

use std::path::PathBuf;

use dunlin_text::{load, TextTokenizer};
use serde_json::Value;

#[allow(dead_code)] // each test file uses its own part of this module
pub const STYLES: [&str; 3] = ["byte_level_gpt2", "byte_level_llama3", "sentencepiece_llama2"];

pub fn read_bytes(style: &str, file: &str) -> Vec<u8> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/text");
    std::fs::read(root.join(style).join(file)).expect("a golden file")
}

pub fn read_json(style: &str, file: &str) -> Value {
    serde_json::from_slice(&read_bytes(style, file)).expect("JSON")
}

#[allow(dead_code)]
pub fn load(json: &Value) -> dunlin_text::Result<TextTokenizer> {
    load::load_json(json.to_string().as_bytes(), b"", 0)
}

/// SplitMix64.
#[allow(dead_code)]
pub struct Rng(pub u64);

#[allow(dead_code)]
impl Rng {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
