// SPDX-License-Identifier: Apache-2.0
//! Schemas with long counted strings, as Lark. llguidance's JSON compiler makes one terminal of a string, so that the
//! lexer has states of its own for each character that it counts. Here a long string is a sequence of blocks
//! (string_blocks.rs), which the parser counts: the lexer's states are those of one block, whatever the length.
//! The values around such strings become rules; every other schema stays JSON for llguidance's compiler.
//!
//! The lexer takes the longest match, so that where a long string may stand no other terminal may begin with a quote:
//! alternatives are written so only where their types, or all strings among them, allow it. Otherwise, and beside
//! "pattern", the lexer counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{json, Map, Value};

use super::string_blocks::{self, Ends};
use crate::limits::MAX_COMPOSED_BYTES;

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
/// Keywords beside which a string is counted in blocks: they do not apply to strings.
const OF_OTHERS: [&str; 14] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];
/// Options of an anyOf or oneOf that are compared with each other.
const MAX_ALTERNATIVES: usize = 256;
const OF_ARRAYS: [&str; 5] = ["type", "items", "prefixItems", "minItems", "maxItems"];
const OF_OBJECTS: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

/// `schema`: as schema.rs makes it. `leaf`: a schema with its options, for llguidance. None: it has no long string that
/// can be written so.
pub(super) fn to_lark(schema: &Value, leaf: fn(Value) -> Value) -> Option<String> {
    let empty = Map::new();
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&empty);
    let mut writer = Writer::new(definitions, leaf);
    let mut root = schema.as_object()?.clone();
    root.remove("$defs");
    let root = Value::Object(root);
    if !writer.is_long(&root) {
        return None;
    }
    let start = writer.translated(&root)?;
    let mut done = BTreeSet::new();
    let mut lark = format!("start: {start}\n");
    while let Some(name) = writer.pending.pop() {
        if done.insert(name.clone()) {
            let body = writer.value(&definitions[&name]);
            let _ = writeln!(lark, "{name}: {body}");
        }
    }
    for (body, id) in &writer.rules {
        let _ = writeln!(lark, "r{id}: {body}");
    }
    lark.push_str(&writer.ends.terminals());
    (writer.rule_bytes.max(lark.len()) <= MAX_COMPOSED_BYTES).then_some(lark)
}

struct Writer<'a> {
    definitions: &'a Map<String, Value>,
    /// Definitions that have a long string inside.
    has_long: BTreeSet<String>,
    /// By definition, the types that a value may have.
    types: BTreeMap<String, BTreeSet<&'static str>>,
    leaf: fn(Value) -> Value,
    /// Numbers of rules, by what they match.
    rules: BTreeMap<String, usize>,
    rule_bytes: usize,
    /// Definitions that rules name.
    pending: Vec<String>,
    ends: Ends,
}

impl<'a> Writer<'a> {
    fn new(definitions: &'a Map<String, Value>, leaf: fn(Value) -> Value) -> Self {
        let (has_long, types, rules) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (rule_bytes, pending, ends) = (0, vec![], Ends::default());
        let mut writer = Self { definitions, has_long, types, leaf, rules, rule_bytes, pending, ends };
        loop {
            let found = definitions.iter().filter(|(_, schema)| writer.is_long(schema));
            let has_long = found.map(|(name, _)| name.clone()).collect();
            let types = definitions.iter().map(|(name, schema)| (name.clone(), writer.types_of(schema))).collect();
            if (&has_long, &types) == (&writer.has_long, &writer.types) {
                return writer;
            }
            (writer.has_long, writer.types) = (has_long, types);
        }
    }

    /// Whether it has a long string inside.
    fn is_long(&self, schema: &Value) -> bool {
        let Value::Object(map) = schema else { return false };
        let lists = ["anyOf", "oneOf", "prefixItems"].iter().filter_map(|key| map.get(*key)?.as_array()).flatten();
        let maps = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let schemas = ["items", "additionalProperties"].iter().filter_map(|key| map.get(*key));
        is_long_string(map)
            || definition(map).is_some_and(|name| self.has_long.contains(name))
            || lists.chain(maps).chain(schemas).any(|schema| self.is_long(schema))
    }

    /// What stands in a rule for a value of the schema.
    fn value(&mut self, schema: &Value) -> String {
        let translated = if self.is_long(schema) { self.translated(schema) } else { None };
        translated.unwrap_or_else(|| self.json(schema))
    }

    fn rule(&mut self, body: String) -> String {
        self.rule_bytes += body.len();
        let next = self.rules.len();
        format!("r{}", self.rules.entry(body).or_insert(next))
    }

    /// A schema that llguidance compiles, with what it refers to.
    fn json(&mut self, schema: &Value) -> String {
        if self.rule_bytes > MAX_COMPOSED_BYTES {
            return String::new(); // it is too long already
        }
        let mut map = match schema {
            Value::Object(map) => map.clone(),
            _ => Map::new(),
        };
        let mut definitions = Map::new();
        let mut found = references(schema);
        while let Some(name) = found.pop() {
            if !definitions.contains_key(&name) {
                found.extend(references(&self.definitions[&name]));
                definitions.insert(name.clone(), self.definitions[&name].clone());
            }
        }
        if !definitions.is_empty() {
            map.insert("$defs".into(), definitions.into());
        }
        self.rule(format!("%json {}", (self.leaf)(map.into())))
    }

