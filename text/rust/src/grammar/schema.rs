// SPDX-License-Identifier: Apache-2.0
//! A JSON Schema as one that llguidance enforces in full. Keywords that constrain and are not enforced are refused by
//! name; annotations are dropped. An output validates against the given schema; of its valid instances, some are
//! not written: see docs/structured_output.md.
//! Source: JSON Schema 2020-12, Core and Validation.

use serde_json::{json, Map, Value};

use super::references::{self, References};
use super::totals::Totals;
use super::values::{array, check_literal, count, malformed, number, string, unsupported};
use super::{formats, pattern};
use crate::error::{Error, Result};
use crate::limits::*;

/// They constrain and are not enforced. What is in none of these lists is an annotation: keywords that no specification
/// has, too (Core, 6.5).
const REFUSED: [&str; 14] = [
    "not",
    "if",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
    "divisibleBy",
    "disallow",
    "extends",
];
const SCALARS: [&str; 17] = [
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
];
pub(super) const OF_OBJECTS: [&str; 6] =
    ["properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"];
pub(super) const COMBINING: [&str; 4] = ["allOf", "anyOf", "oneOf", "$ref"];
/// Every other dialect is read as 2020-12, which is never laxer than drafts 04 to 2019-09: keywords that have changed their
/// meaning are refused, or malformed. In these, a property says itself that it is required.
const OLD_DIALECTS: [&str; 4] = ["draft-00", "draft-01", "draft-02", "draft-03"];

/// Where a schema stands.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) path: String,
    depth: usize,
    /// The schema of References that this one is a part of.
    owner: usize,
    /// No value lies between it and its owner.
    in_place: bool,
    /// It is intersected with others.
    combined: bool,
}

impl Place {
    pub(super) fn inside(&self, step: &str) -> Self {
        let path: String = format!("{}/{}", self.path, step.escape_debug()).chars().take(160).collect();
        Self { path, depth: self.depth + 1, owner: self.owner, in_place: false, combined: false }
    }

    pub(super) fn beside(&self, step: &str) -> Self {
        Self { in_place: self.in_place, combined: self.combined, ..self.inside(step) }
    }
}

pub(super) struct Normalizer<'a> {
    pub(super) references: References<'a>,
    pub(super) totals: &'a mut Totals,
    intersected_patterns: usize,
}

/// Errors: INVALID_ARGUMENT, UNIMPLEMENTED (names the keyword and its place), RESOURCE_EXHAUSTED.
pub(super) fn normalized(root: &Value, totals: &mut Totals) -> Result<Value> {
    let mut normalizer = Normalizer { references: References::new(root), totals, intersected_patterns: 0 };
    let mut schemas: Vec<Value> = vec![];
    while let Some((path, target)) = normalizer.references.target(schemas.len()) {
        let place = Place { path, depth: 0, owner: schemas.len(), in_place: true, combined: false };
        schemas.push(normalizer.schema(target, &place)?);
    }
    normalizer.references.check_progress()?;
    super::productive::check(&schemas)?;
    let mut whole = match &schemas[0] {
        Value::Object(map) => map.clone(),
        Value::Bool(true) => Map::new(),
        _ => return Err(Error::invalid("matches nothing")),
    };
    let named = schemas.into_iter().enumerate().map(|(id, schema)| (format!("d{id}"), schema));
    whole.insert("$defs".into(), Value::Object(named.collect()));
    Ok(Value::Object(whole))
}

