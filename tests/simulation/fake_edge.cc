// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/fake_edge.h"

#include <algorithm>

namespace dunlin::simulation {
namespace {

using engine::TenantId;
using engine::TimeNs;
using server::Admission;
using server::AdmissionRefusal;
using server::Quota;
using server::QuotaKind;
using server::QuotaLimits;
using server::QuotaRefusal;

server::AdmissionLimits AnyAdmissionLimits(Dice* dice) {
  server::AdmissionLimits limits;
  limits.max_concurrent_requests = dice->OneIn(2) ? dice->Between(1, 8) : 64;
  limits.max_queued_bytes = dice->OneIn(2) ? dice->Between(100, 2000) : 100000;
  limits.max_output_bytes = dice->OneIn(2) ? dice->Between(100, 3000) : 100000;
  return limits;
}

std::optional<Event> EventOf(AdmissionRefusal why) {
  switch (why) {
    case AdmissionRefusal::kTooManyRequests:
      return Event::kRefusedRequests;
    case AdmissionRefusal::kTooManyQueuedBytes:
      return Event::kRefusedBytes;
    case AdmissionRefusal::kTooManyQueuedBytesOfCaller:
      return Event::kRefusedBytesOfCaller;
    case AdmissionRefusal::kEngineStalled:
      return Event::kRefusedSuspended;
    case AdmissionRefusal::kDraining:
    case AdmissionRefusal::kDeviceFailed:
      return Event::kRefusedClosed;
    default:
      return std::nullopt;
  }
}

}  // namespace

FakeEdge::FakeEdge(Dice* dice, int32_t num_tenants, SimulationStats* stats)
    : dice_(dice), stats_(stats), limits_(AnyAdmissionLimits(dice)), admission_(limits_) {
  for (int32_t i = 0; i < num_tenants; ++i) {
    const QuotaLimits limits = i == 0 ? QuotaLimits() : AnyLimits();
    tenants_.push_back({limits, Quota(limits), ReferenceBucket(limits.requests_per_minute),
                        ReferenceBucket(limits.tokens_per_minute)});
  }
  admission_.Open();
}

QuotaLimits FakeEdge::AnyLimits() {
  QuotaLimits limits;
  if (dice_->OneIn(2)) limits.requests_per_minute = dice_->Between(0, 12);
  if (dice_->OneIn(2)) limits.tokens_per_minute = dice_->Between(0, 300);
  if (dice_->OneIn(2)) limits.concurrent_streams = dice_->Between(0, 4);
  return limits;
}

std::optional<Held> FakeEdge::Open(TenantId tenant, int64_t message_bytes, int64_t output_bytes, TimeNs now) {
  std::optional<Admission::Ticket> ticket = Admit(tenant, message_bytes);
  if (!ticket.has_value()) return std::nullopt;
  if (!ticket->TakeTenantShare(tenant)) {
    Expect(Of(tenant).calls > 0, "a tenant without calls is refused for its share");
    Refuse(Event::kRefusedTenantShare);
    return std::nullopt;
  }
  if (!BeginQuota(tenant, now, &*ticket)) return std::nullopt;
  const bool has_room = held_.output_bytes + output_bytes <= limits_.max_output_bytes;
  const bool taken = ticket->TakeOutputBytes(static_cast<size_t>(output_bytes));
  Expect(taken == has_room, "output bytes are refused with room, or taken without");
  if (!taken) {
    Refuse(Event::kRefusedOutputBytes);
    return std::nullopt;  // its request of the quota stays used
  }
  ++held_.requests;
  held_.queued_bytes += message_bytes;
  held_.output_bytes += output_bytes;
  Tenant& own = Of(tenant);
  ++own.calls;
  ++own.streams;
  own.message_bytes += message_bytes;
  ++(*stats_)[Event::kAdmitted];
  return Held{std::move(*ticket), tenant, message_bytes, output_bytes, 0};
}

std::optional<Admission::Ticket> FakeEdge::Admit(TenantId tenant, int64_t message_bytes) {
  if (dice_->OneIn(2)) {
    auto admitted = admission_.TryAdmit(tenant, static_cast<size_t>(message_bytes));
    if (const auto* why = std::get_if<AdmissionRefusal>(&admitted)) {
      CheckRefusal(*why, tenant, message_bytes, 0);
      return std::nullopt;
    }
    CheckAdmitted(message_bytes);
    return std::get<Admission::Ticket>(std::move(admitted));
  }
  auto received = admission_.TryReceive(tenant, dice_->OneIn(2) ? static_cast<size_t>(message_bytes) : 0);
  if (const auto* why = std::get_if<AdmissionRefusal>(&received)) {
    CheckRefusal(*why, tenant, message_bytes, 0);
    return std::nullopt;
  }
  Admission::Ticket ticket = std::get<Admission::Ticket>(std::move(received));
  for (int64_t left = message_bytes; left > 0;) {
    const auto piece = std::min<int64_t>(left, dice_->Between(1, 400));
    if (const auto why = ticket.TakeBytes(static_cast<size_t>(piece))) {
      CheckRefusal(*why, tenant, message_bytes - left + piece, message_bytes - left);
      return std::nullopt;
    }
    left -= piece;
  }
  if (const auto why = ticket.TakePlace()) {
    CheckRefusal(*why, tenant, message_bytes, 0);
    return std::nullopt;
  }
  CheckAdmitted(message_bytes);
  return ticket;
}

// A message of which `taken` bytes have been taken may not have `wanted`.
void FakeEdge::CheckRefusal(AdmissionRefusal why, TenantId tenant, int64_t wanted, int64_t taken) {
  const std::optional<Event> event = EventOf(why);
  Expect(event.has_value(), "a refusal of something that did not happen");
  if (!event.has_value()) return;
  Refuse(*event);
  const bool full = held_.queued_bytes + wanted > limits_.max_queued_bytes;
  switch (*event) {
    case Event::kRefusedRequests:
      return Expect(held_.requests == limits_.max_concurrent_requests, "too many requests, with room for one");
    case Event::kRefusedBytes:
      return Expect(full, "too many bytes, with room for them");
    case Event::kRefusedBytesOfCaller:
      return Expect(Of(tenant).message_bytes + taken > 0, "a caller without bytes is refused for its share");
    case Event::kRefusedSuspended:
      return Expect(suspended_ && !closed_, "a stall is reported that is over");
    default:
      return Expect(closed_, "refused as if draining");
  }
}

void FakeEdge::CheckAdmitted(int64_t message_bytes) {
  Expect(held_.requests < limits_.max_concurrent_requests, "more requests than max_concurrent_requests");
  Expect(held_.queued_bytes + message_bytes <= limits_.max_queued_bytes, "more bytes than max_queued_bytes");
  Expect(!suspended_, "admitted during a stall");
  Expect(!closed_, "admitted while draining");
}

bool FakeEdge::BeginQuota(TenantId tenant, TimeNs now, Admission::Ticket* ticket) {
  Tenant& own = Of(tenant);
  const std::optional<int64_t> most = own.limits.concurrent_streams;
  const bool has_stream = !most.has_value() || own.streams < *most;
  const std::optional<bool> has_request = own.requests.Has(1, now);
  const std::optional<bool> has_tokens = own.tokens.Has(0, now);
  auto begun = own.quota.TryBegin(now);
  if (const auto* refusal = std::get_if<QuotaRefusal>(&begun)) {
    switch (refusal->kind) {
      case QuotaKind::kStreams:
        Expect(!has_stream, "too many streams, with room for one");
        return Refuse(Event::kQuotaStreams);
      case QuotaKind::kRequests:
        Expect(has_stream && !has_request.value_or(false), "too many requests a minute, with one left");
        return Refuse(Event::kQuotaRequests);
      case QuotaKind::kTokens:
        Expect(has_stream && !has_tokens.value_or(false), "too many tokens a minute, without a debt");
        return Refuse(Event::kQuotaTokens);
    }
  }
  Expect(has_stream, "more streams than the quota");
  Expect(has_request.value_or(true), "more requests a minute than the quota");
  Expect(has_tokens.value_or(true), "begun with a debt of tokens");
  own.requests.Take(1, now);
  ticket->HoldQuota(std::get<Quota::Call>(std::move(begun)));
  return true;
}

void FakeEdge::Tokenise(Held* held) {
  held->ticket.ReleaseBytes();
  held_.queued_bytes -= held->message_bytes;
  Of(held->tenant).message_bytes -= std::exchange(held->message_bytes, 0);
}

bool FakeEdge::Reserve(int64_t tokens, TimeNs now, Held* held) {
  ReferenceBucket after = Of(held->tenant).tokens;
  after.Take(-held->reserved, now);
  const std::optional<bool> has_tokens = after.Has(tokens, now);
  const bool refused = held->ticket.quota()->Reserve(tokens, now).has_value();
  Expect(!has_tokens.has_value() || *has_tokens == !refused, "tokens are refused with enough of them, or reserved");
  if (refused) return Refuse(Event::kQuotaTokens);
  after.Take(tokens, now);
  Of(held->tenant).tokens = after;
  held->reserved = tokens;
  return true;
}

void FakeEdge::Close(int64_t used_tokens, TimeNs now, Held held) {
  Tenant& own = Of(held.tenant);
  held.ticket.quota()->Settle(used_tokens, now);
  own.tokens.Take(used_tokens - held.reserved, now);
  --held_.requests;
  held_.queued_bytes -= held.message_bytes;
  held_.output_bytes -= held.output_bytes;
  --own.calls;
  --own.streams;
  own.message_bytes -= held.message_bytes;
}

void FakeEdge::Suspend(bool suspended) {
  suspended_ = suspended;
  admission_.Suspend(suspended ? std::optional(AdmissionRefusal::kEngineStalled) : std::nullopt);
}

void FakeEdge::CloseAdmission(AdmissionRefusal why) {
  closed_ = true;
  admission_.Close(why);
}

void FakeEdge::ChangeQuota(TimeNs now) {
  if (tenants_.size() < 2) return;
  Tenant& own = tenants_[static_cast<size_t>(dice_->Between(1, static_cast<int32_t>(tenants_.size()) - 1))];
  own.limits = AnyLimits();
  own.quota.SetLimits(own.limits, now);
  own.requests.SetRate(own.limits.requests_per_minute, now);
  own.tokens.SetRate(own.limits.tokens_per_minute, now);
  ++(*stats_)[Event::kQuotaChanged];
}

std::string FakeEdge::Check(TimeNs now) {
  const server::AdmissionStats stats = admission_.stats();
  Expect(stats.requests == held_.requests, "Admission counts other requests than there are calls");
  Expect(stats.queued_bytes == held_.queued_bytes, "Admission counts other message bytes than calls have");
  Expect(stats.output_bytes == held_.output_bytes, "Admission counts other output bytes than calls have");
  Expect(stats.receiving == 0, "Admission counts a message that no longer comes in");
  for (const Tenant& tenant : tenants_) {
    if (!tenant.limits.concurrent_streams.has_value()) continue;
    const server::QuotaLevels levels = tenant.quota.Levels(now);
    const int64_t left = std::max<int64_t>(0, *tenant.limits.concurrent_streams - tenant.streams);
    Expect(levels.streams.has_value() && levels.streams->remaining == left, "a quota counts other streams than run");
  }
  return problem_;
}

}  // namespace dunlin::simulation