    /// None: the lexer counts.
    fn translated(&mut self, schema: &Value) -> Option<String> {
        let map = schema.as_object()?;
        if let Some(name) = definition(map) {
            return (map.len() == 1).then(|| {
                self.pending.push(name.into());
                name.into()
            });
        }
        if is_long_string(map) {
            return self.string(map);
        }
        if map.len() == 1 {
            if let Some((keyword, options)) = map.iter().next().filter(|(key, _)| ["anyOf", "oneOf"].contains(&&***key))
            {
                return self.options(keyword, options.as_array()?);
            }
        }
        match map.get("type")?.as_str()? {
            "array" if has_only(map, &OF_ARRAYS) => self.array(map),
            "object" if has_only(map, &OF_OBJECTS) => self.object(map),
            _ => None,
        }
    }

    /// A long string, or a value of another type that the schema allows.
    fn string(&mut self, map: &Map<String, Value>) -> Option<String> {
        let length = |keyword: &str| map.get(keyword).and_then(Value::as_u64);
        let string = self.ends.string(length("minLength").unwrap_or(0), length("maxLength"))?;
        let string = self.rule(string);
        let others: Vec<&str> = type_names(map).into_iter().filter(|name| *name != "string").collect();
        if others.is_empty() {
            return Some(string);
        }
        let mut rest = map.clone();
        ["minLength", "maxLength"].iter().for_each(|keyword| drop(rest.remove(*keyword)));
        rest.insert("type".into(), if others.len() == 1 { json!(others[0]) } else { json!(others) });
        let rest = self.value(&Value::Object(rest));
        Some(self.rule(format!("{string} | {rest}")))
    }

    /// No text may begin two of them whose strings are written in different ways.
    fn options(&mut self, keyword: &str, options: &[Value]) -> Option<String> {
        if options.len() > MAX_ALTERNATIVES {
            return None;
        }
        let is_string = |option: &Value| option.as_object().is_some_and(is_long_string);
        let has_long: Vec<bool> = options.iter().map(|option| self.is_long(option)).collect();
        let types: Vec<BTreeSet<&str>> = options.iter().map(|option| self.types_of(option)).collect();
        for (at, one) in options.iter().enumerate() {
            for (other_at, other) in options.iter().enumerate().take(at) {
                let mut both = types[at].intersection(&types[other_at]);
                let are_apart = types[at].is_disjoint(&types[other_at]) || self.begin_apart(one, other);
                let are_strings = keyword == "anyOf" && is_string(one) && is_string(other);
                if (has_long[at] || has_long[other_at])
                    && !are_apart
                    && !(are_strings && both.all(|name| *name == "string"))
                {
                    return None;
                }
            }
        }
        let mut others = vec![];
        let mut written = vec![];
        for (option, has_long) in options.iter().zip(has_long) {
            match has_long {
                true => written.push(self.value(option)),
                false => others.push(option.clone()),
            }
        }
        if !others.is_empty() {
            written.push(self.json(&json!({ keyword: others })));
        }
        Some(self.rule(written.join(" | ")))
    }

    /// Whether both are objects that begin with the same property, of different constants.
    fn begin_apart(&self, one: &Value, other: &Value) -> bool {
        match (self.first_constants(one), self.first_constants(other)) {
            (Some((name, values)), Some((other_name, other_values))) => {
                name == other_name && !values.iter().any(|value| other_values.contains(value))
            }
            _ => false,
        }
    }

