// SPDX-License-Identifier: Apache-2.0
#include "server/models/request_memory.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
// Of a message that waits: its bytes, and the texts that were parsed from them.
constexpr size_t kBytesPerBodyByte = 2;
// Of a text that cannot be cut, as it is tokenised (text_budget.h).
constexpr size_t kBytesPerTextByte = 120;
// A worker before its first request, its binary's own pages and the vocabulary that it knows: 5 to 10 MB.
constexpr size_t kWorkerBytes = 8 * kMiB;
constexpr size_t kLeastWorkers = 2;  // of a model: for chats and for grammars

// One bound: what it needs at least, and what is of use.
struct Line {
  size_t least = 0;
  size_t most = 0;
};
Line Between(size_t least, size_t most) {
  return {std::min(least, most), most};
}

enum Kind : size_t {
  kBodies,
  kMessages,
  kOutputs,
  kValues,
  kTokenising,
  kGrammarCache,
  kGrammarWorker,
  kChats,
  kKinds
};
using Lines = std::array<Line, kKinds>;

// The last three are of one model.
Lines LinesOf(const Limits& limits) {
  const TextWorkLimits most;
  Lines lines;
  lines[kBodies] = Between(16 * kMiB, kBytesPerBodyByte * static_cast<size_t>(limits.max_queued_bytes));
  lines[kMessages] = Between(16 * kMiB, static_cast<size_t>(limits.max_message_memory_bytes));
  lines[kOutputs] = Between(16 * kMiB, static_cast<size_t>(limits.max_output_bytes));
  lines[kValues] = Between(24 * kMiB, static_cast<size_t>(limits.max_value_bytes));
  lines[kTokenising] = Between(8 * kMiB, kBytesPerTextByte * static_cast<size_t>(limits.max_tokenising_bytes));
  lines[kGrammarCache] = {8 * kMiB, most.grammar_cache_bytes + most.grammar_growth_bytes};
  lines[kGrammarWorker] = {24 * kMiB, most.grammar_worker_bytes};
  lines[kChats] = {24 * kMiB, static_cast<size_t>(most.chat_workers) * (most.chat_worker_bytes + kWorkerBytes)};
  return lines;
}

}  // namespace

absl::StatusOr<RequestMemory> PlanRequestMemory(const Config& config, size_t limit_bytes) {
  const Lines lines = LinesOf(config.limits);
  const size_t models = std::max<size_t>(config.models.size(), 1);
  const auto times = [models](size_t kind) { return kind >= kGrammarCache ? models : 1; };
  size_t least = models * kLeastWorkers * kWorkerBytes;
  size_t spread = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    least += times(kind) * lines[kind].least;
    spread += times(kind) * (lines[kind].most - lines[kind].least);
  }
  const bool is_auto = config.memory.request_bytes == kAutoBytes;
  if (!is_auto && config.memory.request_bytes < least) {
    return absl::ResourceExhaustedError(absl::StrCat("memory.request_bytes is ", config.memory.request_bytes,
                                                     ", too little for what requests need at least; minimum is ",
                                                     least));
  }
  const size_t bytes = std::clamp(is_auto ? limit_bytes / 5 : config.memory.request_bytes, least, least + spread);
  const double part = static_cast<double>(bytes - least) / static_cast<double>(std::max<size_t>(spread, 1));
  const auto of = [&](size_t kind) {
    const Line& line = lines[kind];
    return part >= 1 ? line.most : line.least + static_cast<size_t>(part * static_cast<double>(line.most - line.least));
  };
  RequestMemory memory;
  memory.bodies = of(kBodies);
  memory.messages = of(kMessages);
  memory.outputs = of(kOutputs);
  memory.values = of(kValues);
  memory.tokenising = of(kTokenising);
  memory.grammars = models * (of(kGrammarCache) + of(kGrammarWorker) + kWorkerBytes);
  memory.chats = models * (of(kChats) + kWorkerBytes);
  memory.limits = config.limits;
  memory.limits.max_queued_bytes = static_cast<int64_t>(memory.bodies / kBytesPerBodyByte);
  memory.limits.max_message_memory_bytes = static_cast<int64_t>(memory.messages);
  memory.limits.max_output_bytes = static_cast<int64_t>(memory.outputs);
  memory.limits.max_value_bytes = static_cast<int64_t>(memory.values);
  memory.limits.max_tokenising_bytes = static_cast<int64_t>(memory.tokenising / kBytesPerTextByte);
  TextWorkLimits& work = memory.text_work;
  const size_t chat_worker_bytes = work.chat_worker_bytes + kWorkerBytes;
  work.chat_workers = std::clamp(static_cast<int>(of(kChats) / chat_worker_bytes), 1, work.chat_workers);
  work.chat_worker_bytes = std::min(work.chat_worker_bytes, of(kChats) / static_cast<size_t>(work.chat_workers));
  work.grammar_worker_bytes = of(kGrammarWorker);
  work.grammar_cache_bytes = of(kGrammarCache) / 2;
  work.grammar_growth_bytes = of(kGrammarCache) / 2;
  return memory;
}

std::string Describe(const RequestMemory& memory) {
  return absl::StrCat("requests: bodies ", memory.bodies, ", messages ", memory.messages, ", outputs ", memory.outputs,
                      ", values ", memory.values, ", tokenising ", memory.tokenising, ", grammars ", memory.grammars,
                      ", chats ", memory.chats, " (", memory.text_work.chat_workers,
                      " at once of a model): ", memory.total(), " bytes at most");
}

}  // namespace dunlin::server
