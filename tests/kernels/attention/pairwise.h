// SPDX-License-Identifier: Apache-2.0
// A deterministic list of cases over several axes: every allowed pair of values of two axes is in some case, and the
// list is filled up to a given length with random ones.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace dunlin::kernels::testing {

using GridCase = std::vector<int>;  // one index per axis

class PairwiseGrid {
 public:
  // sizes: values per axis. allowed: whether a whole case may be run.
  PairwiseGrid(std::vector<int> sizes, std::function<bool(const GridCase&)> allowed)
      : sizes_(std::move(sizes)), allowed_(std::move(allowed)) {}

  // A cover of every pair that some allowed case holds, then random cases, `count` in all.
  std::vector<GridCase> Cases(size_t count) {
    std::vector<GridCase> cases;
    for (size_t a = 0; a < sizes_.size(); ++a) {
      for (size_t b = a + 1; b < sizes_.size(); ++b) {
        for (int i = 0; i < sizes_[a]; ++i) {
          for (int j = 0; j < sizes_[b]; ++j) Cover(a, i, b, j, &cases);
        }
      }
    }
    for (; cases.size() < count; ++num_random_) cases.push_back(Random());
    return cases;
  }
  // Pairs that no allowed case was found for.
  int uncovered() const { return uncovered_; }
  // Cases after the cover.
  size_t num_random() const { return num_random_; }

 private:
  using Pair = std::tuple<size_t, int, size_t, int>;

  GridCase Random() {
    GridCase c(sizes_.size());
    do {
      for (size_t axis = 0; axis < c.size(); ++axis) c[axis] = static_cast<int>(random_() % Size(axis));
    } while (!allowed_(c));
    return c;
  }
  // Adds the one of several random cases with this pair that covers most pairs not covered yet.
  void Cover(size_t a, int i, size_t b, int j, std::vector<GridCase>* cases) {
    if (covered_.count({a, i, b, j}) > 0) return;
    GridCase best;
    int most = 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
      GridCase c(sizes_.size());
      for (size_t axis = 0; axis < c.size(); ++axis) c[axis] = static_cast<int>(random_() % Size(axis));
      c[a] = i;
      c[b] = j;
      if (!allowed_(c)) continue;
      const int fresh = Fresh(c);
      if (fresh > most) {
        most = fresh;
        best = c;
      }
    }
    if (best.empty()) {
      ++uncovered_;
      return;
    }
    ForEachPair(best, [this](const Pair& pair) { covered_.insert(pair); });
    cases->push_back(best);
  }
  int Fresh(const GridCase& c) const {
    int fresh = 0;
    ForEachPair(c, [&](const Pair& pair) { fresh += covered_.count(pair) == 0 ? 1 : 0; });
    return fresh;
  }
  template <typename Visit>
  void ForEachPair(const GridCase& c, const Visit& visit) const {
    for (size_t a = 0; a < c.size(); ++a) {
      for (size_t b = a + 1; b < c.size(); ++b) visit(Pair{a, c[a], b, c[b]});
    }
  }
  uint64_t Size(size_t axis) const { return static_cast<uint64_t>(sizes_[axis]); }

  std::vector<int> sizes_;
  std::function<bool(const GridCase&)> allowed_;
  std::mt19937_64 random_{2024};
  std::set<Pair> covered_;
  int uncovered_ = 0;
  size_t num_random_ = 0;
};

}  // namespace dunlin::kernels::testing
