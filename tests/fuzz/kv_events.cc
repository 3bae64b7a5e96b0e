// SPDX-License-Identifier: Apache-2.0
// The prefix cache and the events that routers follow it by: whoever applies them, from any number on or from a
// snapshot, knows exactly the page sets that requests find.
#include "engine/cache/kv_events.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/cache/prefix_cache.h"
#include "tests/engine/cache/followed_options.h"
#include "tests/fuzz/input_bytes.h"

namespace dunlin::fuzz {
namespace {

using engine::KvEvent;
using engine::KvEventKind;
using engine::PageId;

constexpr int32_t kTokensPerPage = 2;
constexpr int32_t kMaxPages = 12;
constexpr int32_t kMaxBatches = 8;
constexpr size_t kMaxCommands = 512;

struct Block {
  engine::KvBlockId parent;
  uint64_t domain;
  std::vector<engine::TokenId> tokens;
  friend bool operator==(const Block&, const Block&) = default;
};
using Blocks = std::map<engine::KvBlockId, Block>;

void Apply(const KvEvent& event, Blocks* blocks) {
  if (event.kind == KvEventKind::kCleared) blocks->clear();
  if (event.kind == KvEventKind::kRemoved) {
    DUNLIN_FUZZ_CHECK(blocks->erase(event.block) == 1, "a block is removed that was not stored");
  }
  if (event.kind != KvEventKind::kStored) return;
  // One that has gone to another page meanwhile is stored again, as it is.
  const Block block = {event.parent, event.domain, event.tokens};
  const auto [stored, is_new] = blocks->emplace(event.block, block);
  DUNLIN_FUZZ_CHECK(is_new || stored->second.tokens == block.tokens, "a block changes");
  stored->second = block;
}

class Replay {
 public:
  explicit Replay(InputBytes* input)
      : num_pages_(1 + static_cast<int32_t>(input->Below(kMaxPages))),
        groups_(GroupsOf(input->Byte())),
        log_({num_pages_, kTokensPerPage, kMaxBatches, {}}),
        cache_(engine::FollowedOptions(num_pages_, kTokensPerPage, groups_, &log_)) {}

  void Run(InputBytes* input) {
    for (size_t i = 0; i < kMaxCommands && !input->empty(); ++i) {
      Command(input);
      const absl::Status whole = cache_.CheckIntegrity();
      DUNLIN_FUZZ_CHECK(whole.ok(), whole.ToString());
    }
    Step();
  }

 private:
  static engine::KvGroups GroupsOf(uint8_t byte) {
    engine::KvGroups groups{.layers_per_page = 1};
    if (byte % 2 == 1) {
      groups.num_sliding = 1 + byte / 2 % 2;
      groups.window = 2 + byte / 8 % 4;
    }
    return groups;
  }

  void Command(InputBytes* input) {
    switch (input->Below(8)) {
      case 0:
      case 1:
      case 2:
        return Store(input);
      case 3:
        (void)cache_.Forget(Page(input));
        return;
      case 4:
        return cache_.Prove(Page(input));
      case 5:
        return Read(input->Byte());
      case 6:
        if (input->Below(8) == 0) cache_.Clear();
        return;
      default:
        return Step();
    }
  }

  PageId Page(InputBytes* input) { return static_cast<PageId>(input->Below(static_cast<uint32_t>(num_pages_))); }

  // A prefix of up to four page sets over a small alphabet, in any pages. What it overwrites leaves the cache first.
  void Store(InputBytes* input) {
    engine::PrefixChain chain = cache_.Root({}, input->Below(4) == 0 ? "salt" : "");
    for (uint32_t count = 1 + input->Below(4); count > 0; --count) {
      const std::vector<engine::TokenId> tokens(kTokensPerPage, static_cast<engine::TokenId>(input->Below(3)));
      if (cache_.Match(tokens.data(), kTokensPerPage, &chain) != engine::kNoPage) continue;
      std::vector<PageId> pages;
      for (int32_t group = 0; group < groups_.count(); ++group) {
        PageId page = Page(input);
        const bool taken = std::find(pages.begin(), pages.end(), page) != pages.end();
        if (taken && !groups_.slides(group)) return;
        if (taken) page = engine::kNoPage;  // its window has left it
        if (page != engine::kNoPage) (void)cache_.Forget(page);
        pages.push_back(page);
      }
      cache_.Publish(tokens.data(), kTokensPerPage, pages.data(), &chain);
    }
  }

  // The end of an engine step, and the reader that has followed from the beginning.
  void Step() {
    DUNLIN_FUZZ_CHECK(log_.Publish(cache_, ++now_), "nobody reads meanwhile");
    std::vector<engine::KvEventBatch> batches;
    if (!log_.Read(followed_, kMaxBatches, &batches).ok())
      DUNLIN_FUZZ_CHECK(false, "a reader that is not late is refused");
    for (const engine::KvEventBatch& batch : batches) {
      DUNLIN_FUZZ_CHECK(batch.number == ++followed_, "numbers have a gap");
      DUNLIN_FUZZ_CHECK(!batch.events.empty(), "a batch without an event");
      for (const KvEvent& event : batch.events) Apply(event, &blocks_);
    }
    DUNLIN_FUZZ_CHECK(followed_ == log_.last(), "the newest batch is not read");
    DUNLIN_FUZZ_CHECK(blocks_ == Held(), "who follows the events does not know what the cache holds");
    Blocks snapshot;
    for (const KvEvent& event : log_.Snapshot().blocks) Apply(event, &snapshot);
    DUNLIN_FUZZ_CHECK(snapshot == blocks_, "the snapshot is not what the events amount to");
  }

  // A reader that asks for any number, as a router's replay does.
  void Read(uint64_t after) {
    std::vector<engine::KvEventBatch> batches;
    const bool kept = after <= log_.last() && after + 1 >= log_.oldest();
    const absl::Status status = log_.Read(after, kMaxBatches, &batches);
    DUNLIN_FUZZ_CHECK(status.ok() == kept, "what is kept is not what can be read");
    DUNLIN_FUZZ_CHECK(!kept || batches.size() == log_.last() - after, "batches are missing");
  }

  Blocks Held() const {
    Blocks blocks;
    for (PageId page = 0; page < num_pages_; ++page) {
      const engine::CachedPageSet set = cache_.PageSetOf(page);
      if (set.serial == 0) continue;
      const bool has_salt = *set.domain != cache_.Root({}, "").domain;
      blocks[set.id] = {
          set.parent, has_salt ? engine::KvBlockIdOf(*set.domain) : 0, {set.tokens, set.tokens + set.num_tokens}};
    }
    return blocks;
  }

  const int32_t num_pages_;
  const engine::KvGroups groups_;
  engine::KvEventLog log_;
  engine::PrefixCache cache_;
  engine::TimeNs now_ = 0;
  uint64_t followed_ = 0;
  Blocks blocks_;
};

}  // namespace

// Input: sizes of the pool and its groups (2 bytes), then commands.
int FuzzKvEvents(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  Replay replay(&input);
  replay.Run(&input);
  return 0;
}

}  // namespace dunlin::fuzz
