// SPDX-License-Identifier: Apache-2.0
//! A broken tokenizer.json is refused at load with its place named, and never crashes: reliability table C, row C6.

use crate::golden_files::{load, read_json, Rng, STYLES};
use dunlin_text::load::load_json;
use dunlin_text::Code;
use serde_json::{json, Value};

fn refusal(json: &Value) -> String {
    match load(json) {
        Ok(_) => panic!("loaded"),
        Err(error) => {
            assert_eq!(error.code, Code::InvalidArgument, "{error}");
            error.message
        }
    }
}

fn edited(style: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut file = read_json(style, "tokenizer.json");
    edit(&mut file);
    refusal(&file)
}

#[track_caller]
fn expect(message: String, parts: &[&str]) {
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn ids_outside_the_limit_are_named() {
    let gpt2 = "byte_level_gpt2";
    expect(edited(gpt2, |file| file["model"]["vocab"]["a"] = json!(-1)), &["model.vocab[\"a\"]", "-1"]);
    expect(edited(gpt2, |file| file["model"]["vocab"]["a"] = json!("7")), &["model.vocab[\"a\"]", "\"7\""]);
    expect(edited(gpt2, |file| file["model"]["vocab"]["a"] = json!(1.5)), &["model.vocab[\"a\"]", "1.5"]);
    expect(edited(gpt2, |file| file["model"]["vocab"]["a"] = json!(1u64 << 40)), &["1099511627776", "4194304"]);
    expect(edited(gpt2, |file| file["added_tokens"][0]["id"] = json!(-5)), &["added_tokens[0]", "-5"]);
    let json = read_json(gpt2, "tokenizer.json").to_string();
    let error = load_json(json.as_bytes(), b"", 800).err().unwrap();
    expect(error.message, &["model.vocab[", "has id", "the model has 800 token ids"]);
}

/// Gemma 3 1B has one, and fine-tunes that have added tokens without rows for them.
#[test]
fn added_tokens_may_be_beyond_the_embedding() {
    let mut file = read_json("byte_level_gpt2", "tokenizer.json");
    let last = &file["added_tokens"][2];
    assert_eq!((&last["content"], &last["id"]), (&json!("</tool>"), &json!(901)));
    assert!(load_json(file.to_string().as_bytes(), b"", 902).is_ok());
    let tokenizer = load_json(file.to_string().as_bytes(), b"", 901).unwrap();
    assert_eq!((tokenizer.vocab_size(), tokenizer.token_text(901).unwrap()), (902, "</tool>".to_string()));
    file["model"]["vocab"]["<tool>"] = json!(900);
    file["model"]["vocab"]["</tool>"] = json!(901);
    let again = load_json(file.to_string().as_bytes(), b"", 901);
    assert!(again.is_ok(), "it may stand in the vocabulary, too: {:?}", again.err());
    file["added_tokens"][2]["id"] = json!(1 << 30);
    expect(refusal(&file), &["added_tokens[2]", "1073741824", "4194304"]);
    let framed = json!({"type": "TemplateProcessing", "pair": [], "single": [{"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</tool>", "type_id": 0}}],
        "special_tokens": {"</tool>": {"id": "</tool>", "ids": [901], "tokens": ["</tool>"]}}});
    let mut file = read_json("byte_level_gpt2", "tokenizer.json");
    file["post_processor"] = framed;
    let error = load_json(file.to_string().as_bytes(), b"", 901).err().unwrap();
    expect(error.message, &["post_processor adds id 901", "901 token ids"]);
}

#[test]
fn duplicates_are_named() {
    let gpt2 = "byte_level_gpt2";
    let taken = read_json(gpt2, "tokenizer.json")["model"]["vocab"]["b"].clone();
    expect(edited(gpt2, |file| file["model"]["vocab"]["a"] = taken), &["\"a\"", "\"b\"", "has id"]);
    expect(
        edited(gpt2, |file| file["added_tokens"][1]["id"] = json!(0)),
        &["added_tokens[1]", "id 0", "<|endoftext|>"],
    );
    let twice = read_json(gpt2, "tokenizer.json").to_string().replacen("\"b\":", "\"a\":", 1);
    expect(load_json(twice.as_bytes(), b"", 0).err().unwrap().message, &["model.vocab[\"a\"]", "twice"]);
}

#[test]
fn merges_of_missing_tokens_are_named() {
    let gpt2 = "byte_level_gpt2";
    expect(edited(gpt2, |file| file["model"]["merges"][3] = json!(["zzq", "a"])), &["model.merges[3]", "\"zzq\""]);
    expect(edited(gpt2, |file| file["model"]["merges"][3] = json!("a zzq")), &["model.merges[3]", "zzq"]);
    expect(edited(gpt2, |file| file["model"]["merges"][3] = json!("a b c")), &["model.merges[3]", "not two tokens"]);
    expect(edited(gpt2, |file| file["model"]["merges"][3] = json!(["!", "%"])), &["model.merges[3] makes", "\"!%\""]);
    expect(edited(gpt2, |file| file["model"]["merges"][3] = json!(7)), &["tokenizer.json", "Merge"]);
}

