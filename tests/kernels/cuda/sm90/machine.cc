// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/sm90/machine.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dunlin::kernels::cuda {
namespace {

constexpr int kRegistersOfSm = 65536;

// Stacks of a block that ended: pages that were touched are not cleared again.
struct Stacks {
  std::unique_ptr<char[]> memory;
  size_t bytes = 0;
};
thread_local Stacks free_stacks;

}  // namespace

Machine::Machine(const MachineOptions& options)
    : options_(options),
      random_(options.seed),
      shared_(kBase + options.shared_bytes),
      accesses_(kBase + options.shared_bytes, static_cast<size_t>(options.threads) / 32),
      writer_(kBase + options.shared_bytes),
      threads_(static_cast<size_t>(options.threads)),
      warpgroups_(static_cast<size_t>(options.threads + 127) / 128),
      rendezvous_(kNamedBarriers + threads_.size() / 32),
      exchanged_{std::vector<Words>(threads_.size()), std::vector<Words>(threads_.size())},
      warps_(threads_.size() / 32) {
  const int each = std::min(kRegistersOfSm / options.threads / 8 * 8, 255);
  for (Thread& thread : threads_) thread.registers = each;
}

// After a fault threads may stand anywhere: their stacks are not used again.
Machine::~Machine() {
  if (fault_.empty()) free_stacks.memory = std::move(stacks_);
}

std::string Machine::Run(const std::function<void(int)>& body) {
  const size_t bytes = threads_.size() * kStackBytes;
  if (free_stacks.memory == nullptr || free_stacks.bytes < bytes) {
    free_stacks = {std::make_unique_for_overwrite<char[]>(bytes), bytes};
  }
  stacks_ = std::move(free_stacks.memory);
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber.Start([this, &body] { body(current_); }, stacks_.get() + i * kStackBytes, kStackBytes);
  }
  if (options_.preceding_begins != nullptr) options_.preceding_begins();
  const auto done = [&] { return std::ranges::all_of(threads_, [](const Thread& each) { return each.fiber.done(); }); };
  while (fault_.empty() && !done()) {
    const bool resumed = ResumeReady();
    const bool finished = fault_.empty() && FinishSome(!resumed);
    if (!resumed && !finished && fault_.empty()) fault_ = "nothing can go on: " + DescribeWaits();
  }
  if (fault_.empty()) CheckEnd();
  return fault_;
}

// Every thread that can go on, warp by warp in a drawn order. Whether there was one.
bool Machine::ResumeReady() {
  std::iota(warps_.begin(), warps_.end(), 0);
  std::ranges::shuffle(warps_, random_);
  bool resumed = false;
  for (const size_t warp : warps_) {
    for (size_t thread = warp * 32; thread < warp * 32 + 32 && fault_.empty(); ++thread) {
      Thread& next = threads_[thread];
      current_ = static_cast<int>(thread);
      if (next.fiber.done() || (next.ready && !next.ready())) continue;
      next.ready = nullptr;
      resumed = true;
      next.fiber.Resume();
    }
  }
  return resumed;
}

void Machine::Suspend(std::function<bool()> ready, std::function<std::string()> waits_for) {
  current().ready = std::move(ready);
  current().waits_for = std::move(waits_for);
  current().fiber.Yield();
}

void Machine::Fail(const std::string& what) {
  if (fault_.empty()) fault_ = "thread " + std::to_string(current_) + ": " + what;
  for (;;) current().fiber.Yield();
}

bool Machine::Makes(Mistake mistake) {
  return mistake == options_.mistake && calls_++ >= options_.mistake_at;
}

std::string Machine::DescribeWaits() const {
  std::map<std::string, int> counts;
  for (const Thread& thread : threads_) {
    if (!thread.fiber.done()) ++counts[thread.waits_for()];
  }
  std::string text;
  for (const auto& [what, count] : counts) text += std::to_string(count) + " threads wait for " + what + "; ";
  return text;
}

void Machine::WaitForPreceding() {
  if (options_.preceding_ends == nullptr || Makes(Mistake::kSkippedPrecedingWait)) return;
  preceding_awaited_ = true;
  WaitUntil([this] { return preceding_ended_; }, [] { return std::string("the preceding kernel"); });
}

