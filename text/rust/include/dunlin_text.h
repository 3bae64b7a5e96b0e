// SPDX-License-Identifier: Apache-2.0
// The C ABI of text/rust. Only text/abi.h includes this; everyone else uses tokenizer.h,
// stream_decoder.h, chat_template.h, grammar.h, text_worker.h and images/image.h.
//
// Rules of every function:
//  - A status is 0 or the number of an absl::StatusCode. If it is not 0, the outputs are untouched and `error` (may be
//    null) holds a NUL-terminated message, truncated at a character boundary. No panic and no exception crosses the
//    ABI.
//  - Inputs belong to the caller and are only read during the call; a null pointer with size 0 is an empty input.
//  - A filled dunlin_text_bytes or dunlin_text_ids belongs to the caller, who frees it once with its _free function. A
//    handle belongs to its creator until its _free. Freeing null or an empty buffer is a no-op.
//  - A tokenizer and a chat template may be used by any number of threads at once; a stream by one at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dunlin_text_tokenizer dunlin_text_tokenizer;
typedef struct dunlin_text_stream dunlin_text_stream;

typedef struct {
  uint8_t* data;  // [size]
  size_t size;
  size_t capacity;  // of the allocation; do not change
} dunlin_text_bytes;

typedef struct {
  int32_t* data;  // [size], each in [0, 2^22)
  size_t size;
  size_t capacity;  // of the allocation; do not change
} dunlin_text_ids;

typedef struct {
  char message[512];
} dunlin_text_error;

typedef struct {
  int64_t vocab_size;          // largest id + 1
  int64_t bos_token_id;        // -1: not named
  int64_t eos_token_id;        // -1: not named
  size_t max_bytes_per_token;  // of text that one token can stand for; 0: no bound
} dunlin_text_facts;

// Limits, as compiled into the library.
typedef struct {
  size_t text_bytes;
  size_t token_ids;
  size_t tokenizer_json_bytes;
  int64_t vocab_size;
} dunlin_text_limits;

void dunlin_text_get_limits(dunlin_text_limits* limits);
void dunlin_text_bytes_free(dunlin_text_bytes* bytes);
void dunlin_text_ids_free(dunlin_text_ids* ids);

// --- Tokenizer ----------------------------------------------------------------------------------------------------

// What a tokenizer is made from.
#define DUNLIN_TEXT_TOKENIZER_JSON 0  // the text of a tokenizer.json
#define DUNLIN_TEXT_VOCABULARY 1      // a vocabulary with its rules, in JSON (src/vocabulary)
#define DUNLIN_TEXT_SENTENCEPIECE 2   // a SentencePiece model
#define DUNLIN_TEXT_TIKTOKEN 3        // a tiktoken vocabulary

// Reads one of the forms, and the text of tokenizer_config.json (may be empty). vocab_limit: embedding rows; every id
// but those of added tokens must be below. 0: none. Errors: INVALID_ARGUMENT.
int32_t dunlin_text_tokenizer_load(int32_t form, const uint8_t* text, size_t text_size, const uint8_t* config,
                                   size_t config_size, int64_t vocab_limit, dunlin_text_tokenizer** tokenizer,
                                   dunlin_text_error* error);
void dunlin_text_tokenizer_free(dunlin_text_tokenizer* tokenizer);

void dunlin_text_get_facts(const dunlin_text_tokenizer* tokenizer, dunlin_text_facts* facts);
int32_t dunlin_text_special_ids(const dunlin_text_tokenizer* tokenizer, dunlin_text_ids* ids, dunlin_text_error* error);

// Flags of encode, decode and stream_new.
#define DUNLIN_TEXT_ADD_SPECIAL_TOKENS 1u  // encode: add the special tokens around a text
#define DUNLIN_TEXT_PARSE_SPECIAL 2u       // encode: recognise special tokens in the text
#define DUNLIN_TEXT_SKIP_SPECIAL 4u        // decode: omit special tokens
#define DUNLIN_TEXT_TRUNCATE 8u            // encode: of a longer text, the beginning

