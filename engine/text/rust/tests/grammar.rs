// SPDX-License-Identifier: Apache-2.0
//! Grammars over the demo model's tokens: what they take, what is refused by name, and what compiling may cost.

use std::time::{Duration, Instant};

use dunlin_text::grammar::{GrammarCompiler, GrammarSource, GrammarState};
use dunlin_text::{load, Code, EncodeOptions, Error, TextTokenizer};
use serde_json::{json, Value};

const PLAIN: EncodeOptions = EncodeOptions { add_special_tokens: false, parse_special: false };
const WIDTH: u32 = 4100; // beyond the vocabulary
const WORDS: usize = (WIDTH as usize).div_ceil(32);

struct Model {
    tokenizer: TextTokenizer,
    compiler: GrammarCompiler,
    eos: u32,
}

fn model() -> Model {
    let json = std::fs::read("../../../models/demo/tokenizer.json").unwrap();
    let config = std::fs::read("../../../models/demo/tokenizer_config.json").unwrap();
    let tokenizer = load::load_json(&json, &config, 0).unwrap();
    let eos = tokenizer.eos_id().unwrap();
    let compiler = GrammarCompiler::new(&tokenizer, &[eos], WIDTH).unwrap();
    Model { tokenizer, compiler, eos }
}

fn has(mask: &[u32], id: u32) -> bool {
    mask[id as usize / 32] >> (id % 32) & 1 == 1
}

impl Model {
    fn mask(&self, state: &mut GrammarState) -> Vec<u32> {
        let mut mask = vec![u32::MAX; WORDS];
        state.fill_mask(&mut mask).unwrap();
        assert_eq!(has(&mask, self.eos), state.is_accepting());
        mask
    }

    /// Whether the text's tokens are taken one by one, by mask and by Accept alike, and it may end there.
    fn matches(&self, source: &GrammarSource, text: &str) -> bool {
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

    fn refusal(&self, source: &GrammarSource) -> Error {
        match self.compiler.compile(source) {
            Ok(_) => panic!("compiled"),
            Err(error) => error,
        }
    }

    fn schema_refusal(&self, schema: &Value) -> Error {
        self.refusal(&GrammarSource::JsonSchema(&schema.to_string()))
    }

    fn schema_matches(&self, schema: &Value, text: &str) -> bool {
        self.matches(&GrammarSource::JsonSchema(&schema.to_string()), text)
    }
}

#[test]
fn masks_have_no_special_token_and_no_id_without_one() {
    let model = model();
    let grammar = model.compiler.compile(&GrammarSource::Regex("(?s:.)*")).unwrap();
    let mask = model.mask(&mut grammar.start());
    for id in model.tokenizer.special_ids() {
        assert_eq!(has(&mask, *id), *id == model.eos, "{id}");
    }
    for id in model.tokenizer.vocab_size()..WIDTH {
        assert!(!has(&mask, id), "{id}");
    }
    assert!(has(&mask, model.tokenizer.encode("hello", PLAIN).unwrap()[0]));
}

#[test]
fn states_of_one_grammar_are_independent() {
    let model = model();
    let grammar = model.compiler.compile(&GrammarSource::Choice(vec!["yes", "no"])).unwrap();
    let (mut first, mut second) = (grammar.start(), grammar.start());
    let before = model.mask(&mut second);
    first.accept(model.tokenizer.encode("yes", PLAIN).unwrap()[0]).unwrap();
    assert_eq!(model.mask(&mut second), before);
    assert_ne!(model.mask(&mut first), before);
}

#[test]
fn a_token_that_is_not_in_the_mask_breaks_the_state() {
    let model = model();
    let mut state = model.compiler.compile(&GrammarSource::Choice(vec!["yes"])).unwrap().start();
    let wrong = model.tokenizer.encode("no", PLAIN).unwrap()[0];
    assert_eq!(state.accept(wrong).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(state.fill_mask(&mut [0; WORDS]).unwrap_err().code, Code::ResourceExhausted);
    assert_eq!(state.accept(wrong).unwrap_err().code, Code::ResourceExhausted);
}

#[test]
fn choices_and_regular_expressions_match_the_whole_text() {
    let model = model();
    let choice = || GrammarSource::Choice(vec!["a", "ab", "\"x\" [y]+", "né\n"]);
    for (text, expected) in
        [("a", true), ("ab", true), ("\"x\" [y]+", true), ("né\n", true), ("abc", false), ("", false)]
    {
        assert_eq!(model.matches(&choice(), text), expected, "{text:?}");
    }
    let regex = || GrammarSource::Regex(r"[a-c]{2,3}(/\d+)?");
    for (text, expected) in [("ab", true), ("abc/12", true), ("a", false), ("abcd", false), ("ab/", false)] {
        assert_eq!(model.matches(&regex(), text), expected, "{text:?}");
    }
}

#[test]
fn regular_expressions_are_refused_by_name() {
    let model = model();
    for (regex, name) in [
        ("^a", "an anchor"),
        ("a$", "an anchor"),
        (r"\Aa", "an anchor"),
        (r"a\b", "a word boundary"),
        ("(?=a)b", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "a backreference"),
        ("(?P<stop>a)", "a named group"),
    ] {
        let error = model.refusal(&GrammarSource::Regex(regex));
        assert_eq!(error.code, Code::Unimplemented, "{regex}");
        assert!(error.message.contains(name), "{regex}: {error}");
    }
    for regex in ["", "(", "a{3,1}", "[z-a]"] {
        assert_eq!(model.refusal(&GrammarSource::Regex(regex)).code, Code::InvalidArgument, "{regex}");
    }
    assert!(model.matches(&GrammarSource::Regex(r"[\^$]\\\$[]^]"), r"^\$]"));
}

#[test]
fn keywords_that_are_not_enforced_are_refused_by_name() {
    let model = model();
    for (schema, name) in [
        (json!({"not": {}}), "\"not\" at #"),
        (json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        (json!({"type": "array", "contains": {}}), "contains"),
        (json!({"properties": {"a": {"if": true}}}), "\"if\" at #/properties/a"),
        (json!({"dependentRequired": {}}), "dependentRequired"),
        (json!({"propertyNames": {}}), "propertyNames"),
        (json!({"unevaluatedProperties": false}), "unevaluatedProperties"),
        (json!({"nullable": true}), "nullable"),
        (json!({"type": "string", "format": "uri"}), "format"),
        (json!({"type": "string", "pattern": "a(?=b)"}), "look-ahead"),
        (json!({"type": "string", "pattern": "a\\b"}), "word boundary"),
        (json!({"type": "number", "multipleOf": 0.1}), "multipleOf"),
        (json!({"items": [true]}), "items"),
        (json!({"$ref": "https://example.com/x"}), "$ref"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "$schema"),
        (json!({"minProperties": 3}), "minProperties"),
        (json!({"x-guidance": {"lenient": true}, "not": {}}), "not"),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "oneOf"),
    ] {
        let error = model.schema_refusal(&schema);
        assert_eq!(error.code, Code::Unimplemented, "{schema}: {error}");
        assert!(error.message.contains(name), "{schema}: {error}");
    }
}

#[test]
fn schemas_that_match_nothing_are_refused() {
    let model = model();
    for schema in [
        json!(false),
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}),
        json!({"$ref": "#/$defs/gone"}),
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}),
        json!({"type": "integer", "minimum": 3, "maximum": 2}),
        json!({"type": "strong"}),
        json!({"properties": 3}),
        json!([1]),
    ] {
        let error = model.schema_refusal(&schema);
        assert_eq!(error.code, Code::InvalidArgument, "{schema}: {error}");
    }
}

