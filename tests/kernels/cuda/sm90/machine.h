// SPDX-License-Identifier: Apache-2.0
// A block of a device of compute capability 9.0 on the host. Its threads are fibers of one thread, resumed in an order
// drawn from a seed and switched where they wait, so that a run can be repeated, and a wait that nothing can end is
// found at once. What is asynchronous on the device happens late here, at a moment that the seed draws: copies by TMA
// between two turns, products when the seed or a wait says so, reading operands and registers then.
//
// Reported as faults: waits that never end, more arrivals or bytes than a barrier's phase expects, a phase that a
// waiting thread missed, accesses to shared memory that nothing puts in order, what is still in flight when
// the block ends, fences that are missing, addresses and registers outside of what the device has. Shared memory starts
// as NaN and has a guard.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/device/fiber.h"
#include "tests/kernels/cuda/sm90/shared_accesses.h"

namespace dunlin::kernels::cuda {

// A mistake to make from the nth call on that allows it; tests show that each is found.
enum class Mistake : uint8_t {
  kNone,
  kSkippedArrival,
  kFewerBytes,  // expected than arrive
  kMoreBytes,
  kWrongParity,
  kSkippedWait,
  kSkippedAsyncFence,
  kSkippedBarrierFence,
  kSkippedProductFence,
  kSkippedProductWait,
  kLateProductWait,  // one more group than it may is left in flight
  kSkippedRegisterRelease,
  kSkippedPrecedingWait,
};

struct MachineOptions {
  int threads = 128;          // a multiple of 128, or the last warpgroup is partial
  uint32_t shared_bytes = 0;  // dynamic, as launched
  uint64_t seed = 1;
  Mistake mistake = Mistake::kNone;
  int mistake_at = 0;  // of the calls that allow it
  // The kernel before, which runs until some thread waits for it: what it will write holds something else at the
  // block's start. Null: there is none.
  std::function<void()> preceding_begins = {};
  std::function<void()> preceding_ends = {};
};

class Machine {
 public:
  explicit Machine(const MachineOptions& options);
  ~Machine();
  // Runs body(thread) once for each thread. "" or the first fault.
  std::string Run(const std::function<void(int)>& body);

  int threads() const { return options_.threads; }

  // --- For HostBlock, on a fiber.
  // what: its text, for a wait that nothing ends. Both are of the caller's stack, which stays while it waits.
  template <typename Ready, typename What>
  void WaitUntil(const Ready& ready, const What& what) {
    if (!ready()) Suspend(std::cref(ready), std::cref(what));
  }
  [[noreturn]] void Fail(const std::string& what);
  bool Makes(Mistake mistake);  // whether this call does
  bool Draw() { return (random_() & 1) != 0; }

  void WaitForPreceding();
  void SyncThreads(int id, int threads, bool waits);
  void SyncWarp();
  // The words of each of the warp's 32 lanes, valid until this thread's next exchange but one.
  using Words = std::array<uint32_t, 4>;
  const Words* Exchange(const Words& words);
  void SetRegisters(int count, bool raises);

  void InitBarrier(uint32_t address, uint32_t arrivals);
  void FenceBarrierInit();
  void Arrive(uint32_t address, int64_t bytes);
  void Wait(uint32_t address, uint32_t parity);
  // To `to` and on; copy runs later; then the bytes are complete.
  void LoadLater(uint32_t to, uint32_t barrier, uint32_t bytes, std::function<void()> copy);
  void StoreLater(std::function<void()> copy);
  void CommitStores();
  void WaitForStores(int pending);

  // Shared memory. `base`: an address before the first that is aligned for the swizzle.
  uint32_t base() const { return kBase; }
  void Write(uint32_t address, const void* from, uint32_t bytes, bool async);
  void Read(uint32_t address, void* to, uint32_t bytes, bool async);
  void FenceAsync();

  // A product of a warpgroup: execute(threads' sums and registers of A) when all of its threads joined.
  struct Product {
    std::function<void(const Product&)> execute;
    uint64_t a = 0;
    uint64_t b = 0;
    float* sums[128] = {};
    const uint32_t* registers[128] = {};
    int joined = 0;
    uint64_t begun = 0;            // of SharedAccesses
    std::vector<uint32_t> pieces;  // that it has read
  };
  template <typename Execute>
  void JoinProduct(uint64_t a, uint64_t b, float* sums, const uint32_t* registers, const Execute& execute) {
    Product* product = Join(a, b, sums, registers);
    if (product->joined == 1) product->execute = execute;
  }
  void FenceProducts();
  void CommitProducts() { current().groups.push_back(current().products); }
  void WaitForProducts(int pending);

