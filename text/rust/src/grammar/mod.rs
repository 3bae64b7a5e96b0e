// SPDX-License-Identifier: Apache-2.0
//! Structured output: compiles a JSON Schema, a regular expression, a choice or a grammar into masks over a model's
//! tokens, by llguidance. What llguidance ignores or enforces in part is refused, or rewritten into what it enforces.

mod formats;
mod gbnf;
mod lark;
mod long_strings;
mod objects;
mod pattern;
mod productive;
mod references;
mod schema;
mod state;
mod string_blocks;
mod totals;
mod values;
mod vocabulary;
mod work;

use std::sync::Arc;

use llguidance::api::{GrammarInit, GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{JsonCompileOptions, Logger, ParserFactory, TokenParser};
use serde_json::{json, Value};

use state::Growth;
pub use state::{CompiledGrammar, GrammarState};
pub(crate) use vocabulary::words_of;
pub use work::Clock;

use totals::Totals;
use work::Work;

use crate::abi::clock::thread_time;
use crate::error::{Code, Error, Result};
use crate::limits::*;
use crate::TextTokenizer;

/// What a client asks for.
pub enum GrammarSource<'a> {
    /// A JSON Schema, as JSON.
    JsonSchema(&'a str),
    /// Any JSON object.
    JsonObject,
    /// A regular expression of the whole text.
    Regex(&'a str),
    /// Texts, one of which is the output.
    Choice(Vec<&'a str>),
    /// Lark or GBNF.
    Grammar(&'a str),
    /// Lark of the server's own, of what those who asked gave: `@part_N` stands for part N, which is not composed.
    Composed(&'a str, Vec<GrammarSource<'a>>),
}

impl GrammarSource<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::JsonSchema(text) | Self::Regex(text) | Self::Grammar(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(|text| text.len()).sum(),
            Self::JsonObject => 0,
            Self::Composed(text, parts) => text.len() + parts.iter().map(Self::bytes).sum::<usize>(),
        }
    }

    /// Rules of a client's own.
    fn has_rules(&self) -> bool {
        match self {
            Self::Grammar(_) => true,
            Self::Composed(_, parts) => parts.iter().any(Self::has_rules),
            _ => false,
        }
    }
}

/// Compiles grammars for one tokenizer. Immutable; any thread.
pub struct GrammarCompiler {
    factory: ParserFactory,
    growth: Growth,
    clock: Clock,
    eos_ids: Arc<[u32]>,
    width: u32,
}

impl GrammarCompiler {
    /// `eos_ids`: end a text. `width`: of the model's logits. Errors: FAILED_PRECONDITION (the tokens' bytes are not
    /// known), INVALID_ARGUMENT.
    pub fn new(tokenizer: &TextTokenizer, eos_ids: &[u32], width: u32) -> Result<Self> {
        check_ids(eos_ids, width)?;
        Self::of_words(&words_of(tokenizer, width)?, eos_ids, width)
    }

    /// As `new`, of the bytes of `width` ids, as [`words_of`] has them.
    pub fn of_words(words: &[Vec<u8>], eos_ids: &[u32], width: u32) -> Result<Self> {
        check_ids(eos_ids, width)?;
        let env = vocabulary::token_env(words, width);
        let mut factory =
            ParserFactory::new(&env, InferenceCapabilities::default(), &SlicedBiasComputer::json_slices())
                .map_err(|error| Error::new(Code::Internal, format!("the token trie: {}", first_line(&error))))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_items_in_row: GRAMMAR_ROW_ITEMS,
            initial_lexer_fuel: GRAMMAR_COMPILE_FUEL,
            step_lexer_fuel: GRAMMAR_STEP_FUEL,
            step_max_items: GRAMMAR_STEP_ITEMS,
            max_lexer_states: MAX_LEXER_STATES,
            max_grammar_size: MAX_GRAMMAR_SYMBOLS,
            precompute_large_lexemes: true,
            verbose_errors: false,
        };
        Ok(Self { factory, growth: Growth::default(), clock: thread_time, eos_ids: eos_ids.into(), width })
    }

    /// What the states of its grammars may grow by together, instead of [`crate::limits::MAX_GRAMMAR_GROWTH`].
    pub fn limit_growth(&self, bytes: usize) {
        self.growth.limit(bytes);
    }

    /// The same with the processor time of another clock: for tests.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Errors: INVALID_ARGUMENT (malformed, or no text matches), UNIMPLEMENTED (what it names), RESOURCE_EXHAUSTED (a
    /// bound). Messages complete the sentence "json_schema ...".
    pub fn compile(&self, source: &GrammarSource) -> Result<CompiledGrammar> {
        // Descends by recursion, whatever stack the caller has.
        std::thread::scope(|scope| {
            let compile = std::thread::Builder::new().name("grammar".into()).stack_size(GRAMMAR_STACK_BYTES);
            let thread = compile.spawn_scoped(scope, || self.compile_here(source));
            let thread = thread.map_err(|_| Error::exhausted("cannot be compiled: no thread could be created"))?;
            thread.join().unwrap_or_else(|_| Err(Error::new(Code::Internal, "the grammar compiler failed")))
        })
    }

    fn compile_here(&self, source: &GrammarSource) -> Result<CompiledGrammar> {
        let mut totals = Totals { in_blocks: true, ..Totals::default() };
        match self.compile_with(source, &mut totals) {
            // What has no text, or is too large, is for llguidance's own compiler of schemas to say.
            Err(_) if totals.has_blocks => self.compile_with(source, &mut Totals::default()),
            outcome => outcome,
        }
    }

    fn compile_with(&self, source: &GrammarSource, totals: &mut Totals) -> Result<CompiledGrammar> {
        let grammars = match source {
            GrammarSource::Composed(lark, parts) => composed(lark, parts, source.bytes(), totals)?,
            _ => vec![single(source, totals)?],
        };
        let grammar = GrammarInit::Serialized(TopLevelGrammar { grammars, max_tokens: None });
        let max_lexer_states = MAX_LEXER_STATES + totals.counting_states();
        let limits = ParserLimits { max_lexer_states, ..self.factory.limits().clone() };
        let (log, capabilities) = (Logger::new(0, 0), InferenceCapabilities::default());
        let parser = self.factory.create_parser_from_init_ext(grammar, log, capabilities, limits).map_err(refusal)?;
        let work = if source.has_rules() { Work::bounded(self.clock) } else { Work::default() };
        let (growth, eos_ids) = (self.growth.clone(), self.eos_ids.clone());
        CompiledGrammar::new(started(parser), growth, work, eos_ids, self.width, source.bytes())
    }
}

fn check_ids(eos_ids: &[u32], width: u32) -> Result<()> {
    if width == 0 || width > MAX_VOCAB_SIZE {
        return Err(Error::invalid(format!("vocab_size is {width}; limit is [1, {MAX_VOCAB_SIZE}]")));
    }
    match eos_ids.iter().find(|id| **id >= width) {
        Some(id) => Err(Error::invalid(format!("eos_token_ids has {id}; limit is [0, {width})"))),
        None => Ok(()),
    }
}

fn single(source: &GrammarSource, totals: &mut Totals) -> Result<GrammarWithLexer> {
    Ok(match source {
        GrammarSource::JsonSchema(text) => {
            let schema = schema::normalized(&values::parse(text)?, totals)?;
            match long_strings::to_lark(&schema, with_options).filter(|_| totals.in_blocks) {
                Some(lark) => {
                    totals.has_blocks = true;
                    GrammarWithLexer::from_lark(lark)
                }
                None => GrammarWithLexer::from_json_schema(with_options(schema)),
            }
        }
        GrammarSource::JsonObject => GrammarWithLexer::from_json_schema(with_options(json!({"type": "object"}))),
        GrammarSource::Regex(regex) => {
            totals.has_expressions = true;
            pattern::check(regex)?;
            GrammarWithLexer::from_regex(regex)
        }
        GrammarSource::Choice(texts) => GrammarWithLexer::from_regex(&choice(texts)?),
        GrammarSource::Grammar(text) => {
            totals.has_expressions = true;
            check_bytes(text)?;
            let lark = if gbnf::is_gbnf(text) { gbnf::to_lark(text)? } else { (*text).to_string() };
            lark::check(&lark)?;
            GrammarWithLexer::from_lark(lark)
        }
        GrammarSource::Composed(..) => return Err(Error::invalid("has a part that is composed")),
    })
}

/// The whole comes first. Each part is checked as if it were alone; what they share is bounded for all of them.
fn composed(lark: &str, parts: &[GrammarSource], bytes: usize, totals: &mut Totals) -> Result<Vec<GrammarWithLexer>> {
    if bytes > MAX_COMPOSED_BYTES {
        return Err(Error::exhausted(format!("becomes a grammar of {bytes} bytes; limit is {MAX_COMPOSED_BYTES}")));
    }
    lark::check_bounds(lark)?;
    let mut grammars = vec![GrammarWithLexer::from_lark(lark.to_string())];
    for (at, part) in parts.iter().enumerate() {
        let mut grammar = single(part, totals).map_err(|error| Error { part: Some(at), ..error })?;
        grammar.name = Some(format!("part_{at}"));
        grammars.push(grammar);
    }
    Ok(grammars)
}

fn started(mut parser: TokenParser) -> TokenParser {
    parser.start_without_prompt();
    parser
}

/// Commas and colons are followed by one space, and there is no other white space: a model cannot emit blanks forever.
fn with_options(mut schema: Value) -> Value {
    let options = JsonCompileOptions {
        item_separator: ", ".into(),
        key_separator: ": ".into(),
        whitespace_flexible: false,
        whitespace_pattern: None,
        coerce_one_of: false,
        lenient: false,
        retriever: None,
    };
    options.apply_to(&mut schema);
    schema
}

fn choice(texts: &[&str]) -> Result<String> {
    if texts.is_empty() || texts.len() > MAX_CHOICES {
        return Err(Error::invalid(format!("has {} entries; limit is [1, {MAX_CHOICES}]", texts.len())));
    }
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    if bytes > MAX_CHOICE_BYTES {
        return Err(Error::invalid(format!("has {bytes} bytes; limit is {MAX_CHOICE_BYTES}")));
    }
    if let Some(at) = texts.iter().position(|text| text.is_empty()) {
        return Err(Error::invalid(format!("[{at}] is empty")));
    }
    let options: Vec<String> = texts.iter().map(|text| text.chars().map(pattern::literal).collect()).collect();
    Ok(options.join("|"))
}

pub(super) fn check_bytes(text: &str) -> Result<()> {
    match text.len() {
        1..=MAX_GRAMMAR_BYTES => Ok(()),
        bytes => Err(Error::invalid(format!("has {bytes} bytes; limit is [1, {MAX_GRAMMAR_BYTES}]"))),
    }
}

/// llguidance's errors are texts.
fn refusal(error: impl std::fmt::Display) -> Error {
    let problem = regex_problem(&error.to_string());
    let text = problem.clone().unwrap_or_else(|| first_line(&error));
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["panic"]) {
        Error::new(Code::Internal, "the grammar compiler failed")
    } else if has(&["too big", "too large", "too complex", "fuel", "too deeply", "determine", "exceed"]) {
        Error::exhausted(format!("is too complex: {}", bound_of(&text)))
    } else if has(&["not supported", "Unimplemented", "only supported", "unsupported", "not disjoint"]) {
        Error::unsupported(text)
    } else {
        Error::invalid(problem.map_or(text, |problem| format!("has a malformed regular expression: {problem}")))
    }
}

/// llguidance names its own options; a client has a schema or a grammar.
fn bound_of(text: &str) -> String {
    if text.contains("symbols") {
        return format!("its repetitions, alternatives and names become more than {MAX_GRAMMAR_SYMBOLS} symbols");
    }
    if ["lexer", "fuel", "DNF"].iter().any(|word| text.contains(word)) {
        return format!("its patterns, lengths and strings take more than {GRAMMAR_COMPILE_FUEL} steps to prepare");
    }
    text.to_string()
}

/// What is wrong with a regular expression: the last line of regex-syntax's errors, which quote the whole of it first.
fn regex_problem(error: &str) -> Option<String> {
    let reason = error.lines().find_map(|line| line.trim().strip_prefix("error: "))?;
    Some(first_line(&reason))
}

/// A line of at most 200 characters, without control characters.
fn first_line(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("is malformed");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// A client's name for a message: escaped, at most 64 characters.
pub(super) fn quoted(name: &str) -> String {
    let head: String = name.chars().take(64).collect();
    format!("\"{}\"", head.escape_debug())
}