#[test]
fn no_name_is_written_in_two_ways() {
    let model = model();
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}});
    assert!(model.schema_matches(&schema, r#"{"a": 1, "b": "x", "aa": "y", "": "z"}"#));
    for text in [r#"{"\u0061": "x"}"#, r#"{"a": 1, "\u0061": "x"}"#, r#"{"a": "x"}"#, r#"{"b": 1}"#] {
        assert!(!model.schema_matches(&schema, text), "{text}");
    }
}

#[test]
fn combined_objects_become_one() {
    let model = model();
    let schema = json!({
        "$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"name": {"type": "string"}, "id": {"minimum": 5}}}],
        "required": ["name"]});
    assert!(model.schema_matches(&schema, r#"{"id": 7, "name": "x"}"#));
    assert!(!model.schema_matches(&schema, r#"{"id": 4, "name": "x"}"#));
    assert!(!model.schema_matches(&schema, r#"{"id": 7}"#));
    let either = json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
                        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert!(model.schema_matches(&either, r#"{"b": null}"#));
    assert!(!model.schema_matches(&either, "{}"));
}

#[test]
fn gbnf_becomes_lark() {
    let model = model();
    let flat = "# numbers\nroot ::= \"a\" digits? ([x-z] | \"\\x41\\n\") # end\ndigits ::= [0-9]{2,3}\n";
    for (text, expected) in [("ax", true), ("a12z", true), ("a123A\n", true), ("a1z", false), ("a", false)] {
        assert_eq!(model.matches(&GrammarSource::Grammar(flat), text), expected, "{text:?}");
    }
    let nested = "root ::= list\nlist ::= \"[\" ws (item (\",\" ws item)*)? \"]\"\nitem ::= list | word\nword ::= [a-z]+\nws ::= \" \"*";
    for (text, expected) in [("[]", true), ("[a, [b,c], []]", true), ("[a,]", false), ("[[]", false)] {
        assert_eq!(model.matches(&GrammarSource::Grammar(nested), text), expected, "{text:?}");
    }
    for (source, code) in [
        ("a ::= \"b\"", Code::InvalidArgument),
        ("root ::= b", Code::InvalidArgument),
        ("root ::= (\"a\"", Code::InvalidArgument),
        ("root ::= \"a\"{3,1}", Code::InvalidArgument),
        ("root ::= \"a\"{1,100000}", Code::ResourceExhausted),
        ("root ::= <think>", Code::Unimplemented),
        ("root ::= root \"a\"", Code::InvalidArgument),
    ] {
        assert_eq!(model.refusal(&GrammarSource::Grammar(source)).code, code, "{source}");
    }
}

#[test]
fn lark_is_llguidances_without_what_leaves_the_text() {
    let model = model();
    let grammar = "start: greeting \" \" NAME\ngreeting: \"hello\" | \"bye\"\nNAME: /[A-Z][a-z]+/\n";
    assert!(model.matches(&GrammarSource::Grammar(grammar), "bye Ann"));
    assert!(!model.matches(&GrammarSource::Grammar(grammar), "bye ann"));
    for (source, name) in [
        ("start: %json {\"not\": {}}", "%json"),
        ("start: <|endoftext|>", "a special token"),
        ("start: <[5]>", "a special token"),
        ("start: @other", "another grammar"),
        ("%llguidance {\"allow_invalid_utf8\": true}\nstart: \"a\"", "%llguidance"),
        ("start[max_tokens=3]: /a+/", "max_tokens"),
        ("start[stop=\"x\"]: /a+/", "stop"),
    ] {
        let error = model.refusal(&GrammarSource::Grammar(source));
        assert_eq!(error.code, Code::Unimplemented, "{source}: {error}");
        assert!(error.message.contains(name), "{source}: {error}");
    }
    assert!(model.matches(&GrammarSource::Grammar("start: \"%json <a> @b\" /<x>/ // %json\n"), "%json <a> @b<x>"));
}

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

fn wide_object(names: usize) -> Value {
    let properties: serde_json::Map<String, Value> =
        (0..names).map(|n| (format!("name_{n}"), json!({"type": "integer"}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": {"type": "string"}})
}

/// Inputs that are made to be expensive: each is refused or compiled in bounded time, and so is each token of a walk.
#[test]
fn attacks_are_bounded() {
    let model = model();
    let repeated = |unit: &str, count: usize| unit.repeat(count);
    let chain: String = (0..18_000).map(|n| format!("r{n}: r{}\n", n + 1)).collect();
    let deep = |open: &str, close: &str, n: usize| format!("{}null{}", open.repeat(n), close.repeat(n));
    let regexes = [
        ("nested counts", "((a{1,1000}){1,1000}){1,1000}".to_string()),
        ("overlapping counts", "(a?){1000}(a|aa){1000}a{1000}".to_string()),
        ("many classes", repeated(r"(\w|\d|\s){0,9}", 1000)),
        ("alternation", (0..2300).map(|n| format!("w{n}x")).collect::<Vec<_>>().join("|")),
        ("counters", (1..900).map(|n| format!("a.{{{n}}}b")).collect::<Vec<_>>().join("|")),
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
    let schemas = [
        ("enum", json!({"enum": (0..15_000).map(|n| format!("value {n}")).collect::<Vec<_>>()}).to_string()),
        ("wide", wide_object(1000).to_string()),
        ("wider", wide_object(2000).to_string()),
        ("deep", deep(r#"{"items":"#, "}", 63).replace("null", "true")),
        ("too deep", deep(r#"{"items":"#, "}", 120).replace("null", "true")),
        ("far too deep", deep(r#"{"items":"#, "}", 20_000).replace("null", "true")),
        ("lengths", json!({"type": "string", "minLength": 9_000, "maxLength": 10_000, "pattern": "(ab|ba|a)*c"}).to_string()),
        ("items", json!({"type": "array", "minItems": 1000, "maxItems": 1024, "items": {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000}}}).to_string()),
        ("options", json!({"anyOf": (0..1200).map(|n| json!({"type": "object", "properties": {format!("k{n}"): {"const": n}}, "required": [format!("k{n}")]})).collect::<Vec<_>>()}).to_string()),
        ("one of", json!({"oneOf": (0..1000).map(|n| json!({"type": "object", "properties": {"k": {"const": format!("v{n}")}}, "required": ["k"]})).collect::<Vec<_>>()}).to_string()),
        ("all of", json!({"allOf": (0..200).map(|n| json!({"type": "string", "pattern": format!("{n}.*x")})).collect::<Vec<_>>()}).to_string()),
        ("searches",
            json!({"type": "string", "pattern": (1..900).map(|n| format!("a.{{{n}}}b")).collect::<Vec<_>>().join("|")}).to_string(),
        ),
        (
            "some of",
            json!({"allOf": (0..8).map(|n| json!({"type": "string", "pattern": format!("{n}.*x")})).collect::<Vec<_>>()}).to_string(),
        ),
        ("multiples", json!({"type": "integer", "multipleOf": 9973, "minimum": 17, "maximum": 900_000_000_000i64}).to_string()),
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