// Copies and products that are under way; `all`: every one, because no thread can go on before. Whether there was one.
bool Machine::FinishSome(bool all) {
  bool finished = false;
  if (preceding_awaited_ && !preceding_ended_ && (all || Draw())) {
    options_.preceding_ends();
    preceding_ended_ = finished = true;
  }
  std::ranges::shuffle(loads_, random_);
  for (size_t i = loads_.size(); i-- > 0 && fault_.empty();) {
    if (!all && Draw()) continue;
    FinishLoad(i);
    finished = true;
  }
  for (size_t i = stores_.size(); i-- > 0;) {
    if (!all && Draw()) continue;
    const Store store = std::move(stores_[i]);
    stores_.erase(stores_.begin() + static_cast<ptrdiff_t>(i));
    store.copy();
    finished = true;
  }
  for (size_t i = 0; i < warpgroups_.size(); ++i) {
    if (!Draw()) continue;
    Warpgroup& group = warpgroups_[i];
    size_t count = 0;
    while (count < group.products.size() && group.products[count].joined == Members(i)) ++count;
    ExecuteTo(&group, group.executed + count);
  }
  return finished;
}

void Machine::FinishLoad(size_t which) {
  const Load load = std::move(loads_[which]);
  loads_.erase(loads_.begin() + static_cast<ptrdiff_t>(which));
  load.copy();
  Barrier& barrier = barriers_[load.barrier];
  barrier.bytes -= load.bytes;
  if (barrier.bytes < 0 && barrier.pending == 0) {
    Report("barrier " + std::to_string(load.barrier) + ": more bytes arrived than its phase expects");
  }
  Advance(&barrier);
}

void Machine::SyncThreads(int id, int threads, bool waits) {
  if (id >= kNamedBarriers) Fail("there is no barrier " + std::to_string(id));
  Sync(id, threads, waits);
}

void Machine::SyncWarp() {
  Sync(kNamedBarriers + current_ / 32, 32, true);
}

void Machine::Sync(int index, int threads, bool waits) {
  Rendezvous& point = rendezvous_[static_cast<size_t>(index)];
  const bool of_warp = index >= kNamedBarriers;
  const uint64_t turn = point.turn;
  if (!of_warp) accesses_.Release(warp(), &point.clock);
  if (++point.arrived == threads) {
    point.arrived = 0;
    ++point.turn;
    point.complete = point.clock;
  } else if (waits) {
    WaitUntil([&point, turn] { return point.turn != turn; },
              [index] { return "the threads of barrier " + std::to_string(index); });
  }
  if (!of_warp && waits) accesses_.Acquire(warp(), point.complete);
}

const Machine::Words* Machine::Exchange(const Words& words) {
  // Who exchanges again has passed an exchange by which all lanes had read the words of the one before it.
  std::vector<Words>& exchanged = exchanged_[static_cast<size_t>(current().exchanges++ % 2)];
  exchanged[static_cast<size_t>(current_)] = words;
  SyncWarp();
  return &exchanged[static_cast<size_t>(current_ / 32 * 32)];
}

void Machine::SetRegisters(int count, bool raises) {
  if (count % 8 != 0 || count < 24 || count > 240) Fail("setmaxnreg of " + std::to_string(count));
  Thread& own = current();
  if (raises ? count < own.registers : count > own.registers) Fail("setmaxnreg in the wrong direction");
  if (raises) {
    WaitUntil([this, &own, count] { return free_registers_ >= count - own.registers; },
              [] { return std::string("registers"); });
  } else if (Makes(Mistake::kSkippedRegisterRelease)) {
    return;
  }
  free_registers_ -= count - own.registers;
  own.registers = count;
}

void Machine::InitBarrier(uint32_t address, uint32_t arrivals) {
  if (address % 8 != 0) Fail("a barrier at " + std::to_string(address));
  barriers_[address] = {.arrivals = arrivals,
                        .pending = arrivals,
                        .bytes = 0,
                        .phase = 0,
                        .owner = current_,
                        .index = accesses_.AddBarrier()};
}

void Machine::FenceBarrierInit() {
  if (Makes(Mistake::kSkippedBarrierFence)) return;
  for (auto& [address, barrier] : barriers_) {
    if (barrier.owner == current_) barrier.owner = -1;
  }
}

Machine::Barrier& Machine::BarrierAt(uint32_t address) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) Fail("there is no barrier at " + std::to_string(address));
  if (found->second.owner >= 0) Fail("the barrier at " + std::to_string(address) + " was not fenced");
  return found->second;
}

void Machine::Advance(Barrier* barrier) {
  if (barrier->pending != 0 || barrier->bytes != 0) return;
  ++barrier->phase;
  barrier->pending = barrier->arrivals;
  barrier->complete = barrier->arrived;
  accesses_.Complete(barrier->index, barrier->phase, &barrier->complete);
}

void Machine::Arrive(uint32_t address, int64_t bytes) {
  Barrier& barrier = BarrierAt(address);
  if (Makes(Mistake::kSkippedArrival)) return;
  if (barrier.pending == 0) Fail("more arrivals at barrier " + std::to_string(address) + " than its phase expects");
  if (bytes > 0 && Makes(Mistake::kFewerBytes)) bytes -= 16;
  if (bytes > 0 && Makes(Mistake::kMoreBytes)) bytes += 16;
  accesses_.Release(warp(), &barrier.arrived);
  --barrier.pending;
  barrier.bytes += bytes;
  Advance(&barrier);
}