impl Normalizer<'_> {
    pub(super) fn schema(&mut self, value: &Value, place: &Place) -> Result<Value> {
        self.totals.schemas += 1;
        if place.depth > MAX_GRAMMAR_DEPTH {
            return Err(Error::exhausted(format!("nests schemas deeper than {MAX_GRAMMAR_DEPTH}")));
        }
        if self.totals.schemas > MAX_SCHEMAS {
            return Err(Error::exhausted(format!("has more than {MAX_SCHEMAS} schemas")));
        }
        let map = match value {
            Value::Bool(_) => return Ok(value.clone()),
            Value::Object(map) => map,
            _ => return Err(Error::invalid(format!("has no schema at {}", place.path))),
        };
        check_keywords(map, place)?;
        if self.needs_merging(map, place)? {
            return self.merged(value, place);
        }
        let place = &Place { combined: place.combined || intersects(map), ..place.clone() };
        let mut out = Map::new();
        self.scalars(map, place, &mut out)?;
        self.arrays(map, place, &mut out)?;
        if OF_OBJECTS.iter().any(|key| map.contains_key(*key)) {
            self.object(map, place, &mut out)?;
        }
        self.combinations(map, place, &mut out)?;
        Ok(Value::Object(out))
    }

    fn combinations(&mut self, map: &Map<String, Value>, place: &Place, out: &mut Map<String, Value>) -> Result<()> {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(value) = map.get(keyword) else { continue };
            let options = array(value, keyword, &place.path)?;
            if options.is_empty() {
                return Err(malformed(keyword, &place.path, "a list of 1 or more schemas"));
            }
            let inside = |at: usize| place.beside(&format!("{keyword}/{at}"));
            let schemas = options.iter().enumerate().map(|(at, option)| self.schema(option, &inside(at)));
            let schemas = schemas.collect::<Result<Vec<_>>>()?;
            match out.get_mut(keyword) {
                Some(Value::Array(list)) => list.extend(schemas),
                _ => drop(out.insert(keyword.into(), schemas.into())),
            }
        }
        if let Some(reference) = map.get("$ref") {
            let id = self.reference(reference, place)?;
            if place.in_place {
                self.references.note_in_place(place.owner, id);
            }
            if place.combined {
                let target = self.references.target(id).map_or(&Value::Null, |(_, target)| target);
                let patterns = self.patterns_of(target, place, 0)?;
                self.intersect_patterns(patterns, place)?;
            }
            out.insert("$ref".into(), format!("#/$defs/d{id}").into());
        }
        Ok(())
    }

    fn intersect_patterns(&mut self, patterns: usize, place: &Place) -> Result<()> {
        self.intersected_patterns += patterns;
        if self.intersected_patterns > MAX_INTERSECTED_PATTERNS {
            let limit = format!("limit is {MAX_INTERSECTED_PATTERNS}");
            return Err(Error::exhausted(format!("combines too many patterns at {}; {limit}", place.path)));
        }
        Ok(())
    }

    /// Patterns that a schema applies to its own value.
    fn patterns_of(&mut self, value: &Value, place: &Place, depth: usize) -> Result<usize> {
        let Value::Object(map) = value else { return Ok(0) };
        if depth > MAX_INTERSECTED_PATTERNS {
            return Ok(MAX_INTERSECTED_PATTERNS + 1);
        }
        let has = |key: &&str| map.contains_key(*key) && constrains(key, map);
        let mut count = ["pattern", "format"].iter().filter(|key| has(key)).count();
        for option in ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| map.get(*key)?.as_array()).flatten() {
            count += self.patterns_of(option, place, depth + 1)?;
        }
        let Some(reference) = map.get("$ref") else { return Ok(count) };
        let id = self.reference(reference, place)?;
        let target = self.references.target(id).map_or(&Value::Null, |(_, target)| target);
        Ok(count + self.patterns_of(target, place, depth + 1)?)
    }

    pub(super) fn reference(&mut self, reference: &Value, place: &Place) -> Result<usize> {
        let reference = string(reference, "$ref", &place.path)?;
        self.references.resolve(reference, &place.path)
    }

    fn scalars(&mut self, map: &Map<String, Value>, place: &Place, out: &mut Map<String, Value>) -> Result<()> {
        let path = &place.path;
        bounds(map, path, out)?;
        for keyword in ["const", "enum"] {
            let Some(value) = map.get(keyword) else { continue };
            check_literal(value, path)?;
            if keyword == "enum" && array(value, keyword, path)?.is_empty() {
                return Err(malformed(keyword, path, "a list of 1 or more values"));
            }
            out.insert(keyword.into(), value.clone());
        }
        for keyword in ["minLength", "maxLength"] {
            if let Some(length) = count(map, keyword, MAX_SCHEMA_LENGTH, path)? {
                self.totals.longest = self.totals.longest.max(length);
                out.insert(keyword.into(), length.into());
            }
        }
        if let Some(types) = map.get("type") {
            check_types(types, path)?;
            out.insert("type".into(), types.clone());
        }
        if let Some(divisor) = map.get("multipleOf") {
            multiple_of(divisor, path, out)?;
        }
        self.strings(map, place, out)
    }

    fn strings(&mut self, map: &Map<String, Value>, place: &Place, out: &mut Map<String, Value>) -> Result<()> {
        let mut expressions = vec![];
        if let Some(value) = map.get("pattern") {
            let text = string(value, "pattern", &place.path)?;
            self.totals.has_expressions = true;
            let regex = pattern::from_ecma(text);
            expressions.push(regex.map_err(|what| unsupported("pattern", &place.path, &format!("which has {what}")))?);
        }
        if let Some(value) = map.get("format") {
            let name = string(value, "format", &place.path)?;
            expressions.extend(formats::regex(name).map(|regex| format!("^(?:{regex})$")));
        }
        if place.combined {
            self.intersect_patterns(expressions.len(), place)?;
        }
        if let Some(first) = expressions.first() {
            out.insert("pattern".into(), first.clone().into());
        }
        if let Some(second) = expressions.get(1) {
            if out.get("type") != Some(&json!("string")) {
                return Err(unsupported("format", &place.path, "beside \"pattern\" without the type string"));
            }
            out.insert("allOf".into(), json!([{"type": "string", "pattern": second}]));
        }
        Ok(())
    }

    fn arrays(&mut self, map: &Map<String, Value>, place: &Place, out: &mut Map<String, Value>) -> Result<()> {
        let path = &place.path;
        for keyword in ["minItems", "maxItems"] {
            if let Some(items) = count(map, keyword, MAX_SCHEMA_COUNT, path)? {
                self.totals.items += items;
                if self.totals.items > MAX_SCHEMA_ITEMS {
                    let what = "makes more than so many items of all \"minItems\" and \"maxItems\" together";
                    return Err(Error::exhausted(format!(
                        "has {keyword} {items} at {path}, which {what}: limit is {MAX_SCHEMA_ITEMS}"
                    )));
                }
                out.insert(keyword.into(), items.into());
            }
        }
        match map.get("uniqueItems") {
            None | Some(Value::Bool(false)) => {}
            _ if map.get("maxItems").and_then(Value::as_u64).is_some_and(|most| most <= 1) => {}
            _ => return Err(unsupported("uniqueItems", path, "which is not supported")),
        }
        if let Some(items) = map.get("items") {
            if items.is_array() {
                return Err(unsupported("items", path, "as a list, which prefixItems has replaced"));
            }
            out.insert("items".into(), self.schema(items, &place.inside("items"))?);
        }
        if let Some(prefix) = map.get("prefixItems") {
            let schemas = array(prefix, "prefixItems", path)?.iter().enumerate();
            let schemas = schemas.map(|(at, item)| self.schema(item, &place.inside(&format!("prefixItems/{at}"))));
            out.insert("prefixItems".into(), schemas.collect::<Result<Vec<_>>>()?.into());
        }
        Ok(())
    }
}

