// SPDX-License-Identifier: Apache-2.0
#include "server/models/image_store.h"

#include <deque>
#include <list>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/request/prompt_rows.h"
#include "engine/request/tenant_share.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxNumbers = size_t{1} << 16;  // some 100 bytes each

size_t BytesOf(const ImageRows& rows) {
  return rows->size() * sizeof(float);
}

}  // namespace

struct ImageStore::Stay::Entry {
  enum class At { kWaiting, kTurn, kHolding };

  std::shared_ptr<State> store;
  engine::TenantId tenant = 0;
  size_t bytes = 0;
  std::function<void()> on_turn;
  At at = At::kWaiting;  // guarded by the store's mutex
};

struct ImageStore::State {
  using Entry = Stay::Entry;
  struct Kept {
    engine::Digest image;
    ImageRows rows;
  };

  explicit State(size_t bytes) : max_bytes(bytes) {}

  // Gives turns to those that wait, as far as there are turns and bytes. Returns those that got one.
  std::vector<std::shared_ptr<Entry>> GiveTurns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<std::shared_ptr<Entry>> given;
    size_t num_passed = 0;  // tenants over their share
    while (num_turns < kMaxTurns && num_passed < order.size()) {
      const engine::TenantId tenant = order.front();
      std::deque<std::shared_ptr<Entry>>& queue = waiting[tenant];
      const std::shared_ptr<Entry> next = queue.front();
      if (!WithinShare(*next)) {
        ++num_passed;
        order.pop_front();
        order.push_back(tenant);
        continue;
      }
      if (taken + next->bytes > max_bytes) break;  // nobody passes it, so that it gets its room
      EvictTo(max_bytes - taken - next->bytes);
      Take(*next);
      next->at = Entry::At::kTurn;
      given.push_back(next);
      num_passed = 0;
      queue.pop_front();
      order.pop_front();
      if (queue.empty()) {
        waiting.erase(tenant);
      } else {
        order.push_back(tenant);
      }
    }
    return given;
  }

  bool WithinShare(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto own = held.find(entry.tenant);
    const size_t of_tenant = own == held.end() ? 0 : own->second;
    return engine::WithinTenantShare(entry.tenant, taken == of_tenant, static_cast<int64_t>(of_tenant),
                                     static_cast<int64_t>(entry.bytes), static_cast<int64_t>(taken),
                                     static_cast<int64_t>(max_bytes));
  }

  void Take(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    taken += entry.bytes;
    if (entry.bytes > 0) held[entry.tenant] += entry.bytes;
    ++num_turns;
  }

  void GiveBack(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (entry.at == Entry::At::kTurn) --num_turns;
    taken -= entry.bytes;
    if (entry.bytes == 0) return;
    const auto own = held.find(entry.tenant);
    own->second -= entry.bytes;
    if (own->second == 0) held.erase(own);
  }

  void EvictTo(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (kept_bytes > bytes) {
      kept_bytes -= BytesOf(kept.back().rows);
      places.erase(kept.back().image);
      kept.pop_back();
    }
  }

  void Withdraw(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto found = waiting.find(entry.tenant);
    std::erase_if(found->second, [&entry](const auto& other) { return other.get() == &entry; });
    if (!found->second.empty()) return;
    waiting.erase(found);
    std::erase(order, entry.tenant);
  }

  static void Tell(const std::vector<std::shared_ptr<Entry>>& entries) {
    for (const auto& entry : entries) entry->on_turn();
  }

  const size_t max_bytes;
  mutable absl::Mutex mutex;                                       // guards what follows
  size_t taken ABSL_GUARDED_BY(mutex) = 0;                         // by requests
  std::map<engine::TenantId, size_t> held ABSL_GUARDED_BY(mutex);  // of these, by tenants with any
  int num_turns ABSL_GUARDED_BY(mutex) = 0;
  std::map<engine::TenantId, std::deque<std::shared_ptr<Entry>>> waiting ABSL_GUARDED_BY(mutex);
  std::deque<engine::TenantId> order ABSL_GUARDED_BY(mutex);  // of tenants with entries that wait
  std::list<Kept> kept ABSL_GUARDED_BY(mutex);                // the least recently used last
  std::map<engine::Digest, std::list<Kept>::iterator> places ABSL_GUARDED_BY(mutex);
  size_t kept_bytes ABSL_GUARDED_BY(mutex) = 0;
  std::list<engine::Digest> numbered ABSL_GUARDED_BY(mutex);  // the least recently asked for last
  struct Number {
    int32_t number;
    std::list<engine::Digest>::iterator place;
  };
  std::map<engine::Digest, Number> numbers ABSL_GUARDED_BY(mutex);
  int32_t next_number ABSL_GUARDED_BY(mutex) = 0;
  Counts counts ABSL_GUARDED_BY(mutex);
};

