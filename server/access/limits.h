// SPDX-License-Identifier: Apache-2.0
// Limits on what clients may use, all from config keys under `limits.*`. Set at startup, constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::server {

struct Limits {
  int32_t max_concurrent_requests = 512;                  // accepted but not yet finished, over all models
  int64_t max_queued_bytes = int64_t{64} << 20;           // of request messages accepted but not yet tokenised
  int64_t max_output_bytes = int64_t{256} << 20;          // of the buffers for the outputs of requests in progress
  int32_t max_streams_per_connection = 100;               // HTTP/2 SETTINGS_MAX_CONCURRENT_STREAMS
  int64_t max_message_bytes = int64_t{4} << 20;           // one message, in either direction
  int64_t max_http_body_bytes = int64_t{4} << 20;         // of one HTTP request
  int32_t max_metadata_bytes = 8192;                      // of one call; the soft limit
  int32_t max_connections = 4096;                         // of the gRPC port
  int32_t max_connections_per_address = 1024;             // of the gRPC port, from one client address
  int64_t max_message_memory_bytes = int64_t{512} << 20;  // of all connections together, as gRPC counts it
  int32_t max_connection_age_ms = 0;                      // then a connection takes no further call; 0: unlimited
  int32_t max_connection_age_grace_ms = 600000;           // for the calls that it has then
  int32_t handshake_timeout_ms = 10000;                   // for a new gRPC connection to become one
  int32_t max_abandoned_calls_per_second = 200;           // of one connection; more of an address and of the port
  int32_t max_ping_strikes = 100;                   // pings more often than every 5 s before a connection is closed
  int64_t max_tokenising_bytes = int64_t{1} << 20;  // of texts without a place to cut them, at once
  int64_t max_value_bytes = int64_t{128} << 20;     // of JSON bodies while they are parsed; no key: the memory plan's
  int32_t slow_reader_timeout_ms = 30000;           // a write that a client does not read ends its call after this
  int32_t max_unsent_tokens = 1024;                 // tokens a client may lag behind before its stream is ended
  int32_t busy_message_interval_ms = 50;            // minimum between messages of a stream under overload; 0: none
  int32_t max_embedding_inputs = 256;               // of one embedding call
  int32_t default_max_tokens = 0;                   // if the request sets none; 0: what the context leaves
  int32_t retry_after_ms = 1000;                    // sent as RetryInfo when a queue is full
  int32_t keepalive_time_ms = 30000;                // server pings an idle connection
  int32_t keepalive_timeout_ms = 10000;
};

// What a model's text work may take: processes for strangers' texts, and what they leave in the server. No keys: the
// memory plan sets them (models/request_memory.h).
struct TextWorkLimits {
  int chat_workers = 4;                            // at once; further chats wait
  size_t chat_worker_bytes = size_t{128} << 20;    // of each, beyond what it has once it is prepared
  size_t grammar_worker_bytes = size_t{64} << 20;  // the same of the one for grammars, its stack apart
  size_t grammar_cache_bytes = size_t{64} << 20;   // of grammars that are kept
  size_t grammar_growth_bytes = size_t{64} << 20;  // of states together, beyond kGrammarStateGrowth of each
};

}  // namespace dunlin::server