 private:
  static constexpr uint32_t kBase = 16;
  static constexpr int kNamedBarriers = 16;
  // Stacks begin at different sets of a cache.
  static constexpr size_t kStackBytes = (size_t{128} << 10) + 1088;

  struct Thread {
    Fiber fiber;
    std::function<bool()> ready;  // null: it can go on
    std::function<std::string()> waits_for;
    int registers = 0;
    int exchanges = 0;
    std::vector<std::pair<uint32_t, uint32_t>> unfenced;  // writes that TMA and wgmma may not see
    std::map<uint32_t, int64_t> seen;                     // the phase of a barrier that a wait returned for
    size_t store_groups = 0;
    size_t products = 0;         // of the warpgroup, that this thread joined
    std::vector<size_t> groups;  // `products` at each commit
    bool fenced = false;
  };
  struct Barrier {
    uint32_t arrivals = 0;
    uint32_t pending = 0;
    int64_t bytes = 0;  // still to come
    int64_t phase = 0;  // the incomplete one
    int owner = -1;     // who initialised it and has not fenced yet, or -1
    size_t index = 0;   // of SharedAccesses
    SharedAccesses::Clock arrived = {};
    SharedAccesses::Clock complete = {};  // that of `arrived` at the last phase's end
  };
  struct Rendezvous {
    int arrived = 0;
    uint64_t turn = 0;
    SharedAccesses::Clock clock = {};
    SharedAccesses::Clock complete = {};  // that of `clock` at the last turn's end
  };
  struct Load {
    uint32_t barrier;
    uint32_t bytes;
    std::function<void()> copy;
  };
  struct Store {
    int thread;
    size_t group;
    std::function<void()> copy;
  };
  struct Warpgroup {
    std::deque<Product> products;  // that were not executed
    size_t executed = 0;
    std::deque<Product> unwaited;       // that were, but some warp has not waited for
    std::array<size_t, 4> waited = {};  // by each warp
  };

  Thread& current() { return threads_[static_cast<size_t>(current_)]; }
  void Suspend(std::function<bool()> ready, std::function<std::string()> waits_for);
  void Sync(int index, int threads, bool waits);
  Product* Join(uint64_t a, uint64_t b, float* sums, const uint32_t* registers);
  void Report(const std::string& what);
  bool Holds(uint32_t address, uint32_t bytes, bool async);
  bool ResumeReady();
  bool FinishSome(bool all);
  void FinishLoad(size_t which);
  void ExecuteTo(Warpgroup* group, size_t end);
  void EndReads(Warpgroup* group, size_t end);
  void FailOn(const std::string& race);
  size_t warp() const { return static_cast<size_t>(current_) / 32; }
  int Members(size_t warpgroup) const;
  Barrier& BarrierAt(uint32_t address);
  void Advance(Barrier* barrier);
  void CheckEnd();
  std::string DescribeWaits() const;

  MachineOptions options_;
  std::mt19937_64 random_;
  testing::PoisonedMemory shared_;
  SharedAccesses accesses_;
  Product* reading_ = nullptr;    // what executes
  std::vector<uint16_t> writer_;  // of each byte: thread + 1 of an unfenced write, or 0
  std::unique_ptr<char[]> stacks_;
  std::vector<Thread> threads_;
  std::vector<Warpgroup> warpgroups_;
  std::map<uint32_t, Barrier> barriers_;
  std::vector<Rendezvous> rendezvous_;  // of named barriers, then of warps
  std::array<std::vector<Words>, 2> exchanged_;
  std::vector<Load> loads_;
  std::vector<Store> stores_;
  std::vector<size_t> warps_;  // in the order of the last turn
  int current_ = 0;
  int calls_ = 0;  // that allow the mistake
  int free_registers_ = 0;
  std::string fault_;
  bool preceding_awaited_ = false;
  bool preceding_ended_ = false;
};

}  // namespace dunlin::kernels::cuda
