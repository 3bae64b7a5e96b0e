// SPDX-License-Identifier: Apache-2.0
//! What encode promises beyond the library: special tokens in plain text, flags of the config, linear time.

use std::time::{Duration, Instant};

use crate::golden_files::{self, read_json, STYLES};
use dunlin_text::{load, EncodeOptions, TextTokenizer};
use serde_json::{json, Value};

const PLAIN: EncodeOptions = EncodeOptions { add_special_tokens: false, parse_special: false };
const FRAMED: EncodeOptions = EncodeOptions { add_special_tokens: true, parse_special: false };

fn load(json: &Value) -> TextTokenizer {
    golden_files::load(json).unwrap()
}

#[test]
fn no_special_token_comes_out_of_plain_text() {
    for style in STYLES {
        let tokenizer = load(&read_json(style, "tokenizer.json"));
        for id in tokenizer.special_ids().to_vec() {
            let token = tokenizer.token_text(id).unwrap();
            for text in [token.clone(), format!("a{token}b"), format!(" {token} "), token.repeat(3)] {
                let ids = tokenizer.encode(&text, PLAIN).unwrap();
                assert!(!ids.contains(&id) || token == "<unk>", "{style} {text}: {ids:?}");
                if style != "sentencepiece_llama2" {
                    assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
                }
                let parsed = tokenizer.encode(&text, EncodeOptions { parse_special: true, ..PLAIN }).unwrap();
                assert!(parsed.contains(&id), "{style} {text}: {parsed:?}");
            }
        }
    }
}

#[test]
fn a_special_word_of_the_models_own_vocabulary_is_spelled_in_letters() {
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let file = json!({
        "version": "1.0", "added_tokens": [special(0, "<u>"), special(1, "<s>")],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
                  "vocab": [["<u>", 0.0], ["<s>", 0.0], ["<", -5.0], ["s", -5.0], [">", -5.0], ["a", -1.0]]}});
    let tokenizer = load(&file);
    assert_eq!(tokenizer.encode("a<s>a", PLAIN).unwrap(), [5, 2, 3, 4, 5]);
    assert_eq!(tokenizer.encode("a<s>a", EncodeOptions { parse_special: true, ..PLAIN }).unwrap(), [5, 1, 5]);
    assert_eq!(tokenizer.encode("z", PLAIN).unwrap(), [0]); // the unknown token stays itself
}

#[test]
fn config_flags_correct_the_post_processor() {
    let json = read_json("sentencepiece_llama2", "tokenizer.json").to_string();
    let ids = |config: &str| {
        let tokenizer = load::load_json(json.as_bytes(), config.as_bytes(), 0).unwrap();
        let ids = tokenizer.encode("a", FRAMED).unwrap();
        (ids.first() == Some(&1), ids.iter().filter(|id| **id == 1).count(), ids.last() == Some(&2))
    };
    let config = |bos: &str, eos: &str| {
        format!(r#"{{"bos_token":"<s>","eos_token":"</s>","add_bos_token":{bos},"add_eos_token":{eos}}}"#)
    };
    assert_eq!(ids(""), (true, 1, false));
    assert_eq!(ids(&config("null", "null")), (true, 1, false));
    assert_eq!(ids(&config("true", "true")), (true, 1, true));
    assert_eq!(ids(&config("false", "false")), (false, 0, false));
}

#[test]
fn truncation_padding_and_dropout_of_the_file_are_off() {
    let mut file = read_json("byte_level_gpt2", "tokenizer.json");
    file["truncation"] = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = json!({"strategy": {"Fixed": 100}, "direction": "Right", "pad_to_multiple_of": null,
                             "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    file["model"]["dropout"] = json!(0.9);
    let plain = load(&read_json("byte_level_gpt2", "tokenizer.json"));
    let text = "The dunlin is a small wader that breeds in the north.";
    assert_eq!(load(&file).encode(text, FRAMED).unwrap(), plain.encode(text, FRAMED).unwrap());
}

#[test]
fn text_over_the_limit_is_refused() {
    let tokenizer = load(&read_json("byte_level_gpt2", "tokenizer.json"));
    let text = "a".repeat(dunlin_text::limits::MAX_TEXT_BYTES + 1);
    assert!(tokenizer.encode(&text, PLAIN).unwrap_err().message.contains("4194305 bytes; limit is 4194304"));
}

/// Four times the text in at most 9 times the time: quadratic work would take 16. Other work shares the machine, so the
/// best of 3 runs counts, and one of 4 attempts must hold.
#[test]
fn time_is_linear_in_the_text() {
    let lstrip = json!({"id": 902, "content": "<m>", "single_word": true, "lstrip": true, "rstrip": true,
                        "normalized": false, "special": false});
    for style in STYLES {
        let mut file = read_json(style, "tokenizer.json");
        if style == "byte_level_gpt2" {
            file["added_tokens"].as_array_mut().unwrap().push(lstrip.clone());
        }
        let tokenizer = load(&file);
        for unit in ["a", " ", "\n", "\u{301}", "👨\u{200d}👩\u{200d}", "0", "!", "a \n", "hello ", "  <m>", "<s>", "A"]
        {
            let best = |size: usize| {
                let text = unit.repeat(size / unit.len());
                let run = || {
                    let start = Instant::now();
                    assert!(!tokenizer.encode(&text, PLAIN).unwrap().is_empty());
                    start.elapsed()
                };
                (0..3).map(|_| run()).min().unwrap()
            };
            let is_linear = (0..4).any(|_| best(256 << 10) <= 9 * best(64 << 10) + Duration::from_millis(20));
            assert!(is_linear, "{style} {unit:?}: 256 KiB take more than 9 times what 64 KiB take");
        }
    }
}
