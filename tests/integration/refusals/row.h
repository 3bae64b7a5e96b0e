// SPDX-License-Identifier: Apache-2.0
// The table of refusals: what is sent, and the exact answer. Each file *_rows.cc holds the rows of some groups; the
// runner (refusals_test.cc) plays every row against a `dunlin serve` of its own. Plain data; one thread.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dunlin::integration {

// What the client of a call does, one after another; what is left of the answer is read at the end.
enum class Step : uint8_t {
  kSend,       // the message
  kHalfClose,  // no further message will come
  kRead,       // one message of the answer
  kReadAll,    // the rest of the answer
  kCancel,
  kAwaitRunning,      // until a sequence of kSlowModel runs
  kAwaitIdle,         // until none runs
  kAwaitWaiting,      // until one waits
  kAwaitNoneWaiting,  // until none waits
};

// A call on a connection of its own, in the bytes of the wire.
struct Sent {
  std::string method;  // "/dunlin.v1.GenerationService/Generate"
  std::string message;
  std::vector<std::pair<std::string, std::string>> metadata = {};
  std::optional<std::chrono::nanoseconds> deadline = std::nullopt;  // from now on; none: 60 s
  bool compressed = false;                                          // gzip
  std::vector<Step> steps = {Step::kSend, Step::kHalfClose};
  // Models that each have a generation without end in progress meanwhile, one for each entry.
  std::vector<const char*> held = {};
};

struct Answer {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;          // the whole of it; a '~' stands for digits
  std::string reason;           // of google.rpc.ErrorInfo; "": gRPC's own status, without details
  std::string field = {};       // of google.rpc.BadRequest; "": none
  std::string config_key = {};  // of google.rpc.QuotaFailure, with RetryInfo and a pushback; "": none
  std::string resource = {};    // of google.rpc.ResourceInfo; "": none
  int num_preconditions = 0;    // of google.rpc.PreconditionFailure
  bool retry_info = false;      // RetryInfo and a pushback, though there is no config_key
};

struct CallRow {
  const char* name;
  Sent sent;
  Answer answer;
};

enum class Port : uint8_t { kGrpc, kHttp };

// Bytes on a connection of their own. The outcome is the first of these that the server does within 10 s: "status 12:
// MESSAGE" (of a gRPC call), "HTTP/1.1 400 Bad Request" (an HTTP answer), "closed"; else "open". A '|' separates
// outcomes that are equally right, a '~' stands for digits.
struct ConnectionRow {
  const char* name;
  Port port;
  std::string bytes;
  std::string outcome;
};

struct Group {
  const char* name;
  const char* config;  // a file of this folder
  std::vector<CallRow> calls;
  std::vector<ConnectionRow> connections = {};
  bool fills_the_server = false;  // others may be refused meanwhile
};

// Every group, those of one config together.
const std::vector<Group>& Groups();

// Model of narrow.json without a tokenizer that generates until it is told to stop, one sequence at a time.
inline constexpr char kSlowModel[] = "slow";

}  // namespace dunlin::integration
