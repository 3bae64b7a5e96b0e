// SPDX-License-Identifier: Apache-2.0
//! Objects. Their names are written without escapes that are not needed, so that no name is written in two ways: a name
//! that is not declared is matched by a pattern of all names that are not. An object that declares properties has no
//! others, unless additionalProperties says so; schemas that are combined are merged first.

use std::collections::BTreeMap;

use llguidance::derivre::RegexBuilder;
use serde_json::{json, Map, Value};

use super::pattern;
use super::schema::{constrains, Normalizer, Place, COMBINING, OF_OBJECTS};
use super::values::{array, count, object, string, unsupported};
use crate::error::{Error, Result};
use crate::limits::{MAX_PROPERTIES, MAX_SCHEMA_COUNT};

const MAX_ALTERNATIVES: usize = 256;
const PATTERN_FUEL: u64 = 10_000;

impl Normalizer<'_> {
    /// Properties, in the order in which they are written.
    pub(super) fn object(
        &mut self,
        map: &Map<String, Value>,
        place: &Place,
        out: &mut Map<String, Value>,
    ) -> Result<()> {
        let path = &place.path;
        let empty = Map::new();
        let keyword = |name: &str| map.get(name).map_or(Ok(&empty), |value| object(value, name, path));
        let (declared, patterns) = (keyword("properties")?, self.patterns(keyword("patternProperties")?, place)?);
        let mut required = vec![];
        if let Some(names) = map.get("required") {
            for name in array(names, "required", path)? {
                let name = string(name, "required", path)?;
                if !required.contains(&name) {
                    required.push(name);
                }
            }
        }
        let additional = match map.get("additionalProperties") {
            None if declared.is_empty() && patterns.is_empty() => Value::Bool(true),
            None => Value::Bool(false),
            Some(schema) => self.schema(schema, &place.inside("additionalProperties"))?,
        };
        if additional != Value::Bool(false) && !patterns.is_empty() {
            return Err(unsupported("additionalProperties", path, "beside \"patternProperties\""));
        }
        if declared.len().max(required.len()) > MAX_PROPERTIES {
            let count = declared.len().max(required.len());
            return Err(Error::exhausted(format!("has {count} properties at {path}; limit is {MAX_PROPERTIES}")));
        }
        let mut properties = Map::new();
        let undeclared = required.iter().filter(|name| !declared.contains_key(**name)).map(|name| (*name, None));
        for (name, schema) in declared.iter().map(|(name, schema)| (name.as_str(), Some(schema))).chain(undeclared) {
            let own = match schema {
                Some(schema) => Some(self.schema(schema, &place.inside(&format!("properties/{name}")))?),
                None => None,
            };
            let matching = matching(&patterns, name)?;
            let schema = match (own, matching) {
                (Some(own), None) => own,
                (None, None) => additional.clone(),
                (None, Some(by_pattern)) => by_pattern.clone(),
                (Some(own), Some(Value::Bool(true))) => own,
                _ => return Err(unsupported("patternProperties", path, "which matches a name in \"properties\"")),
            };
            properties.insert(name.into(), schema);
        }
        let mut names: Map<String, Value> = patterns.into_iter().collect();
        let closed = properties.is_empty() || additional == Value::Bool(false);
        if !closed {
            let others = format!("^(?:{})$", none_of(properties.keys().map(String::as_str)));
            names.insert(others, additional.clone());
        }
        self.property_counts(map, required.len(), place, out)?;
        let additional = if closed { additional } else { Value::Bool(false) };
        out.insert("additionalProperties".into(), additional);
        out.insert("required".into(), json!(required));
        out.insert("properties".into(), Value::Object(properties));
        if !names.is_empty() {
            out.insert("patternProperties".into(), Value::Object(names));
        }
        Ok(())
    }

    /// In Rust's dialect.
    fn patterns(&mut self, patterns: &Map<String, Value>, place: &Place) -> Result<Vec<(String, Value)>> {
        let translated = patterns.iter().map(|(name, schema)| {
            let schema = self.schema(schema, &place.inside("patternProperties"))?;
            self.totals.has_expressions = true;
            let regex = pattern::from_ecma(name);
            let regex =
                regex.map_err(|what| unsupported("patternProperties", &place.path, &format!("which has {what}")))?;
            Ok((regex, schema))
        });
        translated.collect()
    }

    /// Names that are not declared could be equal, so that one of them is all that can be counted on.
    fn property_counts(
        &mut self,
        map: &Map<String, Value>,
        num_required: usize,
        place: &Place,
        out: &mut Map<String, Value>,
    ) -> Result<()> {
        let least = count(map, "minProperties", MAX_SCHEMA_COUNT, &place.path)?.unwrap_or(0);
        if least > num_required as u64 + 1 {
            let why = format!("which is more than \"required\" lists ({num_required}) and 1");
            return Err(unsupported("minProperties", &place.path, &why));
        }
        if least > num_required as u64 {
            out.insert("minProperties".into(), least.into());
        }
        if let Some(most) = count(map, "maxProperties", MAX_SCHEMA_COUNT, &place.path)? {
            out.insert("maxProperties".into(), most.into());
        }
        Ok(())
    }

    /// Whether objects are combined: llguidance's own intersection of objects forgets some of their patterns.
    pub(super) fn needs_merging(&mut self, map: &Map<String, Value>, place: &Place) -> Result<bool> {
        let combined = COMBINING.iter().filter(|key| map.contains_key(**key)).count();
        let others = map.keys().filter(|key| constrains(key, map) && key.as_str() != "type").count() - combined;
        if combined == 0 || (combined == 1 && others == 0 && single(map)) {
            return Ok(false);
        }
        self.has_objects(&Value::Object(map.clone()), place, 0)
    }

    fn has_objects(&mut self, value: &Value, place: &Place, depth: usize) -> Result<bool> {
        let Value::Object(map) = value else { return Ok(false) };
        if depth > 8 || OF_OBJECTS.iter().any(|key| map.contains_key(*key)) {
            return Ok(true);
        }
        let values =
            map.get("const").into_iter().chain(map.get("enum").and_then(Value::as_array).into_iter().flatten());
        if values.into_iter().any(Value::is_object) {
            return Ok(true);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for option in map.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                if self.has_objects(option, place, depth + 1)? {
                    return Ok(true);
                }
            }
        }
        let Some(reference) = map.get("$ref") else { return Ok(false) };
        let id = self.reference(reference, place)?;
        let target = self.references.target(id).map_or(&Value::Null, |(_, target)| target);
        self.has_objects(target, place, depth + 1)
    }

    /// allOf and $ref become one object; anyOf or oneOf, a choice of them.
    pub(super) fn merged(&mut self, value: &Value, place: &Place) -> Result<Value> {
        let mut parts = Parts::default();
        self.collect(value, place, 0, &mut parts)?;
        if parts.is_false {
            return Ok(Value::Bool(false));
        }
        match parts.choices.len() {
            0 => {
                let object = parts.object(place)?;
                self.schema(&object, &place.beside("allOf"))
            }
            1 => {
                let (keyword, options) = parts.choices.remove(0);
                if options.len() > MAX_ALTERNATIVES {
                    return Err(Error::exhausted(format!(
                        "has {} options in \"{keyword}\" at {}; limit is {MAX_ALTERNATIVES}",
                        options.len(),
                        place.path
                    )));
                }
                let schemas = options.into_iter().enumerate().map(|(at, option)| {
                    let all: Vec<Value> = parts.plain.iter().cloned().map(Value::Object).chain([option]).collect();
                    self.schema(&json!({ "allOf": all }), &place.beside(&format!("{keyword}/{at}")))
                });
                let schemas = schemas.collect::<Result<Vec<_>>>()?;
                Ok(json!({ keyword: schemas }))
            }
            _ => Err(unsupported("anyOf", &place.path, "or \"oneOf\" twice, where objects are combined")),
        }
    }

    fn collect(&mut self, value: &Value, place: &Place, depth: usize, parts: &mut Parts) -> Result<()> {
        if depth > 16 || parts.plain.len() > MAX_ALTERNATIVES {
            return Err(Error::invalid(format!("combines too many schemas, or itself, at {}", place.path)));
        }
        let map = match value {
            Value::Bool(is_true) => {
                parts.is_false |= !is_true;
                return Ok(());
            }
            Value::Object(map) => map,
            _ => return Err(Error::invalid(format!("has no schema at {}", place.path))),
        };
        super::schema::check_keywords(map, place)?;
        let own = map.iter().filter(|(key, _)| constrains(key, map) && !COMBINING.contains(&key.as_str()));
        let own: Map<String, Value> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !own.is_empty() {
            parts.plain.push(own);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(options) = map.get(keyword) {
                parts.choices.push((keyword, array(options, keyword, &place.path)?.clone()));
            }
        }
        if let Some(all) = map.get("allOf") {
            for (at, one) in array(all, "allOf", &place.path)?.iter().enumerate() {
                self.collect(one, &place.beside(&format!("allOf/{at}")), depth + 1, parts)?;
            }
        }
        let Some(reference) = map.get("$ref") else { return Ok(()) };
        let id = self.reference(reference, place)?;
        let target = self.references.target(id).map_or(&Value::Null, |(_, target)| target);
        self.collect(target, &place.beside("$ref"), depth + 1, parts)
    }
}

