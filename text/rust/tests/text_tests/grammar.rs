// SPDX-License-Identifier: Apache-2.0
//! What grammars take, and what is refused by name.

use crate::grammar_model::{has, model, PLAIN, WIDTH, WORDS};
use dunlin_text::grammar::GrammarSource;
use dunlin_text::{Code, Error};
use serde_json::{json, Value};

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
    for regex in ["", "(", "a{3,1}", "[z-a]", "a\\"] {
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
        (json!({"properties": {"a": {"if": true, "else": {"type": "null"}}}}), "\"if\" at #/properties/a"),
        (json!({"dependentRequired": {}}), "dependentRequired"),
        (json!({"propertyNames": {"type": "string", "maxLength": 3}}), "propertyNames"),
        (json!({"propertyNames": {"type": "null"}}), "propertyNames"),
        (json!({"propertyNames": {"enum": ["a"]}}), "propertyNames"),
        (json!({"propertyNames": false}), "propertyNames"),
        (json!({"unevaluatedProperties": false}), "unevaluatedProperties"),
        (json!({"properties": {"a": {"items": {"not": {}}}}}), "\"not\" at #/properties/a/items"),
        (json!({"if": {"type": "null"}, "then": false}), "\"if\" at #"),
        (json!({"dependencies": {"a": ["b"]}}), "dependencies"),
        (json!({"$dynamicRef": "#a"}), "$dynamicRef"),
        (json!({"type": "string", "pattern": "a(?=b)"}), "look-ahead"),
        (json!({"type": "string", "pattern": "a\\b"}), "word boundary"),
        (json!({"type": "number", "multipleOf": 0.1}), "multipleOf"),
        (json!({"items": [true]}), "items"),
        (json!({"$ref": "https://example.com/x"}), "$ref"),
        (json!({"$schema": "http://json-schema.org/draft-03/schema#"}), "$schema"),
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
fn names_of_properties_that_are_any_text_have_no_effect() {
    let model = model();
    for names in [json!(true), json!({}), json!({"type": "string"}), json!({"type": "string", "title": "Key"})] {
        let map = json!({"type": "object", "propertyNames": names, "additionalProperties": {"type": "integer"}});
        assert!(model.schema_matches(&map, "{\"a\": 1, \"b c\": 2}"), "{map}");
        assert!(!model.schema_matches(&map, "{\"a\": true}"), "{map}");
    }
}

#[test]
fn identifiers_and_dialects_have_no_effect() {
    let model = model();
    let part = |id: Value| json!({"properties": {"a": {"$id": id, "type": "object", "properties": {"b": {"$id": "x", "type": "null"}}}}});
    for id in [json!("https://example.com/a"), json!("a.json"), json!("#anchor"), json!({"no": "text"})] {
        assert!(model.schema_matches(&part(id.clone()), "{\"a\": {\"b\": null}}"), "{id}");
        assert!(!model.schema_matches(&part(id.clone()), "{\"a\": {\"b\": 1}}"), "{id}");
    }
    let mut whole = part(json!("a"));
    whole["properties"]["a"]["properties"]["c"] = json!({"items": {"$ref": "#/properties/a"}});
    let error = model.schema_refusal(&whole);
    assert_eq!(error.code, Code::Unimplemented);
    assert!(error.message.contains("\"$id\" at #/properties/a, "), "{error}");
    let library = json!({"$id": "lib", "$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": {"type": "null"}}});
    let whole = json!({"$ref": "#/$defs/lib/$defs/x", "$defs": {"lib": library, "y": {"type": "string"}}});
    assert_eq!(model.schema_refusal(&whole).code, Code::Unimplemented);
    let whole = json!({"$id": "https://example.com/b", "properties": {"next": {"$ref": "#"}}});
    assert!(model.schema_matches(&whole, "{\"next\": {\"next\": {}}}"));
    for dialect in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
        "http://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/schema#",
        "https://example.com/meta/tools",
        "",
    ] {
        let schema = json!({"$schema": dialect, "type": "integer", "maximum": 9});
        assert!(model.schema_matches(&schema, "9") && !model.schema_matches(&schema, "10"), "{dialect}");
    }
    for dialect in ["http://json-schema.org/draft-03/schema#", "https://json-schema.org/draft-02/schema"] {
        let error = model.schema_refusal(&json!({"properties": {"a": {"$schema": dialect, "required": true}}}));
        assert!(error.code == Code::Unimplemented && error.message.contains("$schema"), "{error}");
    }
    assert_eq!(model.schema_refusal(&json!({"$schema": 7})).code, Code::InvalidArgument);
}

