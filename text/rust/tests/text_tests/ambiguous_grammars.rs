// SPDX-License-Identifier: Apache-2.0
//! What a client's grammar may cost when it is ambiguous, counted in work and by clocks of the tests, and that a neighbour's
//! output goes on meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::grammar_model::{has, model, model_with_clock, Model, PLAIN, WORDS};
use dunlin_text::grammar::{GrammarSource, GrammarState};
use dunlin_text::limits::{MAX_SLOW_TIME, SLOW_TOKEN_TIME, SLOW_TOKEN_WORK};
use dunlin_text::Code;
use serde_json::json;

const ATTACKS: [(&str, &str); 6] = [
    ("start: x+\nx: x x | y?\ny: \"a\"? \"b\"? \"a\"? x?", "ab"),
    ("start: x\nx: x x | \"a\" | \"b\"", "ab"),
    ("start: x\nx: x x x | x x | /[ab]/", "ab"),
    ("start: e\ne: e \"+\" e | /[ab]/", "a+"),
    ("start: p\np: q | \"c\"\nq: p r\nr: t+\nt: p", "c"),
    ("root ::= x+\nx ::= x x | [ab] x? x?", "ab"),
];

/// Every reading is a slow token and more.
fn slow_clock() -> Duration {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    2 * SLOW_TOKEN_TIME * READINGS.fetch_add(1, Ordering::Relaxed) as u32
}

fn no_time() -> Duration {
    Duration::ZERO
}

/// One token. Errors: the message of the bound.
fn step(state: &mut GrammarState, id: u32) -> Result<(), String> {
    let mut mask = vec![0; WORDS];
    let outcome = state.fill_mask(&mut mask).and_then(|()| {
        assert!(has(&mask, id), "{id}");
        state.accept(id)
    });
    outcome.map_err(|error| {
        assert_eq!(error.code, Code::ResourceExhausted);
        assert!(state.accept(id).is_err());
        error.message
    })
}

fn start(model: &Model, source: &GrammarSource) -> GrammarState {
    model.compiler.compile(source).unwrap().start()
}

#[test]
fn an_ambiguous_output_ends_with_the_bound_that_it_met() {
    let model = model();
    for (grammar, text) in ATTACKS {
        let mut state = start(&model, &GrammarSource::Grammar(grammar));
        let ids = model.tokenizer.encode(&text.repeat(1500), PLAIN).unwrap();
        let (tokens, problem) = ids
            .iter()
            .enumerate()
            .find_map(|(at, id)| step(&mut state, *id).err().map(|problem| (at, problem)))
            .unwrap_or_else(|| panic!("{grammar:?} goes on"));
        println!("{grammar:?}: {tokens} tokens, {problem}");
        assert!(problem.starts_with("the grammar is too ambiguous"), "{grammar}: {problem}");
        assert!(problem.contains(&format!("limit is {} ms", MAX_SLOW_TIME.as_millis())), "{grammar}: {problem}");
    }
}

/// The neighbour has a token after each of the attacker's. What it waits for is counted, not timed.
#[test]
fn a_neighbour_keeps_its_pace() {
    let model = model_with_clock(slow_clock);
    let schema = json!({"type": "array", "items": {"type": "object"}}).to_string();
    let text = format!("[{}{{}}]", "{\"a\": [1, 2, \"three\"]}, ".repeat(60));
    let ids = model.tokenizer.encode(&text, PLAIN).unwrap();
    for (grammar, letters) in ATTACKS {
        let mut attacker = Some(start(&model, &GrammarSource::Grammar(grammar)));
        let mut neighbour = start(&model, &GrammarSource::JsonSchema(&schema));
        let (mut slow, mut most, mut tokens) = (0, 0, 0);
        let attack = model.tokenizer.encode(&letters.repeat(9 * ids.len()), PLAIN).unwrap();
        for (id, letter) in ids.iter().zip(&attack) {
            if let Some(state) = &mut attacker {
                let outcome = step(state, *letter);
                most = most.max(state.token_work());
                slow += u64::from(state.token_work() > SLOW_TOKEN_WORK);
                tokens += 1;
                if outcome.is_err() {
                    attacker = None;
                }
            }
            step(&mut neighbour, *id).unwrap();
        }
        println!("{grammar:?}: ended at {tokens}, {slow} slow tokens, the slowest {most}");
        assert!(neighbour.is_accepting() && attacker.is_none(), "{grammar}");
        // Each slow token is 2 readings, of which each is worth 2 of them.
        assert!(
            slow <= (MAX_SLOW_TIME.as_millis() / (4 * SLOW_TOKEN_TIME).as_millis()) as u64 + 1,
            "{grammar}: {slow}"
        );
        assert!(most < 4 * SLOW_TOKEN_WORK, "{grammar}: {most}");
    }
}

#[test]
fn what_takes_no_time_goes_on() {
    let model = model_with_clock(no_time);
    let mut state = start(&model, &GrammarSource::Grammar(ATTACKS[1].0));
    let ids = model.tokenizer.encode(&"ab".repeat(300), PLAIN).unwrap();
    for id in ids {
        step(&mut state, id).unwrap();
        if state.token_work() > 2 * SLOW_TOKEN_WORK {
            return;
        }
    }
    panic!("never beyond the bound");
}
