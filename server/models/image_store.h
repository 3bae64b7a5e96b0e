// SPDX-License-Identifier: Apache-2.0
// The memory that rows of images take in a served model: those of requests in progress, and in what they leave those of
// images that were encoded before, least recently used out first. A request enters with all the bytes that its images
// take, so that none waits with half of them, and gets a turn: what decoding and patches take is bounded by turns.
// Tenants take turns, and have shares of the bytes as of the server's queues (tenant_share.h): one that is over its own
// is passed by others. Within a tenant the order is that of arrival.
// Thread rule: any thread. Callbacks come from the thread that makes room, which holds no lock then.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "engine/cache/page.h"
#include "engine/request/types.h"

namespace dunlin::server {

using ImageRows = std::shared_ptr<const std::vector<float>>;

class ImageStore {
 public:
  // Requests that decode and encode at once. More would leave no thread of the text pool, which has two, to prompts.
  static constexpr int kMaxTurns = 1;

  explicit ImageStore(size_t max_bytes);
  ~ImageStore();
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  // A request's: it waits, has its turn, then only its bytes; its end gives back what it has. May outlive the store.
  class Stay {
   public:
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

    // Whether the turn has come.
    bool entered() const;
    // The images are encoded; the bytes stay taken.
    void EndTurn();

   private:
    friend class ImageStore;
    struct Entry;
    explicit Stay(std::shared_ptr<Entry> entry);
    const std::shared_ptr<Entry> entry_;
  };

  size_t max_bytes() const;
  // on_turn: called once the turn has come, unless that is before this returns. REQUIRES: bytes <= max_bytes().
  std::unique_ptr<Stay> Enter(engine::TenantId tenant, size_t bytes, std::function<void()> on_turn);

  // What stands for an image in prompts: in [0, kFirstRowToken), another one for each digest. One that was not asked
  // for in a while gets a new number.
  int32_t NumberOf(const engine::Digest& image);

  // What Keep was given for an image of this digest and is still here; null: nothing.
  ImageRows Find(const engine::Digest& image);
  // Keeps the rows where there is room.
  void Keep(const engine::Digest& image, ImageRows rows);

  struct Counts {
    uint64_t found = 0;  // images whose rows were here
    uint64_t kept = 0;   // images that were encoded
    size_t bytes = 0;    // of requests in progress and of kept rows
  };
  Counts counts() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace dunlin::server