/// Whether a keyword of this schema is no annotation. An unknown one is, a format that is not enforced (Validation,
/// 7.2.1), and "if" without what it decides.
pub(super) fn constrains(keyword: &str, schema: &Map<String, Value>) -> bool {
    match keyword {
        "format" => schema[keyword].as_str().is_none_or(|name| formats::regex(name).is_some()),
        "if" => schema.contains_key("then") || schema.contains_key("else"),
        "propertyNames" => !allows_every_name(&schema[keyword]),
        _ => [&REFUSED[..], &SCALARS, &OF_OBJECTS, &COMBINING].iter().any(|list| list.contains(&keyword)),
    }
}

/// `propertyNames` that says what every name is: a text. Generators of schemas write it for maps.
fn allows_every_name(names: &Value) -> bool {
    let Value::Object(map) = names else { return names == &Value::Bool(true) };
    map.iter().all(|(keyword, value)| if keyword == "type" { value == "string" } else { !constrains(keyword, map) })
}

pub(super) fn check_keywords(map: &Map<String, Value>, place: &Place) -> Result<()> {
    for (keyword, value) in map {
        let keyword = keyword.as_str();
        if REFUSED.contains(&keyword) && constrains(keyword, map) {
            return Err(unsupported(keyword, &place.path, "which is not supported"));
        }
        if keyword == "$schema" {
            let dialect = string(value, keyword, &place.path)?;
            if OLD_DIALECTS.iter().any(|draft| dialect.contains(&format!("//json-schema.org/{draft}/"))) {
                return Err(unsupported(keyword, &place.path, "which is older than draft 04"));
            }
        }
    }
    if place.path != "#" {
        references::check_base(map, &place.path)?;
    }
    Ok(())
}