    /// The property that all such objects begin with, and its values.
    fn first_constants<'s>(&'s self, schema: &'s Value) -> Option<(&'s str, &'s [Value])> {
        let mut map = schema.as_object()?;
        if let Some(name) = definition(map) {
            map = self.definitions[name].as_object()?;
        }
        let (name, first) = map.get("properties")?.as_object()?.iter().next()?;
        let is_required = map.get("required")?.as_array()?.iter().any(|one| one == name);
        let values = match first.get("const") {
            Some(value) => std::slice::from_ref(value),
            None => first.get("enum")?.as_array()?,
        };
        let is_object = map.get("type")? == "object" && has_only(map, &OF_OBJECTS);
        (is_object && is_required && values.iter().all(Value::is_string)).then_some((name, values))
    }

    /// Those that a value may have; more than there are, where that is not seen.
    fn types_of(&self, schema: &Value) -> BTreeSet<&'static str> {
        let Value::Object(map) = schema else { return BTreeSet::from(TYPES) };
        let literals = map.get("const").map(std::slice::from_ref);
        let literals = literals.or_else(|| map.get("enum").and_then(Value::as_array).map(Vec::as_slice));
        let options = map.get("anyOf").or_else(|| map.get("oneOf")).and_then(Value::as_array);
        match (definition(map), options, literals) {
            (Some(name), ..) => self.types.get(name).cloned().unwrap_or_default(),
            (_, Some(options), _) => options.iter().flat_map(|option| self.types_of(option)).collect(),
            (_, _, Some(literals)) => literals.iter().map(type_name).collect(),
            _ => TYPES.into_iter().filter(|name| type_names(map).iter().any(|one| of_number(one) == *name)).collect(),
        }
    }

    fn array(&mut self, map: &Map<String, Value>) -> Option<String> {
        let count = |keyword: &str| map.get(keyword).and_then(Value::as_u64).map(|count| count as usize);
        let (least, most) = (count("minItems").unwrap_or(0), count("maxItems"));
        let first = map.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let others = map.get("items").unwrap_or(&Value::Bool(true));
        if most.is_some_and(|most| most < least) || first.iter().chain([others]).any(|item| *item == Value::Bool(false))
        {
            return None;
        }
        let kept = most.map_or(first.len(), |most| most.min(first.len()));
        let other = self.value(others);
        // From the end: what follows an item.
        let at_least = least.saturating_sub(kept.max(1));
        let at_most = most.map(|most| most - kept.max(1).min(most));
        let mut rest = repeated(&format!("\", \" {other}"), at_least, at_most);
        let mut items: Vec<String> = first[..kept].iter().map(|item| self.value(item)).collect();
        if items.is_empty() && most != Some(0) {
            items.push(other);
        }
        for (at, item) in items.into_iter().enumerate().rev() {
            let comma = if at > 0 { "\", \" " } else { "" };
            let one = format!("{comma}{item} {rest}");
            rest = self.rule(if at < least { one } else { format!("({one})?") });
        }
        Some(format!("\"[\" {rest} \"]\""))
    }

    fn object(&mut self, map: &Map<String, Value>) -> Option<String> {
        let properties = map.get("properties")?.as_object()?;
        let additional = map.get("additionalProperties")?;
        if properties.is_empty() && additional != &Value::Bool(false) {
            let value = self.value(additional);
            let one = self.rule(format!("NAME \": \" {value}"));
            return Some(format!("\"{{\" ({one} (\", \" {one})*)? \"}}\""));
        }
        if additional != &Value::Bool(false) || properties.values().any(|schema| schema == &Value::Bool(false)) {
            return None;
        }
        let required: BTreeSet<&str> = map.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
        // From the end: what follows another property, and what follows the brace.
        let (mut next, mut first) = (String::new(), String::new());
        for (name, schema) in properties.iter().rev() {
            let value = self.value(schema);
            let one = format!("{} \": \" {value}", quoted(&Value::from(name.as_str()).to_string()));
            let one = self.rule(one);
            let alone = format!("{one} {next}");
            if required.contains(name.as_str()) {
                first = self.rule(alone);
                next = self.rule(format!("\", \" {one} {next}"));
            } else {
                first = match first.is_empty() {
                    true => self.rule(format!("({alone})?")),
                    false => self.rule(format!("{alone} | {first}")),
                };
                next = self.rule(format!("(\", \" {one})? {next}"));
            }
        }
        Some(format!("\"{{\" {first} \"}}\""))
    }
}

/// As long as string_blocks.rs makes them, without what is to be intersected.
fn is_long_string(map: &Map<String, Value>) -> bool {
    let length = |keyword: &str| map.get(keyword).and_then(Value::as_u64).unwrap_or(0);
    let is_beside = |keyword: &String| {
        ["type", "minLength", "maxLength"].contains(&keyword.as_str()) || OF_OTHERS.contains(&keyword.as_str())
    };
    type_names(map).contains(&"string")
        && string_blocks::is_long(length("minLength").max(length("maxLength")))
        && map.keys().all(is_beside)
}

fn has_only(map: &Map<String, Value>, keywords: &[&str]) -> bool {
    map.keys().all(|keyword| keywords.contains(&keyword.as_str()))
}

/// All, where the schema names none.
fn type_names(map: &Map<String, Value>) -> Vec<&str> {
    match map.get("type") {
        None => TYPES.to_vec(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
    }
}

/// An integer is a number.
fn of_number(name: &str) -> &str {
    match name {
        "integer" => "number",
        _ => name,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn definition(map: &Map<String, Value>) -> Option<&str> {
    map.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn references(schema: &Value) -> Vec<String> {
    let mut found = vec![];
    match schema {
        Value::Object(map) => {
            found.extend(definition(map).map(str::to_string));
            map.values().for_each(|value| found.extend(references(value)));
        }
        Value::Array(list) => list.iter().for_each(|value| found.extend(references(value))),
        _ => {}
    }
    found
}

/// `what`, so often.
fn repeated(what: &str, least: usize, most: Option<usize>) -> String {
    match (least, most) {
        (_, Some(0)) => String::new(),
        (0, None) => format!("({what})*"),
        (least, None) => format!("({what}){{{least},}}"),
        (least, Some(most)) => format!("({what}){{{least},{most}}}"),
    }
}

/// A text of Lark.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
