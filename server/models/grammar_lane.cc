// SPDX-License-Identifier: Apache-2.0
#include "server/models/grammar_lane.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

// Addresses, of which little becomes memory: the stack of the compiler's thread, text/rust/src/limits.rs.
constexpr size_t kStackBytes = size_t{64} << 20;
// Below text threads and engines, which have deadlines of milliseconds.
constexpr int kNice = 5;
// Until a worker knows a vocabulary, which is the model's and as large as it is.
constexpr absl::Duration kSetupLimit = absl::Seconds(30);

absl::Status TooSlow() {
  const std::string limit = absl::FormatDuration(GrammarLane::kTimeLimit);
  return absl::ResourceExhaustedError(absl::StrCat("takes longer than ", limit, " to compile; limit is ", limit));
}

}  // namespace

GrammarJob::GrammarJob(std::string its_key, text::GrammarSource its_source, engine::TenantId its_tenant)
    : key(std::move(its_key)),
      source(std::move(its_source)),
      tenant(its_tenant),
      cancel(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

GrammarJob::~GrammarJob() {
  if (cancel >= 0) close(cancel);
}

void GrammarJob::Cancel() const {
  if (cancel >= 0) eventfd_write(cancel, 1);
}

bool GrammarJob::is_cancelled() const {
  eventfd_t count = 0;
  const bool cancelled = cancel >= 0 && eventfd_read(cancel, &count) == 0;
  if (cancelled) eventfd_write(cancel, 1);
  return cancelled;
}

void GrammarJob::Extend(absl::Time deadline) {
  const int64_t until = absl::ToUnixNanos(deadline);
  int64_t before = deadline_ns_.load(std::memory_order_relaxed);
  while (before < until && !deadline_ns_.compare_exchange_weak(before, until, std::memory_order_relaxed)) {
  }
}

GrammarLane::GrammarLane(Model model, Done done) : model_(std::move(model)), done_(std::move(done)) {}

GrammarLane::~GrammarLane() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void GrammarLane::Queue::Push(std::shared_ptr<GrammarJob> job) {
  std::deque<std::shared_ptr<GrammarJob>>& of_tenant = jobs[job->tenant];
  if (of_tenant.empty()) turns.push_back(job->tenant);
  bytes += job->key.size();
  of_tenant.push_back(std::move(job));
  ++size;
}

std::shared_ptr<GrammarJob> GrammarLane::Queue::Pop() {
  if (turns.empty()) return nullptr;
  const engine::TenantId tenant = turns.front();
  turns.pop_front();
  const auto found = jobs.find(tenant);
  std::shared_ptr<GrammarJob> job = std::move(found->second.front());
  found->second.pop_front();
  --size;
  bytes -= job->key.size();
  if (found->second.empty()) {
    jobs.erase(found);
  } else {
    turns.push_back(tenant);
  }
  return job;
}

bool GrammarLane::Queue::Remove(const std::shared_ptr<GrammarJob>& job) {
  const auto found = jobs.find(job->tenant);
  if (found == jobs.end() || std::erase(found->second, job) == 0) return false;
  --size;
  bytes -= job->key.size();
  if (!found->second.empty()) return true;
  jobs.erase(found);
  std::erase(turns, job->tenant);
  return true;
}

size_t GrammarLane::Queue::SizeOf(engine::TenantId tenant) const {
  const auto found = jobs.find(tenant);
  return found == jobs.end() ? 0 : found->second.size();
}

bool GrammarLane::Add(std::shared_ptr<GrammarJob> job) {
  absl::MutexLock lock(&mutex_);
  if (new_.size + slow_.size >= kMaxJobs) return false;
  if (new_.bytes + slow_.bytes + job->key.size() > kMaxSourceBytes) return false;
  if (new_.SizeOf(job->tenant) + slow_.SizeOf(job->tenant) >= kMaxJobsPerTenant) return false;
  if (!thread_.joinable() && !StartThread()) return false;
  new_.Push(std::move(job));
  return true;
}

// The first request for a grammar may come when the system has no thread left, which is no reason to end the process.
bool GrammarLane::StartThread() {
  try {
    thread_ = std::thread([this] {
      engine::NameThread("grammar-lane");
      Loop();
    });
    return true;
  } catch (const std::system_error& problem) {
    spdlog::error("no thread for grammars: {}", problem.what());
    return false;
  }
}

bool GrammarLane::Remove(const std::shared_ptr<GrammarJob>& job) {
  absl::MutexLock lock(&mutex_);
  return new_.Remove(job) || slow_.Remove(job);
}

std::shared_ptr<GrammarJob> GrammarLane::Next() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &GrammarLane::HasWorkOrStops));
  if (stopping_) return nullptr;
  std::shared_ptr<GrammarJob> job = new_.Pop();
  return job != nullptr ? job : slow_.Pop();
}