/// Whether the schema's parts are intersected with each other.
fn intersects(map: &Map<String, Value>) -> bool {
    let combining = COMBINING.iter().filter(|key| map.contains_key(**key)).count();
    let others = map.keys().filter(|key| constrains(key, map) && key.as_str() != "type").count() - combining;
    map.contains_key("allOf") || (combining > 0 && combining + others > 1)
}

fn check_types(types: &Value, path: &str) -> Result<()> {
    const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let is_name = |value: &Value| value.as_str().is_some_and(|name| NAMES.contains(&name));
    let is_valid = match types {
        Value::Array(list) => !list.is_empty() && list.iter().all(is_name),
        _ => is_name(types),
    };
    is_valid.then_some(()).ok_or_else(|| malformed("type", path, "a type or a list of types"))
}

/// Draft 04 has flags that make a bound exclusive; later drafts have bounds of their own.
fn bounds(map: &Map<String, Value>, path: &str, out: &mut Map<String, Value>) -> Result<()> {
    for (inclusive, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let is_flagged = map.get(exclusive) == Some(&Value::Bool(true));
        if let Some(value) = map.get(inclusive) {
            number(value, inclusive, path)?;
            out.insert(if is_flagged { exclusive } else { inclusive }.into(), value.clone());
        }
        if let Some(value) = map.get(exclusive).filter(|value| !value.is_boolean()) {
            number(value, exclusive, path)?;
            out.insert(exclusive.into(), value.clone());
        }
    }
    Ok(())
}

/// Multiples of an integer are integers, so that "number" becomes "integer".
fn multiple_of(divisor: &Value, path: &str, out: &mut Map<String, Value>) -> Result<()> {
    let value = number(divisor, "multipleOf", path)?;
    if value.fract() != 0.0 || value < 1.0 || value > MAX_MULTIPLE_OF as f64 {
        return Err(unsupported("multipleOf", path, &format!("which is no integer from 1 to {MAX_MULTIPLE_OF}")));
    }
    let integer = |types: &Value| match types.as_str() {
        Some("number") => json!("integer"),
        _ => types.clone(),
    };
    let types = match out.get("type") {
        None => return Err(unsupported("multipleOf", path, "without a type")),
        Some(Value::Array(list)) => list.iter().map(integer).collect(),
        Some(one) => integer(one),
    };
    out.insert("type".into(), types);
    out.insert("multipleOf".into(), (value as u64).into());
    Ok(())
}