#[test]
fn added_tokens_that_contradict_the_vocabulary_are_named() {
    let gap = |file: &mut Value| file["added_tokens"][2]["id"] = json!(1000);
    expect(edited("byte_level_gpt2", gap), &["added_tokens[2]", "says id 1000", "id 901"]);
    let renamed = |file: &mut Value| file["added_tokens"][1]["content"] = json!("");
    expect(edited("byte_level_gpt2", renamed), &["added_tokens[1] is empty"]);
}

#[test]
fn endless_components_are_refused() {
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let many = json!({"type": "Sequence", "normalizers": vec![prepend; 100]});
    expect(edited("sentencepiece_llama2", |file| file["normalizer"] = many), &["normalizer has 101 parts", "64"]);
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let doubling = json!({"type": "Sequence", "normalizers": vec![double; 20]});
    expect(edited("sentencepiece_llama2", |file| file["normalizer"] = doubling), &["1048576 times", "64"]);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(r#"{{"normalizer":{deep},"model":{{"vocab":{{}}}}}}"#);
    expect(load_json(text.as_bytes(), b"", 0).err().unwrap().message, &["recursion limit"]);
}

#[test]
fn wrong_types_and_missing_parts_are_refused() {
    for part in ["model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"] {
        for wrong in [json!(7), json!("x"), json!([1, {"type": 3}]), json!({"type": "Nothing"}), json!({})] {
            let message = edited("byte_level_llama3", |file| file[part] = wrong.clone());
            expect(message, &["tokenizer.json"]);
        }
    }
    for part in ["vocab", "merges"] {
        edited("byte_level_llama3", |file| drop(file["model"].as_object_mut().unwrap().remove(part)));
    }
    expect(edited("byte_level_llama3", |file| file["version"] = json!("9.9")), &["9.9"]);
}

#[test]
fn post_processors_outside_the_vocabulary_are_refused() {
    let template = |id: u32, text: Value| {
        json!({"type": "TemplateProcessing", "single": text, "pair": [],
               "special_tokens": {"X": {"id": "X", "ids": [id], "tokens": ["X"]}}})
    };
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let special = json!({"SpecialToken": {"id": "X", "type_id": 0}});
    let framed = template(70_000_000, json!([special, text.clone()]));
    expect(edited("byte_level_gpt2", |file| file["post_processor"] = framed), &["post_processor adds id 70000000"]);
    let doubled = template(0, json!([text.clone(), text]));
    expect(edited("byte_level_gpt2", |file| file["post_processor"] = doubled), &["exactly once"]);
}

#[test]
fn post_processors_that_multiply_are_refused_before_they_run() {
    let special = json!({"SpecialToken": {"id": "X", "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = |single: Vec<Value>, ids: usize| {
        json!({"type": "TemplateProcessing", "single": single, "pair": [],
               "special_tokens": {"X": {"id": "X", "ids": vec![0; ids], "tokens": vec!["X"; ids]}}})
    };
    let refused = |post_processor: Value| edited("byte_level_gpt2", |file| file["post_processor"] = post_processor);
    let many = [vec![special.clone(); 10_000], vec![text.clone()]].concat();
    expect(refused(template(many.clone(), 10_000)), &["post_processor adds 100000001 tokens", "256"]);
    let inner = template([vec![special.clone(); 20], vec![text.clone()]].concat(), 10);
    expect(refused(json!({"type": "Sequence", "processors": [inner, inner]})), &["adds 402 tokens", "256"]);
    let texts = json!({"type": "TemplateProcessing", "single": [text], "pair": vec![text; 100_000],
                       "special_tokens": {}});
    expect(refused(texts), &["adds 100001 tokens", "256"]);
}

#[test]
fn a_cut_file_is_refused_at_any_cut() {
    for style in STYLES {
        let json = read_json(style, "tokenizer.json").to_string();
        for cut in (0..json.len()).step_by(97) {
            let error = load_json(&json.as_bytes()[..cut], b"", 0).err().expect("refused");
            expect(error.message, &["tokenizer.json"]);
        }
    }
}

#[test]
fn flipped_bytes_load_or_are_refused_but_never_crash() {
    let mut rng = Rng(3);
    for style in STYLES {
        let json = read_json(style, "tokenizer.json").to_string().into_bytes();
        for _ in 0..300 {
            let mut broken = json.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(broken.len());
                broken[at] = b"\"{}[],:0129-eat \\\xFF"[rng.below(18)];
            }
            // A panic inside the library counts as a refusal: the ABI turns it into an error code.
            let loaded = std::panic::catch_unwind(|| load_json(&broken, b"", 0).ok());
            if let Ok(Some(tokenizer)) = loaded {
                assert!(tokenizer.vocab_size() <= 1 << 22);
            }
        }
    }
}

#[test]
fn config_flags_need_their_token() {
    let json = read_json("byte_level_gpt2", "tokenizer.json").to_string();
    let load = |config: &str| load_json(json.as_bytes(), config.as_bytes(), 0);
    expect(load(r#"{"add_bos_token": true}"#).err().unwrap().message, &["add_bos_token is true"]);
    expect(load(r#"{"add_bos_token": 3}"#).err().unwrap().message, &["tokenizer_config.json", "line 1"]);
    expect(load("[").err().unwrap().message, &["tokenizer_config.json"]);
    assert!(load(r#"{"bos_token": null, "eos_token": {"content": "<|endoftext|>"}, "other": [1]}"#).is_ok());
}