// Whether the text has more than max_ids ids, and, if not or with TRUNCATE, the ids. No more of a longer text is read
// than shows this. Errors: INVALID_ARGUMENT (not UTF-8, too long, a character that the vocabulary cannot encode).
int32_t dunlin_text_encode(const dunlin_text_tokenizer* tokenizer, const uint8_t* text, size_t text_size,
                           uint32_t flags, size_t max_ids, dunlin_text_ids* ids, bool* is_longer,
                           dunlin_text_error* error);
// The special tokens before, between and behind the texts of a pair. *middle_first: so many of those between have type
// 0, as all before them, and all behind them 1; -1: all have type 0. Errors: FAILED_PRECONDITION (the tokenizer has no
// such form).
int32_t dunlin_text_pair_frame(const dunlin_text_tokenizer* tokenizer, dunlin_text_ids* prefix, dunlin_text_ids* middle,
                               dunlin_text_ids* suffix, int64_t* middle_first, dunlin_text_error* error);
// Bytes of the largest part of the text that encode reads at once, with up to 120 bytes of memory each.
size_t dunlin_text_widest_piece(const dunlin_text_tokenizer* tokenizer, const uint8_t* text, size_t text_size);
// Errors: INVALID_ARGUMENT (a negative id, too many).
int32_t dunlin_text_decode(const dunlin_text_tokenizer* tokenizer, const int32_t* ids, size_t num_ids, uint32_t flags,
                           dunlin_text_bytes* text, dunlin_text_error* error);

// -1: no such token.
int64_t dunlin_text_token_to_id(const dunlin_text_tokenizer* tokenizer, const uint8_t* token, size_t token_size);
// The token as the vocabulary spells it, and the bytes that it contributes to a text. Errors: OUT_OF_RANGE.
int32_t dunlin_text_token_text(const dunlin_text_tokenizer* tokenizer, int32_t id, dunlin_text_bytes* text,
                               dunlin_text_error* error);
int32_t dunlin_text_token_bytes(const dunlin_text_tokenizer* tokenizer, int32_t id, dunlin_text_bytes* bytes,
                                dunlin_text_error* error);

// --- Stream: ids in, text out -------------------------------------------------------------------------------------

// Shares ownership of the tokenizer. Errors: INVALID_ARGUMENT.
int32_t dunlin_text_stream_new(const dunlin_text_tokenizer* tokenizer, const int32_t* context, size_t num_context,
                               uint32_t flags, dunlin_text_stream** stream, dunlin_text_error* error);
void dunlin_text_stream_free(dunlin_text_stream* stream);
// Errors: INVALID_ARGUMENT (state unchanged), FAILED_PRECONDITION (after finish).
int32_t dunlin_text_stream_push(dunlin_text_stream* stream, const int32_t* ids, size_t num_ids, dunlin_text_bytes* text,
                                dunlin_text_error* error);
int32_t dunlin_text_stream_finish(dunlin_text_stream* stream, dunlin_text_bytes* text, dunlin_text_error* error);

// --- Worker: what no bound holds, in a process of its own ---------------------------------------------------------

typedef struct dunlin_text_worker dunlin_text_worker;
typedef struct dunlin_text_reply dunlin_text_reply;

// Carries a request to a worker and appends its reply. prepares: every worker must have had the request before others.
// Any number of threads at once. Errors: a status, and a message.
typedef struct {
  int32_t (*call)(void* context, const uint8_t* request, size_t request_size, bool prepares, dunlin_text_reply* reply,
                  dunlin_text_error* error);  // null: there is no worker, the work is done in the caller's process
  void* context;                              // outlives whatever was given it
} dunlin_text_apart;

void dunlin_text_reply_append(dunlin_text_reply* reply, const uint8_t* data, size_t size);

// The worker's side. One thread at a time.
int32_t dunlin_text_worker_new(dunlin_text_worker** worker, dunlin_text_error* error);
void dunlin_text_worker_free(dunlin_text_worker* worker);
// The reply to a request, which holds the work's errors too. Errors: INTERNAL.
int32_t dunlin_text_worker_handle(dunlin_text_worker* worker, const uint8_t* request, size_t request_size,
                                  dunlin_text_bytes* reply, dunlin_text_error* error);
// Frees what the last request has left, so that its memory can be seen before: a grammar.
void dunlin_text_worker_clear(dunlin_text_worker* worker);

