// SPDX-License-Identifier: Apache-2.0
// Starts and ends the tuning of GEMM algorithms and tile shapes.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/gemm/cublaslt/cold_clock.h"

namespace dunlin::kernels::cuda {

bool SetTuning(DeviceContext* context, bool on, std::string* notice) {
  if (on == (context->clock != nullptr)) return on;
  if (!on) {
    context->plans->Tune(nullptr, nullptr);
    context->tiles.Tune(nullptr, nullptr);
  }
  context->clock.reset();
  if (context->failed) return false;
  const std::string reason = on ? context->algorithms->Read() : context->algorithms->Write();
  if (!reason.empty()) *notice = reason;
  if (!on) return false;
  context->clock = std::make_unique<ColdClock>(context);
  context->plans->Tune(context->clock.get(), context->algorithms.get());
  context->tiles.Tune(context->clock.get(), context->algorithms.get());
  return true;
}

}  // namespace dunlin::kernels::cuda