void GrammarLane::Loop() {
  while (const std::shared_ptr<GrammarJob> job = Next()) Run(job);
}

void GrammarLane::Run(const std::shared_ptr<GrammarJob>& job) {
  if (job->is_cancelled()) return done_(job, absl::CancelledError("nobody waits for the grammar"));
  if (absl::Now() >= job->deadline()) return done_(job, TooSlow());
  absl::StatusOr<Grammar> grammar = Compile(job.get());
  // Somebody has joined who waits for longer, or the first try was too short.
  const bool has_time = absl::IsDeadlineExceeded(grammar.status()) && absl::Now() < job->deadline();
  if (has_time || (absl::IsAborted(grammar.status()) && !job->is_slow)) {
    job->is_slow = true;
    absl::MutexLock lock(&mutex_);
    return slow_.Push(job);
  }
  if (absl::IsAborted(grammar.status())) grammar = absl::ResourceExhaustedError(grammar.status().message());
  done_(job, absl::IsDeadlineExceeded(grammar.status()) ? TooSlow() : std::move(grammar));
}

absl::StatusOr<Grammar> GrammarLane::Compile(GrammarJob* job) {
  size_t proved_bytes = 0;
  if (!model_.worker_program.empty()) {
    const absl::StatusOr<size_t> bytes = Prove(job);
    if (!bytes.ok()) return bytes.status();
    proved_bytes = *bytes;
  }
  const absl::StatusOr<const text::GrammarCompiler*> compiler = Compiler();
  if (!compiler.ok()) return compiler.status();
  Grammar grammar;
  absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> constraint =
      (*compiler)->Compile(job->source, &grammar.bytes);
  if (!constraint.ok()) return constraint.status();
  grammar.constraint = *std::move(constraint);
  grammar.bytes = std::max(grammar.bytes, proved_bytes);
  return grammar;
}

absl::StatusOr<size_t> GrammarLane::Prove(GrammarJob* job) {
  const absl::StatusOr<std::string> request = text::GrammarCompiler::WorkerRequest(job->source);
  if (!request.ok()) return request.status();
  const absl::StatusOr<WorkerProcess*> worker = Worker(job);
  if (!worker.ok()) return worker.status();
  const absl::StatusOr<WorkerProcess::Reply> reply =
      (*worker)->Call(*request, {.processor_time = job->is_slow ? kProcessorTime : kFirstTry,
                                 .deadline = job->deadline(),
                                 .cancel = job->cancel});
  if (!reply.ok()) return reply.status();
  if (absl::Status checked = text::GrammarCompiler::CheckReply(job->source, reply->text); !checked.ok()) return checked;
  return reply->kept_bytes;
}

absl::StatusOr<WorkerProcess*> GrammarLane::Worker(GrammarJob* job) {
  if (worker_ != nullptr && worker_->IsRunning()) return worker_.get();
  const absl::StatusOr<std::string> setup =
      text::GrammarCompiler::WorkerSetup(*model_.tokenizer, model_.eos_token_ids, model_.vocab_size);
  if (!setup.ok()) return setup.status();
  absl::StatusOr<std::unique_ptr<WorkerProcess>> started = WorkerProcess::Start(
      model_.worker_program,
      {.memory_bytes = kStackBytes + model_.text_work.grammar_worker_bytes, .nice = kNice, .forks = true});
  if (!started.ok()) return started.status();
  const WorkerProcess::Bounds limit{.deadline = absl::Now() + kSetupLimit};
  if (absl::Status sent = (*started)->Send(*setup, limit); !sent.ok()) return sent;
  const absl::Status here = Compiler().status();  // while the worker makes its own
  if (!here.ok()) return here;
  const absl::StatusOr<WorkerProcess::Reply> prepared = (*started)->Receive(limit);
  if (!prepared.ok()) return prepared.status();
  const absl::Status checked = text::GrammarCompiler::CheckReply(job->source, prepared->text);
  if (!checked.ok()) return checked;
  job->Extend(absl::Now() + kTimeLimit);  // none of that was its compilation
  worker_ = *std::move(started);
  return worker_.get();
}

absl::StatusOr<const text::GrammarCompiler*> GrammarLane::Compiler() {
  if (compiler_ != nullptr) return compiler_.get();
  auto compiler = text::GrammarCompiler::Create(*model_.tokenizer, model_.eos_token_ids, model_.vocab_size);
  if (!compiler.ok()) return compiler.status();
  compiler_ = *std::move(compiler);
  compiler_->LimitGrowth(model_.text_work.grammar_growth_bytes);
  return compiler_.get();
}

}  // namespace dunlin::server