// --- Chat: messages in, a prompt out ------------------------------------------------------------------------------

typedef struct dunlin_text_chat dunlin_text_chat;

typedef struct {
  const uint8_t* messages;  // JSON: a list of objects
  size_t messages_size;
  const uint8_t* tools;  // JSON: a list of objects; empty: none
  size_t tools_size;
  const uint8_t* options;  // JSON: an object of further variables of the template; empty: none
  size_t options_size;
  int64_t unix_seconds;  // the time for strftime_now
  int64_t utc_offset_seconds;
  uint32_t flags;  // DUNLIN_TEXT_PARSE_SPECIAL: special tokens in the messages too; and the two below
} dunlin_text_chat_request;

#define DUNLIN_TEXT_ADD_GENERATION_PROMPT 8u
#define DUNLIN_TEXT_CONTINUE_FINAL_MESSAGE 16u

// Files of a model directory; one that is absent is empty.
typedef struct {
  const uint8_t* tokenizer_config;  // tokenizer_config.json
  size_t tokenizer_config_size;
  const uint8_t* chat_template;  // chat_template.jinja
  size_t chat_template_size;
  const uint8_t* tool_use;  // additional_chat_templates/tool_use.jinja
  size_t tool_use_size;
  const uint8_t* processor_template;  // chat_template.json
  size_t processor_template_size;
} dunlin_text_chat_files;

// The chat template of the model whose files these are, or `given` if that is not empty. It is compiled and run by
// `apart`. Errors: NOT_FOUND (there is none), INVALID_ARGUMENT (too large, does not compile), those of `apart`.
int32_t dunlin_text_chat_load(const dunlin_text_chat_files* files, const uint8_t* given, size_t given_size,
                              dunlin_text_apart apart, dunlin_text_chat** chat, dunlin_text_error* error);
void dunlin_text_chat_free(dunlin_text_chat* chat);
// The template's text; of several, one after another.
int32_t dunlin_text_chat_source(const dunlin_text_chat* chat, dunlin_text_bytes* text, dunlin_text_error* error);
// breaks: byte offsets in text, ascending, that no special token spans: inside those of the client's strings.
// Any number of threads at once. Errors: INVALID_ARGUMENT (the request, a bound), FAILED_PRECONDITION (what the
// template raises, in its words, which may be the client's).
int32_t dunlin_text_chat_render(const dunlin_text_chat* chat, const dunlin_text_tokenizer* tokenizer,
                                const dunlin_text_chat_request* request, dunlin_text_bytes* text,
                                dunlin_text_ids* breaks, dunlin_text_error* error);
// Ids of a rendered chat. Errors: INVALID_ARGUMENT.
int32_t dunlin_text_chat_encode(const dunlin_text_tokenizer* tokenizer, const uint8_t* text, size_t text_size,
                                const int32_t* breaks, size_t num_breaks, dunlin_text_ids* ids,
                                dunlin_text_error* error);

// --- Grammar: what an output must match ---------------------------------------------------------------------------

typedef struct dunlin_text_grammar_compiler dunlin_text_grammar_compiler;
typedef struct dunlin_text_grammar dunlin_text_grammar;
typedef struct dunlin_text_grammar_state dunlin_text_grammar_state;

typedef struct dunlin_text_grammar_source {
  // 0 JSON Schema, 1 any JSON object, 2 regular expression, 3 choice, 4 Lark or GBNF, 5 composed: Lark that is not
  // checked, in which @part_N stands for parts[N]
  int32_t kind;
  const uint8_t* text;  // UTF-8; of a choice, its texts one behind the other
  size_t text_size;
  const size_t* choice_sizes;  // [num_choices], bytes of each text of a choice
  size_t num_choices;
  const struct dunlin_text_grammar_source* parts;  // [num_parts], of a composed one; none is composed
  size_t num_parts;
} dunlin_text_grammar_source;

// Copies what it needs of the tokenizer. vocab_size: of the masks; ids that the tokenizer lacks are in none. Any number
// of threads at once. Errors: INVALID_ARGUMENT (an id, the size), FAILED_PRECONDITION (the bytes of single tokens are
// unknown).
int32_t dunlin_text_grammar_compiler_new(const dunlin_text_tokenizer* tokenizer, const int32_t* eos_ids,
                                         size_t num_eos_ids, int32_t vocab_size,
                                         dunlin_text_grammar_compiler** compiler, dunlin_text_error* error);
