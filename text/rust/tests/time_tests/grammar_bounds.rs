// SPDX-License-Identifier: Apache-2.0
//! What compiling a grammar and its masks may cost, on a large vocabulary and on inputs that are made to be expensive.

use std::time::{Duration, Instant};

use crate::grammar_model::{has, model, Model, PLAIN, WIDTH, WORDS};
use dunlin_text::grammar::{GrammarCompiler, GrammarSource, GrammarState};
use dunlin_text::{load, Code};
use serde_json::{json, Value};

/// 128k tokens, as many as Llama 3 has: the trie's time and memory, and the masks of a free JSON object.
#[test]
fn a_large_vocabulary_takes_bounded_time() {
    let byte = |b: u32| char::from_u32(if (33..127).contains(&b) { b } else { 256 + b }).unwrap();
    let mut vocab: serde_json::Map<String, Value> = serde_json::Map::new();
    (0..256).for_each(|b| drop(vocab.insert(byte(b).to_string(), vocab.len().into())));
    let mut number: u64 = 1;
    while vocab.len() < 128_000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = 2 + (number >> 60) % 9;
        let word: String =
            (0..size).map(|at| byte((number >> (4 * at) & 15) as u32 + 97 - 16 * (at as u32 % 2))).collect();
        let id = vocab.len();
        vocab.entry(word).or_insert(id.into());
    }
    let file = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []}});
    let tokenizer = load::load_json(file.to_string().as_bytes(), b"", 0).unwrap();
    let start = Instant::now();
    let compiler = GrammarCompiler::new(&tokenizer, &[0], 128_256).unwrap();
    let created = start.elapsed();
    let start = Instant::now();
    let grammar = compiler.compile(&GrammarSource::JsonObject).unwrap();
    let compiled = start.elapsed();
    let start = Instant::now();
    let mut state = grammar.start();
    let started = start.elapsed();
    let mut slowest = Duration::ZERO;
    for id in tokenizer.encode("{\"ab\": \"xyz\", \"c\": [1, 2, \"d\"]}", PLAIN).unwrap() {
        let start = Instant::now();
        let mut mask = vec![0; 4008];
        state.fill_mask(&mut mask).unwrap();
        assert!(has(&mask, id), "{id}");
        state.accept(id).unwrap();
        slowest = slowest.max(start.elapsed());
    }
    println!("128k tokens: trie {created:?}, object {compiled:?}, state {started:?}, slowest token {slowest:?}");
    assert!(state.is_accepting());
    assert!(created < Duration::from_secs(10) && slowest < Duration::from_secs(1));
}

fn many_arrays(count: usize, items: usize) -> Value {
    let array = |n: usize| json!({"type": "array", "maxItems": items, "items": {"type": "string", "maxLength": n + 1}});
    json!({"type": "object", "properties": (0..count).map(|n| (format!("a{n}"), array(n))).collect::<serde_json::Map<_, _>>()})
}

