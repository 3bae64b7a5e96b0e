// SPDX-License-Identifier: Apache-2.0
// Chooses the loads of a sweep. The load grows by a factor until a step is not sustained; then the search bisects
// between that step and the last sustained one. A step is sustained if enough of its requests were good and its goodput
// exceeds the best so far by `min_gain`: a higher load without more goodput is past the knee.
// Pure.
#pragma once

#include <optional>
#include <vector>

namespace dunlin::tools::load {

class KneeSearch {
 public:
  struct Options {
    double start = 1;        // > 0: requests a second, or concurrent requests
    double factor = 2;       // > 1
    double min_ratio = 0.9;  // of good requests among those sent
    double min_gain = 0.05;
    int max_steps = 12;          // >= 1, all together
    int refinements = 3;         // bisection steps, part of max_steps
    bool whole_numbers = false;  // loads are concurrent requests
  };
  struct Step {
    double load = 0;
    double goodput = 0;  // requests a second
    double ratio = 0;
    bool sustained = false;  // set by Add
  };

  explicit KneeSearch(const Options& options) : options_(options) {}

  // The load to try next; none when the search is over.
  std::optional<double> Next() const;
  void Add(Step step);

  // The sustained step of the highest load; none when not even the first was sustained.
  std::optional<Step> knee() const;
  const std::vector<Step>& steps() const { return steps_; }

 private:
  const Options options_;
  std::vector<Step> steps_;  // in the order tried
  double best_ = 0;          // load of the knee so far; 0: none
  double best_goodput_ = 0;
  double broken_ = 0;  // lowest load that was not sustained; 0: none yet
  int num_refined_ = 0;
};

}  // namespace dunlin::tools::load
