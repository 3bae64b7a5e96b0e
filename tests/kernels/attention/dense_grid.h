// SPDX-License-Identifier: Apache-2.0
// The dense op over all its features: a pairwise cover of backend, dtype, variant, lengths, dims, grouping, what a row
// sees, softcap, ALiBi and bias, filled up with random cases; error at most twice that of the unfused computation in
// the same dtype, against FP64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/attention/dense_problem.h"
#include "tests/kernels/attention/pairwise.h"

namespace dunlin::kernels::testing {

class DenseGrid {
 public:
  // takes: whether the device takes a backend and dtype together. variants: how many it comes in. costly: the longest
  // lengths too.
  DenseGrid(int variants, size_t num_cases, bool costly, const std::function<bool(AttentionBackend, DType)>& takes);

  const std::vector<GridCase>& cases() const { return cases_; }
  // Pairs without a case, beyond FLASH with a mask and FLASH with each of 4 biases, which no device takes.
  int uncovered() const { return uncovered_; }

 private:
  std::vector<GridCase> cases_;
  int uncovered_;
};

int VariantOf(const GridCase& c);
// Runs a case by run(problem, backend) and checks every output that is compared. name: of the variant, for messages.
void CheckCase(const GridCase& c, const std::string& name,
               const std::function<std::vector<float>(const DenseProblem&, AttentionBackend)>& run);

}  // namespace dunlin::kernels::testing
