// SPDX-License-Identifier: Apache-2.0
//! What Jinja2 draws at random. The draw follows from the time of the request, so that a chat that is rendered twice in
//! one call is the same.

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Error, State};

use super::arguments::{bind_split, charge, flag, size};

/// The variable that tells the time to `random` and `lipsum`. No template can name it.
pub(super) const TIME: &str = "(time)";

/// Multiplier and increment of Knuth's MMIX generator.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

fn seed(state: &State) -> u64 {
    let time = state.lookup(TIME).and_then(|value| i64::try_from(value).ok());
    time.unwrap_or(0) as u64
}

/// `random(seq)`: one of its items.
pub(super) fn random(state: &State, value: &Value) -> Result<Value, Error> {
    let items: Vec<Value> = match value.as_str() {
        Some(text) => text.chars().map(Value::from).collect(),
        None => value.try_iter()?.collect(),
    };
    charge(state, items.len())?;
    if items.is_empty() {
        return Ok(Value::UNDEFINED);
    }
    Ok(items[next(&mut seed(state)) % items.len()].clone())
}

const WORDS: [&str; 24] = [
    "lorem", "ipsum", "dolor", "sit", "amet", "magna", "lacus", "felis", "nulla", "porta", "risus", "vitae", "tellus",
    "mauris", "congue", "sapien", "libero", "turpis", "aliquam", "quisque", "posuere", "gravida", "vivamus", "eget",
];
const MAX_PARAGRAPHS: usize = 1000;

/// `lipsum(n=5, html=True, min=20, max=100)`: paragraphs of min to max - 1 words.
pub(super) fn lipsum(state: &State, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let [count, html, least, most] = bind_split(["n", "html", "min", "max"], &args, &named)?;
    let (count, least, most) = (size(&count, 5)?.min(MAX_PARAGRAPHS), size(&least, 20)?, size(&most, 100)?);
    charge(state, count.saturating_mul(8 * least.max(most)))?;
    let mut seed = seed(state);
    let mut paragraph = || {
        let words = least + next(&mut seed) % most.saturating_sub(least).max(1);
        let text: Vec<&str> = (0..words).map(|_| WORDS[next(&mut seed) % WORDS.len()]).collect();
        let mut text = text.join(" ") + ".";
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        text
    };
    let paragraphs: Vec<String> = (0..count).map(|_| paragraph()).collect();
    Ok(match flag(&html, true) {
        true => Value::from_safe_string(
            paragraphs.iter().map(|text| format!("<p>{text}</p>")).collect::<Vec<_>>().join("\n"),
        ),
        false => Value::from(paragraphs.join("\n\n")),
    })
}
