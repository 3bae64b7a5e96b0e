// SPDX-License-Identifier: Apache-2.0
// The products of warpgroups: joined by their threads, executed late, waited for.
#include <algorithm>
#include <string>
#include <utility>

#include "tests/kernels/cuda/sm90/machine.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr size_t kPiecesOfRows = 64 * 2;  // which a product reads first, where its A is in shared memory

}  // namespace

int Machine::Members(size_t warpgroup) const {
  return std::min(128, options_.threads - static_cast<int>(warpgroup) * 128);
}

void Machine::FenceProducts() {
  if (!Makes(Mistake::kSkippedProductFence)) current().fenced = true;
}

Machine::Product* Machine::Join(uint64_t a, uint64_t b, float* sums, const uint32_t* registers) {
  if (!current().fenced) Fail("a product without a fence before it");
  Warpgroup& group = warpgroups_[static_cast<size_t>(current_) / 128];
  const size_t index = current().products++ - group.executed;
  if (index == group.products.size()) group.products.push_back({nullptr, a, b, {}, {}, 0, accesses_.Now(), {}});
  Product& product = group.products[index];
  if (product.a != a || product.b != b) Fail("threads of a warpgroup give a product other operands");
  product.sums[current_ % 128] = sums;
  product.registers[current_ % 128] = registers;
  ++product.joined;
  return &product;
}

void Machine::ExecuteTo(Warpgroup* group, size_t end) {
  const auto index = static_cast<size_t>(group - warpgroups_.data());
  for (; group->executed < end; ++group->executed) {
    reading_ = &group->products.front();
    reading_->execute(*reading_);
    std::vector<uint32_t>& pieces = reading_->pieces;
    // Of tiles with less than 64 rows on the M side the product's other rows are what follows; nobody takes their sums.
    if (reading_->registers[0] == nullptr && pieces.size() >= kPiecesOfRows) {
      const auto beside = [&, first = pieces[0]](uint32_t piece) { return accesses_.OutsideOfCopy(first, piece); };
      const auto rows_end = pieces.begin() + static_cast<ptrdiff_t>(kPiecesOfRows);
      pieces.erase(std::remove_if(pieces.begin(), rows_end, beside), rows_end);
    }
    for (const uint32_t piece : pieces) {
      const std::string race =
          accesses_.ReadByProduct(index * 4, static_cast<size_t>(Members(index)) / 32, piece, reading_->begun);
      if (!race.empty()) Report(race);
    }
    group->unwaited.push_back(std::move(*reading_));
    group->products.pop_front();
  }
  reading_ = nullptr;
}

// Of the caller's warp: it has waited for its warpgroup's products up to `end`.
void Machine::EndReads(Warpgroup* group, size_t end) {
  size_t& waited = group->waited[warp() % 4];
  const size_t first = group->executed - group->unwaited.size();
  for (; waited < end; ++waited) {
    for (const uint32_t piece : group->unwaited[waited - first].pieces) accesses_.EndRead(warp(), piece);
  }
  const size_t warps = static_cast<size_t>(Members(static_cast<size_t>(group - warpgroups_.data()))) / 32;
  const size_t done = *std::min_element(group->waited.begin(), group->waited.begin() + static_cast<ptrdiff_t>(warps));
  for (size_t at = first; at < done; ++at) group->unwaited.pop_front();
}

void Machine::WaitForProducts(int pending) {
  Thread& own = current();
  own.fenced = false;
  if (Makes(Mistake::kSkippedProductWait)) return;
  if (Makes(Mistake::kLateProductWait)) ++pending;
  const auto index = static_cast<size_t>(current_) / 128;
  Warpgroup& group = warpgroups_[index];
  const size_t committed = own.groups.size();
  const size_t end =
      committed > static_cast<size_t>(pending) ? own.groups[committed - 1 - static_cast<size_t>(pending)] : 0;
  const int members = Members(index);
  WaitUntil([&] { return end <= group.executed || group.products[end - 1 - group.executed].joined == members; },
            [] { return std::string("the warpgroup's products"); });
  ExecuteTo(&group, end);
  EndReads(&group, end);
}

}  // namespace dunlin::kernels::cuda
