// SPDX-License-Identifier: Apache-2.0
//! Work that a stranger's text can make unbounded, as requests and replies in bytes, so that it can be done in a process
//! that is killed when it takes too long or too much: [`Worker`] is that process's side, the functions are the server's.
//! Who carries the bytes, and the limits, are C++'s (server/text_worker).

mod grammars;
pub(crate) mod wire;

use std::collections::BTreeMap;

use crate::chat::{Context, LocalTime, Templates};
use crate::error::{Code, Error, Result};
use crate::grammar::{CompiledGrammar, GrammarCompiler};
use wire::{broken, Reader, Writer};

pub use grammars::{check_reply, compilation_of, setup_of};

const LOAD_TEMPLATES: u8 = 1;
const RUN_TEMPLATE: u8 = 2;
const LOAD_VOCABULARY: u8 = 3;
const COMPILE_GRAMMAR: u8 = 4;

/// A worker in another process, or a stand-in for one.
pub trait Apart: Send + Sync {
    /// The reply to a request. `prepares`: every worker must have had it before others. Errors: RESOURCE_EXHAUSTED and
    /// others of whoever carries it.
    fn call(&self, request: &[u8], prepares: bool) -> Result<Vec<u8>>;
}

/// The other side. One thread at a time.
#[derive(Default)]
pub struct Worker {
    templates: Option<Templates>,
    compiler: Option<GrammarCompiler>,
    /// The last one: what it takes can be seen before the next request.
    grammar: Option<CompiledGrammar>,
}

impl Worker {
    /// The reply to a request. Errors are in it.
    pub fn handle(&mut self, request: &[u8]) -> Vec<u8> {
        reply_of(self.answer(&mut Reader(request)))
    }

    /// Frees what the last request has left.
    pub fn clear(&mut self) {
        self.grammar = None;
    }

    fn answer(&mut self, request: &mut Reader) -> Result<Vec<u8>> {
        match request.byte()? {
            LOAD_TEMPLATES => {
                self.templates = Some(Templates::normalized(read_texts(request)?)?);
                Ok(vec![])
            }
            RUN_TEMPLATE => {
                let templates = self.templates.as_ref().ok_or_else(broken)?;
                let name = request.text()?;
                Ok(templates.run(name, read_context(request)?)?.into_bytes())
            }
            LOAD_VOCABULARY => {
                self.compiler = Some(grammars::read_compiler(request)?);
                Ok(vec![])
            }
            COMPILE_GRAMMAR => {
                let compiler = self.compiler.as_ref().ok_or_else(broken)?;
                let source = grammars::read_source(request)?;
                self.grammar = Some(compiler.compile(&source.view())?);
                Ok(vec![])
            }
            _ => Err(broken()),
        }
    }
}

pub(crate) fn load_templates(apart: &dyn Apart, texts: &BTreeMap<String, String>) -> Result<()> {
    let mut request = Writer::default();
    request.byte(LOAD_TEMPLATES);
    request.number(texts.len() as u64);
    for (name, text) in texts {
        request.bytes(name.as_bytes());
        request.bytes(text.as_bytes());
    }
    result_of(&apart.call(&request.0, true)?).map(drop)
}

pub(crate) fn run_template(apart: &dyn Apart, name: &str, context: &Context) -> Result<String> {
    let mut request = Writer::default();
    request.byte(RUN_TEMPLATE);
    request.bytes(name.as_bytes());
    request.bytes(context.mark.as_bytes());
    request.number(context.now.unix_seconds as u64);
    request.number(context.now.utc_offset_seconds as u64);
    request.fields(&context.variables);
    String::from_utf8(result_of(&apart.call(&request.0, false)?)?).map_err(|_| broken())
}

fn read_texts(request: &mut Reader) -> Result<BTreeMap<String, String>> {
    let count = request.number()?;
    (0..count).map(|_| Ok((request.text()?.to_owned(), request.text()?.to_owned()))).collect()
}

fn read_context(request: &mut Reader) -> Result<Context> {
    let mark = request.text()?.to_owned();
    let now = LocalTime { unix_seconds: request.number()? as i64, utc_offset_seconds: request.number()? as i64 };
    Ok(Context { mark, now, variables: request.fields()? })
}

/// 0 and what was made, or an error's code, its part and its message.
fn reply_of(result: Result<Vec<u8>>) -> Vec<u8> {
    let mut reply = Writer::default();
    match result {
        Ok(made) => {
            reply.byte(0);
            reply.bytes(&made);
        }
        Err(error) => {
            reply.byte(error.code as u8);
            reply.number(error.part.map_or(u64::MAX, |part| part as u64));
            reply.bytes(error.message.as_bytes());
        }
    }
    reply.0
}

fn result_of(reply: &[u8]) -> Result<Vec<u8>> {
    let mut reply = Reader(reply);
    let code = match reply.byte()? {
        0 => return reply.bytes().map(<[u8]>::to_vec),
        code => Code::of_number(code).ok_or_else(broken)?,
    };
    let part = reply.number()?;
    let message = String::from_utf8_lossy(reply.bytes()?).into_owned();
    Err(Error { code, message, part: usize::try_from(part).ok().filter(|_| part != u64::MAX) })
}