/// As the specification has it: unknown keywords are annotations (Core, 6.5), and so are unknown formats (Validation, 7.2.1).
#[test]
fn unknown_keywords_and_formats_are_annotations() {
    let model = model();
    let text = json!({"type": "string"});
    for (keyword, value) in [
        ("nullable", json!(true)),
        ("discriminator", json!({"propertyName": "kind"})),
        ("markdownDescription", json!("*text*")),
        ("errorMessage", json!({"type": "must be a text"})),
        ("propertyOrdering", json!(["b", "a"])),
        ("x-order", json!(1)),
        ("then", json!({"type": "null"})),
        ("if", json!({"type": "null"})),
        ("minContains", json!(3)),
        ("additionalItems", json!(false)),
        ("$dynamicAnchor", json!("node")),
        ("enumNames", json!(["A"])),
        ("unknown", json!({"not": {}})),
        ("format", json!("uri")),
        ("format", json!("int32")),
        ("format", json!("my-own")),
    ] {
        let mut of_text = text.clone();
        of_text[keyword] = value.clone();
        let mut of_object = json!({"type": "object", "properties": {"a": of_text}, "required": ["a"]});
        of_object[keyword] = value;
        assert!(model.schema_matches(&of_object, r#"{"a": "x"}"#), "{of_object}");
        assert!(!model.schema_matches(&of_object, r#"{"a": 1}"#), "{of_object}");
        // Nor do they count where objects are combined.
        let all_of = json!({"allOf": [of_object, {"type": "object", "properties": {"b": text}, "required": ["b"]}]});
        assert!(model.schema_matches(&all_of, r#"{"a": "x", "b": "y"}"#), "{all_of}");
        assert!(!model.schema_matches(&all_of, r#"{"a": "x"}"#), "{all_of}");
    }
    let date = json!({"type": "string", "format": "date", "unknown": 1});
    assert!(model.schema_matches(&date, "\"2024-02-29\"") && !model.schema_matches(&date, "\"x\""), "a known format");
}

/// Real tools state lengths of tens of thousands; each character that is written counts, and takes memory.
#[test]
fn characters_of_long_strings_are_counted() {
    let model = model();
    let schema =
        |most: usize| json!({"type": "object", "properties": {"content": {"type": "string", "maxLength": most}}});
    let text = |unit: &str, count: usize| format!("{{\"content\": \"{}\"}}", unit.repeat(count));
    assert!(model.schema_matches(&schema(65_536), &text("x", 4_500)));
    assert!(model.schema_matches(&schema(65_536), &text("\\n\\\"é\\t ", 600)), "an escape is a character");
    assert!(!model.schema_matches(&schema(4_000), &text("x", 4_001)));
}

#[test]
fn refusals_of_bounds_speak_of_the_schema() {
    let model = model();
    let array = |n: u64| json!({"type": "array", "maxItems": n});
    let is_plain = |error: &Error| !["lexer", "fuel", "limits."].iter().any(|word| error.message.contains(word));
    for (schema, parts) in [
        (json!({"properties": {"a": {"maxLength": 65_537}}}), ["maxLength 65537 at #/properties/a", "65536"]),
        (array(10_001), ["maxItems 10001 at #", "limit is 10000"]),
        (json!({"prefixItems": vec![array(9_000); 4]}), ["maxItems 9000 at #/prefixItems/3", "32000"]),
    ] {
        let error = model.schema_refusal(&schema);
        assert_eq!(error.code, Code::ResourceExhausted, "{error}");
        assert!(parts.iter().all(|part| error.message.contains(part)) && is_plain(&error), "{error}");
    }
    let error = model.refusal(&GrammarSource::Regex(&r"(\w|\d|\s){0,9}".repeat(1000)));
    assert!(error.message.contains("its patterns, lengths and strings take more than") && is_plain(&error), "{error}");
}

#[test]
fn the_flags_of_draft_04_make_bounds_exclusive() {
    let model = model();
    let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer",
        "minimum": 3, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false});
    for (text, is_valid) in [("3", false), ("4", true), ("5", true), ("6", false)] {
        assert_eq!(model.schema_matches(&schema, text), is_valid, "{text}");
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

#[test]
fn numbers_keep_their_bounds_in_every_spelling() {
    let model = model();
    for number in ["0.1", "-2.75", "0.0000001", "123456.789", "0.30000000000000004", "-0.5", "9007199254740991", "-17"]
    {
        let value: Value = serde_json::from_str(number).unwrap();
        for schema in [json!({"const": value}), json!({"enum": [[value]]})] {
            let text = if schema.get("const").is_some() { number.to_string() } else { format!("[{number}]") };
            assert!(model.schema_matches(&schema, &text), "{text}");
            assert!(!model.schema_matches(&schema, &text.replacen(number, &format!("{number}1"), 1)), "{text}");
        }
    }
    let below = json!({"type": "number", "exclusiveMaximum": 0});
    let above = json!({"type": "number", "exclusiveMinimum": 0});
    let within = json!({"type": "number", "minimum": -1.5, "maximum": 100.25});
    for (schema, text, expected) in [
        (&below, "-0.5", true),
        (&below, "-0", false),
        (&below, "-0.0", false),
        (&below, "0", false),
        (&below, "1", false),
        (&above, "0.5", true),
        (&above, "0", false),
        (&above, "0.000", false),
        (&above, "-0.0", false),
        (&above, "3", true),
        (&within, "-1.5", true),
        (&within, "-1.51", false),
        (&within, "100.25", true),
        (&within, "100.251", false),
        (&within, "1e5", false),
        (&within, "99.999", true),
        (&within, "-1", true),
        (&within, "-2", false),
    ] {
        assert_eq!(model.schema_matches(schema, text), expected, "{schema} {text}");
    }
}
