// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/kv_event_payload.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fronts/vllm/message_pack.h"

namespace dunlin::server {
namespace {

using engine::KvEvent;
using engine::KvEventKind;
using Events = std::span<const KvEvent>;

constexpr char kMedium[] = "GPU";
constexpr uint64_t kDataParallelRank = 0;

// Whether one event can name both: removals, or blocks that follow one another.
bool Joins(const KvEvent& first, const KvEvent& second) {
  if (first.kind != second.kind || first.kind == KvEventKind::kCleared) return false;
  if (first.kind == KvEventKind::kRemoved) return true;
  return second.parent == first.block && second.domain == first.domain && second.tokens.size() == first.tokens.size();
}

void WriteHashes(Events events, MessagePack* out) {
  out->Array(events.size());
  for (const KvEvent& event : events) out->Unsigned(event.block);
}

void WriteStored(Events events, MessagePack* out) {
  const KvEvent& first = events.front();
  out->Array(first.domain == 0 ? 7 : 9);
  out->Text("BlockStored");
  WriteHashes(events, out);
  if (first.parent == engine::kNoKvBlock) {
    out->Nil();
  } else {
    out->Unsigned(first.parent);
  }
  out->Array(events.size() * first.tokens.size());
  for (const KvEvent& event : events) {
    for (const engine::TokenId token : event.tokens) out->Unsigned(static_cast<uint64_t>(token));
  }
  out->Unsigned(first.tokens.size());
  out->Nil();  // no LoRA adapter, by id
  out->Text(kMedium);
  if (first.domain == 0) return;
  out->Nil();  // nor by name
  out->Array(events.size());
  const std::string key = absl::StrCat("domain:", absl::Hex(first.domain, absl::kZeroPad16));
  for (size_t i = 0; i < events.size(); ++i) {
    out->Array(1);
    out->Text(key);
  }
}

void WriteEvent(Events events, MessagePack* out) {
  switch (events.front().kind) {
    case KvEventKind::kStored:
      return WriteStored(events, out);
    case KvEventKind::kRemoved:
      out->Array(3);
      out->Text("BlockRemoved");
      WriteHashes(events, out);
      return out->Text(kMedium);
    case KvEventKind::kCleared:
      out->Array(1);
      return out->Text("AllBlocksCleared");
  }
}

}  // namespace

std::string KvEventPayload(const engine::KvEventBatch& batch, double unix_time) {
  std::vector<Events> joined;
  const Events all(batch.events);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    end = begin + 1;
    while (end < all.size() && Joins(all[end - 1], all[end])) ++end;
    joined.push_back(all.subspan(begin, end - begin));
  }
  MessagePack out;
  out.Array(3);
  out.Float(unix_time);
  out.Array(joined.size());
  for (const Events events : joined) WriteEvent(events, &out);
  out.Unsigned(kDataParallelRank);
  return out.Take();
}

}  // namespace dunlin::server