fn wide_object(names: usize) -> Value {
    let properties: serde_json::Map<String, Value> =
        (0..names).map(|n| (format!("name_{n}"), json!({"type": "integer"}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": {"type": "string"}})
}

/// Each definition needs all others, and a long string stands beside each.
fn mutual_definitions(count: usize) -> Value {
    let next = |n: usize| json!({"$ref": format!("#/$defs/e{}", (n + 1) % count)});
    let definitions: serde_json::Map<_, _> =
        (0..count).map(|n| (format!("e{n}"), json!({"items": next(n), "type": "array"}))).collect();
    let properties: serde_json::Map<_, _> = (0..count).map(|n| (format!("p{n}"), next(n))).collect();
    let text = json!({"type": "string", "maxLength": 60_000});
    let whole = json!({"type": "object", "properties": properties});
    json!({"$defs": definitions, "type": "array", "prefixItems": [text, whole]})
}

/// Alternatives of alternatives, `depth` times.
fn nested_alternatives(options: usize, depth: usize) -> Value {
    let one_of = |n: usize| json!({"anyOf": vec![json!({"$ref": format!("#/$defs/e{n}")}); options]});
    let mut definitions: serde_json::Map<_, _> = (0..depth).map(|n| (format!("e{n}"), one_of(n + 1))).collect();
    definitions.insert(format!("e{depth}"), json!({"type": "integer"}));
    json!({"$defs": definitions, "anyOf": [{"type": "string", "maxLength": 60_000}, {"$ref": "#/$defs/e0"}]})
}

/// Inputs that are made to be expensive: each is refused or compiled in bounded time, and so is each token of a walk.
#[test]
fn attacks_are_bounded() {
    let model = model();
    let repeated = |unit: &str, count: usize| unit.repeat(count);
    let chain: String = (0..18_000).map(|n| format!("r{n}: r{}\n", n + 1)).collect();
    let deep = |open: &str, close: &str, n: usize| format!("{}null{}", open.repeat(n), close.repeat(n));
    let counters = (1..900).map(|n| format!("a.{{{n}}}b")).collect::<Vec<_>>().join("|");
    let regexes = [
        ("nested counts", "((a{1,1000}){1,1000}){1,1000}".to_string()),
        ("overlapping counts", "(a?){1000}(a|aa){1000}a{1000}".to_string()),
        ("many classes", repeated(r"(\w|\d|\s){0,9}", 1000)),
        ("alternation", (0..2300).map(|n| format!("w{n}x")).collect::<Vec<_>>().join("|")),
        ("counters", counters.clone()),
        ("exponential", "(a|b)*a(a|b){1000}c".to_string()),
        ("dot before count", "(?s:.)*a(?s:.){1000}".to_string()),
        ("nest", format!("{}a{}", "(".repeat(8000), ")".repeat(8000))),
    ];
    let grammars = [
        ("ambiguous", "start: start start | \"a\" |".to_string()),
        ("ambiguous deep", "start: a a a a a a\na: b b b b | \"x\"\nb: a a | \"x\" | \n".to_string()),
        ("chain", format!("start: r0\n{chain}r18000: \"a\"\n")),
        ("groups", format!("start: {}\"a\"{}", "(".repeat(60), ")".repeat(60))),
        ("too many groups", format!("start: {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000))),
        ("counts", "start: (((\"a\"{1000}){1000}){1000}){1000}".to_string()),
        ("rule counts", "start: (((x{1000}){1000}){1000}){1000}\nx: \"a\" x | \"b\"".to_string()),
        ("literals", format!("start: {}", repeated("\"ab\" | ", 37_000) + "\"c\"")),
        ("gbnf counts", format!("root ::= {}", repeated("(\"a\" [b-z]{0,1000}){0,1000} ", 8000))),
        (
            "gbnf names",
            format!(
                "root ::= a0\n{}",
                (0..14_000).map(|n| format!("a{n} ::= a{}\n", n + 1)).collect::<String>() + "a14000 ::= \"x\""
            ),
        ),
    ];
    let list = |count: usize, make: fn(usize) -> Value| Value::Array((0..count).map(make).collect());
    let keyed = |n: usize| json!({"type": "object", "properties": {format!("k{n}"): {"const": n}}, "required": [format!("k{n}")]});
    let kind = |n: usize| json!({"type": "object", "properties": {"k": {"const": format!("v{n}")}}, "required": ["k"]});
    let search = |n: usize| json!({"type": "string", "pattern": format!("{n}.*x")});
    let long_array = json!({"type": "array", "minItems": 1000});
    let long_arrays = json!({"type": "array", "minItems": 1000, "items": long_array});
    let schemas = [
        ("enum", json!({"enum": list(15_000, |n| format!("value {n}").into())}).to_string()),
        ("wide", wide_object(1000).to_string()),
        ("wider", wide_object(2000).to_string()),
        ("deep", deep(r#"{"items":"#, "}", 63).replace("null", "true")),
        ("too deep", deep(r#"{"items":"#, "}", 120).replace("null", "true")),
        ("far too deep", deep(r#"{"items":"#, "}", 20_000).replace("null", "true")),
        ("lengths", json!({"type": "string", "minLength": 9_000, "pattern": "(ab|ba|a)*c"}).to_string()),
        ("items", json!({"type": "array", "minItems": 1000, "maxItems": 1024, "items": long_arrays}).to_string()),
        ("many items", json!({"type": "array", "maxItems": 10_000, "items": long_arrays}).to_string()),
        ("many arrays", many_arrays(31, 1000).to_string()),
        ("too many arrays", many_arrays(33, 1000).to_string()),
        ("long strings", json!({"type": "string", "minLength": 60_000, "maxLength": 65_536}).to_string()),
        ("long string and definitions", mutual_definitions(1200).to_string()),
        ("long string and alternatives", nested_alternatives(60, 20).to_string()),
        ("options", json!({"anyOf": list(1200, keyed)}).to_string()),
        ("one of", json!({"oneOf": list(1000, kind)}).to_string()),
        ("all of", json!({"allOf": list(200, search)}).to_string()),
        ("some of", json!({"allOf": list(8, search)}).to_string()),
        ("searches", json!({"type": "string", "pattern": counters}).to_string()),
        ("multiples", json!({"type": "integer", "multipleOf": 9973, "maximum": 900_000_000_000i64}).to_string()),
    ];
    let all = regexes.iter().map(|(name, text)| (*name, GrammarSource::Regex(text)));
    let all = all.chain(grammars.iter().map(|(name, text)| (*name, GrammarSource::Grammar(text))));
    let all = all.chain(schemas.iter().map(|(name, text)| (*name, GrammarSource::JsonSchema(text))));
    for (name, source) in all {
        let start = Instant::now();
        let outcome = model.compiler.compile(&source);
        let compiled = start.elapsed();
        let walk = outcome.as_ref().map(|grammar| slowest_step(&model, grammar.start()));
        match (&outcome, walk) {
            (Ok(grammar), Ok((steps, slowest))) => {
                println!("{name}: {compiled:?}, {} bytes, {steps} steps, slowest {slowest:?}", grammar.bytes());
                assert!(slowest < Duration::from_secs(2), "{name}: {slowest:?}");
            }
            (Err(error), _) | (_, Err(error)) => {
                println!("{name}: {compiled:?}, {:?} {:.100}", error.code, error.message)
            }
        }
        assert!(compiled < Duration::from_secs(20), "{name}: {compiled:?}");
        assert!(!matches!(&outcome, Err(error) if error.code == Code::Internal), "{name}");
    }
}

/// Of 40 tokens, each the last one that is allowed.
fn slowest_step(model: &Model, mut state: GrammarState) -> (usize, Duration) {
    let mut slowest = Duration::ZERO;
    for step in 0..40 {
        let start = Instant::now();
        let mut mask = vec![0; WORDS];
        if state.fill_mask(&mut mask).is_err() {
            return (step, slowest.max(start.elapsed()));
        }
        let Some(id) = (0..WIDTH).rev().find(|id| *id != model.eos && has(&mask, *id)) else { return (step, slowest) };
        if state.accept(id).is_err() {
            return (step, slowest.max(start.elapsed()));
        }
        slowest = slowest.max(start.elapsed());
    }
    (40, slowest)
}
