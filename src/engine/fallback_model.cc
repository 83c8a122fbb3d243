#include "engine/fallback_model.h"

#include <utility>

namespace sprat {

Result<void> FallbackModel::OpenStandby() {
  if (standby_ != nullptr) return {};
  Result<std::unique_ptr<Model>> opened = open_standby_();
  if (!opened.ok()) {
    return Error(ErrorCode::kDevice,
                 loss_ + "; and no model takes over: " + opened.error().message());
  }
  standby_ = std::move(opened).value();
  return {};
}

Result<void> FallbackModel::Embed(const TokenBatch& batch, const OutputForm& form,
                                  MatrixView<float> out) {
  const bool first = loss_.empty();
  if (first) {
    Result<void> done = device_->Embed(batch, form, out);
    if (done.ok() || done.error().code() != ErrorCode::kDevice) return done;
    loss_ = done.error().message();
  }
  if (Result<void> opened = OpenStandby(); !opened.ok()) return opened;
  Result<void> done = standby_->Embed(batch, form, out);
  if (done.ok()) report_({.texts = batch.sequences(), .first = first, .why = loss_});
  return done;
}

}  // namespace sprat