// What the states of its grammars may grow by together; else 64 MiB.
void dunlin_text_grammar_limit_growth(const dunlin_text_grammar_compiler* compiler, size_t bytes);
void dunlin_text_grammar_compiler_free(dunlin_text_grammar_compiler* compiler);
// Runs on a thread of its own, for which the caller waits. Errors: INVALID_ARGUMENT (malformed, or it matches nothing),
// UNIMPLEMENTED (what is not supported, by name), RESOURCE_EXHAUSTED (a bound). Messages complete "json_schema ...".
// *refused_part, unless null: set if the error is one of a part, to its index.
int32_t dunlin_text_grammar_compile(const dunlin_text_grammar_compiler* compiler,
                                    const dunlin_text_grammar_source* source, dunlin_text_grammar** grammar,
                                    int64_t* refused_part, dunlin_text_error* error);
// Requests of a worker: one that it must have first, with arguments as compiler_new's, and one that compiles a source;
// and whether its reply says that it could. Errors as compiler_new's and compile's.
int32_t dunlin_text_grammar_setup(const dunlin_text_tokenizer* tokenizer, const int32_t* eos_ids, size_t num_eos_ids,
                                  int32_t vocab_size, dunlin_text_bytes* request, dunlin_text_error* error);
int32_t dunlin_text_grammar_request(const dunlin_text_grammar_source* source, dunlin_text_bytes* request,
                                    int64_t* refused_part, dunlin_text_error* error);
int32_t dunlin_text_grammar_check_reply(const uint8_t* reply, size_t reply_size, int64_t* refused_part,
                                        dunlin_text_error* error);
// A grammar is immutable and may be used by any number of threads at once.
void dunlin_text_grammar_free(dunlin_text_grammar* grammar);
// Estimate of its memory.
size_t dunlin_text_grammar_bytes(const dunlin_text_grammar* grammar);
// How far one output has come; one thread at a time. It may outlive the grammar and the compiler.
int32_t dunlin_text_grammar_state_new(const dunlin_text_grammar* grammar, dunlin_text_grammar_state** state,
                                      dunlin_text_error* error);
void dunlin_text_grammar_state_free(dunlin_text_grammar_state* state);
// A state of the same text that goes on by itself; it shares memory with the other one, so that both together belong to
// one thread at a time.
int32_t dunlin_text_grammar_state_clone(const dunlin_text_grammar_state* state, dunlin_text_grammar_state** clone,
                                        dunlin_text_error* error);
// Bit id % 32 of word id / 32: the token may come next. Errors: RESOURCE_EXHAUSTED; the state is then unusable.
int32_t dunlin_text_grammar_fill_mask(dunlin_text_grammar_state* state, uint32_t* mask, size_t num_words,
                                      dunlin_text_error* error);
// Errors: INVALID_ARGUMENT (not in the mask), RESOURCE_EXHAUSTED; the state is then unusable.
int32_t dunlin_text_grammar_accept(dunlin_text_grammar_state* state, int32_t token, dunlin_text_error* error);
bool dunlin_text_grammar_is_accepting(const dunlin_text_grammar_state* state);

// --- Image: a picture's file in, pixels out -----------------------------------------------------------------------

typedef struct {
  int32_t width;  // in [1, 65535]
  int32_t height;
} dunlin_text_image_size;

// Of a PNG, JPEG, WebP or GIF file, after its EXIF orientation. Any number of threads at once. max_pixels: width times
// height. Errors: INVALID_ARGUMENT (no such file, cut short, corrupt, a limit).
int32_t dunlin_text_image_read_size(const uint8_t* file, size_t file_size, int64_t max_pixels,
                                    dunlin_text_image_size* size, dunlin_text_error* error);
// The same, and rgb: [height, width, 3]. Of an animation the first frame; what is transparent lies on white.
int32_t dunlin_text_image_decode(const uint8_t* file, size_t file_size, int64_t max_pixels,
                                 dunlin_text_image_size* size, dunlin_text_bytes* rgb, dunlin_text_error* error);

#ifdef __cplusplus
}
#endif
