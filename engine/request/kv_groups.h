// SPDX-License-Identifier: Apache-2.0
// How the layers of a model share KV pages. A page holds some layers of a range of tokens; the layers of one group lie
// in one page, so that a range of tokens takes a page of every group. All pages of a pool have one size. The layers of
// a group have keys and values of one shape; pages of small shapes hold more layers. A layer with a sliding window
// never reads behind it: the pages of a sliding group that lie wholly behind its window are given back while their
// sequence runs. The pages of full groups stay until it ends. Full groups come first. Plain data; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dunlin::engine {

struct KvGroups {
  int32_t layers_per_page = 0;  // the most of a group; > 0 once made of a model
  int32_t num_full = 1;         // groups with a layer that sees every token before its own, or where pages are kept
  int32_t num_sliding = 0;
  int32_t window = 0;  // of sliding groups: the keys that a token sees at most, its own the last

  int32_t count() const { return num_full + num_sliding; }
  bool slides(int32_t group) const { return group >= num_full; }

  // No page is given back before its sequence ends.
  void KeepAll() { num_full += std::exchange(num_sliding, 0); }

  // The first position that a row at `position`, or a later one, reads in a sliding group.
  int32_t FirstRead(int32_t position) const { return std::max(0, position - window + 1); }

  // Pages that a sequence of num_tokens tokens holds at once at most, of all groups together, where a step computes up
  // to step_tokens of them. Grows with num_tokens. REQUIRES: tokens_per_page > 0, step_tokens > 0.
  int64_t MostPages(int64_t num_tokens, int32_t tokens_per_page, int32_t step_tokens) const {
    const int64_t all = (num_tokens + tokens_per_page - 1) / tokens_per_page;
    const int64_t read = int64_t{window} - 1 + step_tokens;  // in a step, from the first key to the last
    // Such a range begins anywhere in its first page.
    const int64_t around = (read - 1 + tokens_per_page - 1) / tokens_per_page + 1;
    return num_full * all + num_sliding * std::min(all, around);
  }

  // The most tokens, up to `limit`, of a sequence that never holds more than num_pages.
  int64_t TokensThatFit(int64_t num_pages, int64_t limit, int32_t tokens_per_page, int32_t step_tokens) const {
    int64_t fit = 0;
    for (int64_t over = limit + 1; over - fit > 1;) {
      const int64_t middle = fit + (over - fit) / 2;
      (MostPages(middle, tokens_per_page, step_tokens) <= num_pages ? fit : over) = middle;
    }
    return fit;
  }
};

// Where a layer's keys and values lie.
struct KvPlace {
  int32_t group = 0;
  int32_t layer_in_page = 0;
  int32_t shape = 0;  // of its pages: KvShapesOf's
};

}  // namespace dunlin::engine