ImageStore::Stay::Stay(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}

ImageStore::Stay::~Stay() {
  State& store = *entry_->store;
  std::vector<std::shared_ptr<Entry>> next;
  {
    absl::MutexLock lock(&store.mutex);
    if (entry_->at == Entry::At::kWaiting) {
      store.Withdraw(*entry_);
    } else {
      store.GiveBack(*entry_);
    }
    next = store.GiveTurns();
  }
  State::Tell(next);
}

bool ImageStore::Stay::entered() const {
  absl::MutexLock lock(&entry_->store->mutex);
  return entry_->at != Entry::At::kWaiting;
}

void ImageStore::Stay::EndTurn() {
  State& store = *entry_->store;
  std::vector<std::shared_ptr<Entry>> next;
  {
    absl::MutexLock lock(&store.mutex);
    if (entry_->at != Entry::At::kTurn) return;
    entry_->at = Entry::At::kHolding;
    --store.num_turns;
    next = store.GiveTurns();
  }
  State::Tell(next);
}

ImageStore::ImageStore(size_t max_bytes) : state_(std::make_shared<State>(max_bytes)) {}
ImageStore::~ImageStore() = default;

size_t ImageStore::max_bytes() const {
  return state_->max_bytes;
}

std::unique_ptr<ImageStore::Stay> ImageStore::Enter(engine::TenantId tenant, size_t bytes,
                                                    std::function<void()> on_turn) {
  DUNLIN_CHECK(bytes <= state_->max_bytes, "a request's images fit the store");
  auto entry = std::make_shared<Stay::Entry>();
  entry->store = state_;
  entry->tenant = tenant;
  entry->bytes = bytes;
  entry->on_turn = std::move(on_turn);
  std::vector<std::shared_ptr<Stay::Entry>> given;
  {
    absl::MutexLock lock(&state_->mutex);
    auto& queue = state_->waiting[tenant];
    if (queue.empty()) state_->order.push_back(tenant);
    queue.push_back(entry);
    given = state_->GiveTurns();
  }
  std::erase(given, entry);
  State::Tell(given);
  return std::unique_ptr<Stay>(new Stay(std::move(entry)));
}

int32_t ImageStore::NumberOf(const engine::Digest& image) {
  absl::MutexLock lock(&state_->mutex);
  const auto found = state_->numbers.find(image);
  if (found != state_->numbers.end()) {
    state_->numbered.splice(state_->numbered.begin(), state_->numbered, found->second.place);
    return found->second.number;
  }
  if (state_->numbers.size() == kMaxNumbers) {
    state_->numbers.erase(state_->numbered.back());
    state_->numbered.pop_back();
  }
  const int32_t number = state_->next_number;
  state_->next_number = (number + 1) % engine::kFirstRowToken;
  state_->numbered.push_front(image);
  state_->numbers[image] = {number, state_->numbered.begin()};
  return number;
}

ImageRows ImageStore::Find(const engine::Digest& image) {
  absl::MutexLock lock(&state_->mutex);
  const auto found = state_->places.find(image);
  if (found == state_->places.end()) return nullptr;
  state_->kept.splice(state_->kept.begin(), state_->kept, found->second);
  ++state_->counts.found;
  return found->second->rows;
}

void ImageStore::Keep(const engine::Digest& image, ImageRows rows) {
  const size_t bytes = BytesOf(rows);
  absl::MutexLock lock(&state_->mutex);
  ++state_->counts.kept;
  if (state_->places.contains(image) || state_->taken + bytes > state_->max_bytes) return;
  state_->EvictTo(state_->max_bytes - state_->taken - bytes);
  state_->kept.push_front({image, std::move(rows)});
  state_->places[image] = state_->kept.begin();
  state_->kept_bytes += bytes;
}

ImageStore::Counts ImageStore::counts() const {
  absl::MutexLock lock(&state_->mutex);
  Counts counts = state_->counts;
  counts.bytes = state_->taken + state_->kept_bytes;
  return counts;
}

}  // namespace dunlin::server