void Machine::Wait(uint32_t address, uint32_t parity) {
  Barrier& barrier = BarrierAt(address);
  if (Makes(Mistake::kSkippedWait)) return;
  if (Makes(Mistake::kWrongParity)) parity ^= 1;
  const int64_t phase = barrier.phase;
  WaitUntil([&barrier, parity] { return (barrier.phase & 1) != parity; },
            [=] { return "phase " + std::to_string(phase) + " of barrier " + std::to_string(address); });
  const int64_t complete = barrier.phase - 1;
  const auto [seen, first] = current().seen.try_emplace(address, complete);
  if (!first && complete > seen->second + 1) Fail("missed a phase of barrier " + std::to_string(address));
  seen->second = complete;
  accesses_.Acquire(warp(), barrier.complete);
}

void Machine::LoadLater(uint32_t to, uint32_t barrier, uint32_t bytes, std::function<void()> copy) {
  const Barrier& at = BarrierAt(barrier);
  if (Holds(to, bytes, false)) FailOn(accesses_.Copy(warp(), to, bytes, at.index, at.phase + 1));
  loads_.push_back({barrier, bytes, std::move(copy)});
}

void Machine::StoreLater(std::function<void()> copy) {
  stores_.push_back({current_, current().store_groups, std::move(copy)});
}

void Machine::CommitStores() {
  ++current().store_groups;
}

void Machine::WaitForStores(int pending) {
  const int thread = current_;
  const size_t committed = current().store_groups;
  const auto in_flight = [this, thread, committed, pending](const Store& store) {
    return store.thread == thread && store.group + static_cast<size_t>(pending) < committed;
  };
  WaitUntil([&] { return std::ranges::none_of(stores_, in_flight); }, [] { return std::string("stores"); });
}

// Asynchronous accesses run on no fiber.
void Machine::Report(const std::string& what) {
  if (fault_.empty()) fault_ = what;
}

bool Machine::Holds(uint32_t address, uint32_t bytes, bool async) {
  if (address >= kBase && address + bytes <= shared_.size()) return true;
  Report("an access outside of shared memory, at " + std::to_string(address));
  if (!async) Fail("");
  return false;
}

void Machine::FailOn(const std::string& race) {
  if (!race.empty()) Fail(race);
}

void Machine::Write(uint32_t address, const void* from, uint32_t bytes, bool async) {
  if (!Holds(address, bytes, async)) return;
  if (!async) FailOn(accesses_.Write(warp(), address, bytes));
  std::memcpy(shared_.data() + address, from, bytes);
  std::fill_n(writer_.begin() + address, bytes, async ? uint16_t{0} : static_cast<uint16_t>(current_ + 1));
  if (!async) current().unfenced.emplace_back(address, bytes);
}

void Machine::Read(uint32_t address, void* to, uint32_t bytes, bool async) {
  if (!Holds(address, bytes, async)) return;
  for (uint32_t i = 0; async && i < bytes; ++i) {
    if (writer_[address + i] == 0) continue;
    Report("an asynchronous read at " + std::to_string(address) + " of what thread " +
           std::to_string(writer_[address + i] - 1) + " wrote without a fence");
  }
  if (!async) FailOn(accesses_.Read(warp(), address, bytes));
  if (async && reading_ != nullptr) reading_->pieces.push_back(address);
  std::memcpy(to, shared_.data() + address, bytes);
}

void Machine::FenceAsync() {
  if (Makes(Mistake::kSkippedAsyncFence)) return;
  for (const auto& [address, bytes] : current().unfenced) {
    for (uint32_t i = 0; i < bytes; ++i) {
      uint16_t& writer = writer_[address + i];
      if (writer == current_ + 1) writer = 0;
    }
  }
  current().unfenced.clear();
}

void Machine::CheckEnd() {
  if (!loads_.empty()) Report("the block ended with loads in flight");
  if (!stores_.empty()) Report("the block ended with stores that were not waited for");
  for (int i = 0; i < kNamedBarriers; ++i) {
    if (rendezvous_[static_cast<size_t>(i)].arrived == 0) continue;
    Report("the block ended with arrivals at barrier " + std::to_string(i) + " that nobody waited for");
  }
  for (const auto& [address, barrier] : barriers_) {
    if (barrier.pending != barrier.arrivals || barrier.bytes != 0) {
      Report("the block ended within a phase of barrier " + std::to_string(address));
    }
  }
  for (const Warpgroup& group : warpgroups_) {
    if (!group.products.empty()) Report("the block ended with products that were not waited for");
  }
  if (!shared_.Intact()) Report("wrote past shared memory");
}

}  // namespace dunlin::kernels::cuda