/// One schema in place of the whole, or a choice of them.
fn single(map: &Map<String, Value>) -> bool {
    map.get("allOf").and_then(Value::as_array).is_none_or(|all| all.len() == 1 && !map.contains_key("type"))
}

#[derive(Default)]
struct Parts {
    plain: Vec<Map<String, Value>>,
    choices: Vec<(&'static str, Vec<Value>)>,
    is_false: bool,
}

impl Parts {
    /// All of them as one schema.
    fn object(mut self, place: &Place) -> Result<Value> {
        if self.plain.len() <= 1 {
            return Ok(Value::Object(self.plain.pop().unwrap_or_default()));
        }
        let mut properties: Map<String, Value> = Map::new();
        let mut required: Vec<Value> = vec![];
        let mut types: Option<Vec<Value>> = None;
        let mut additional = None;
        for part in &self.plain {
            if let Some(keyword) = part.keys().find(|key| !MERGEABLE.contains(&key.as_str())) {
                return Err(unsupported(keyword, &place.path, "where objects are combined"));
            }
            if let Some(of_part) = part.get("type") {
                types = Some(both_types(types, of_part));
            }
            for (name, schema) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let slot = properties.entry(name.clone()).or_insert(Value::Null);
                *slot = match slot.take() {
                    Value::Null => schema.clone(),
                    before => json!({"allOf": [before, schema]}),
                };
            }
            required.extend(part.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
            match part.get("additionalProperties") {
                None => {}
                Some(Value::Bool(open)) => additional = Some(*open && additional.unwrap_or(true)),
                _ => return Err(unsupported("additionalProperties", &place.path, "where objects are combined")),
            }
        }
        for part in self.plain.iter().filter(|part| part.get("additionalProperties") == Some(&Value::Bool(false))) {
            let own = part.get("properties").and_then(Value::as_object);
            properties.retain(|name, _| own.is_some_and(|own| own.contains_key(name)));
        }
        let mut whole = json!({"properties": properties, "required": required});
        if let Some(types) = types {
            if types.is_empty() {
                return Ok(Value::Bool(false));
            }
            whole["type"] = types.into();
        }
        if let Some(open) = additional {
            whole["additionalProperties"] = open.into();
        }
        Ok(whole)
    }
}

const MERGEABLE: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

fn both_types(before: Option<Vec<Value>>, types: &Value) -> Vec<Value> {
    let list = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
    let Some(before) = before else { return list };
    let (number, integer) = (json!("number"), json!("integer"));
    let in_both = |of: &Value, other: &[Value]| other.contains(of) || (*of == integer && other.contains(&number));
    let mut both: Vec<Value> = list.iter().filter(|one| in_both(one, &before)).cloned().collect();
    both.extend(before.iter().filter(|one| in_both(one, &list) && !list.contains(one)).cloned());
    both
}

/// The schema of the pattern that a name matches; llguidance refuses patterns that overlap.
fn matching<'a>(patterns: &'a [(String, Value)], name: &str) -> Result<Option<&'a Value>> {
    for (regex, schema) in patterns {
        let mut builder = RegexBuilder::new();
        let search = builder.mk_regex_for_serach(regex).and_then(|expr| builder.to_regex_limited(expr, PATTERN_FUEL));
        let mut search = search.map_err(super::refusal)?;
        if search.is_match(name) {
            return Ok(Some(schema));
        }
    }
    Ok(None)
}

/// A regular expression of all texts but these.
fn none_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    #[derive(Default)]
    struct Node {
        is_name: bool,
        next: BTreeMap<char, Node>,
    }
    fn write(node: &Node, out: &mut String) {
        if node.next.is_empty() {
            out.push_str(if node.is_name { "(?s:.)+" } else { "(?s:.)*" });
            return;
        }
        let firsts: String = node.next.keys().map(|c| pattern::literal(*c)).collect();
        out.push_str(&format!("(?:[^{firsts}](?s:.)*"));
        for (c, below) in &node.next {
            out.push_str(&format!("|{}", pattern::literal(*c)));
            write(below, out);
        }
        out.push_str(if node.is_name { ")" } else { ")?" });
    }
    let mut root = Node::default();
    for name in names {
        let end = name.chars().fold(&mut root, |node, c| node.next.entry(c).or_default());
        end.is_name = true;
    }
    let mut out = String::new();
    write(&root, &mut out);
    out
}
