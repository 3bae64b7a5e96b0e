// SPDX-License-Identifier: Apache-2.0
//! Grammars that clients use, each with a long text of its language: the bound on ambiguity leaves them room on a machine
//! of any speed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::grammar_model::{self, has, model_with_clock, Model, PLAIN, WORDS};
use dunlin_text::grammar::GrammarSource;
use dunlin_text::limits::SLOW_TOKEN_WORK;

/// Bytes of each text: some 2,000 to 6,000 tokens.
const TEXT_BYTES: usize = 6000;

/// Of a machine on which everything takes an hour.
fn slowest_clock() -> Duration {
    static HOURS: AtomicU64 = AtomicU64::new(0);
    Duration::from_secs(3600 * HOURS.fetch_add(1, Ordering::Relaxed))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Tokens of the text, and the most work that one of them took. Errors: where it ends before the text does.
fn walk(model: &Model, grammar: &str, text: &str) -> Result<(usize, u64), String> {
    let compiled = model.compiler.compile(&GrammarSource::Grammar(grammar)).map_err(|error| error.message)?;
    let mut state = compiled.start();
    let ids = model.tokenizer.encode(text, PLAIN).unwrap();
    let mut most = 0;
    for (at, id) in ids.iter().enumerate() {
        let mut mask = vec![0; WORDS];
        state.fill_mask(&mut mask).map_err(|error| format!("token {at}: {error}"))?;
        most = most.max(state.token_work());
        if !has(&mask, *id) {
            return Err(format!(
                "no token {at} after {:?}",
                model.tokenizer.decode(&ids[at.saturating_sub(9)..at], false)
            ));
        }
        state.accept(*id).map_err(|error| format!("token {at}: {error}"))?;
    }
    Ok((ids.len(), most))
}

#[test]
fn grammars_that_clients_use_go_on() {
    let model = model_with_clock(slowest_clock);
    let entries = std::fs::read_dir("tests/honest_grammars").unwrap();
    let mut grammars: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    grammars.retain(|path| path.extension().is_some_and(|kind| kind == "lark" || kind == "gbnf"));
    grammars.sort();
    assert!(grammars.len() >= 13);
    for path in grammars {
        let text = read(&path.with_extension("txt"));
        let (tokens, most) = walk(&model, &read(&path), &text.repeat(TEXT_BYTES.div_ceil(text.len())))
            .unwrap_or_else(|problem| panic!("{path:?}: {problem}"));
        println!("{path:?}: {tokens} tokens, at most {most} units of work for one");
        assert!(most < SLOW_TOKEN_WORK / 20, "{path:?}: {most}");
    }
}

/// A row of many alternatives is work that is counted as if it were ambiguous, but quick.
#[test]
fn large_grammars_go_on() {
    let model = grammar_model::model();
    let words = |count: usize| (0..count).map(|n| format!("\"word{n} \"")).collect::<Vec<_>>().join(" | ");
    let calls = (0..900).map(|n| format!("f{n}")).collect::<Vec<_>>().join(" | ");
    let functions: String = (0..900).map(|n| format!("f{n}: \"do_{n}(\" arguments? \")\"\n")).collect();
    let list = "NUMBER: /[0-9]+/";
    let grammars = [
        (format!("start: w+\nw: {}", words(1990)), "word777 word12 ".repeat(300)),
        (format!("start: (w \";\")+\nw: w w | {}", words(400)), "word77 word12 word1 word398 ;".repeat(100)),
        (
            format!("start: (call \"\\n\")+\ncall: {calls}\n{functions}arguments: value (\", \" value)*\nvalue: call | /[0-9]+/"),
            "do_17(1, do_899(2, 3), do_4(do_5(do_6())), 7)\n".repeat(60),
        ),
        (format!("start: e\ne: e \"+\" e | NUMBER\n{list}"), "12+".repeat(99) + "1"),
        (format!("start: l\nl: NUMBER \", \" l | NUMBER\n{list}"), "12, ".repeat(700) + "1"),
        (format!("start: l\nl: l \", \" NUMBER | NUMBER\n{list}"), "12, ".repeat(1000) + "1"),
    ];
    for (grammar, text) in grammars {
        let outcome = walk(&model, &grammar, &text);
        println!("{:.60}: {outcome:?}", grammar);
        assert!(outcome.is_ok(), "{:.60}: {outcome:?}", grammar);
    }
}
