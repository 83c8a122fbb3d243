// A model on a device that can be lost, with another one that takes over.
#ifndef SPRAT_ENGINE_FALLBACK_MODEL_H_
#define SPRAT_ENGINE_FALLBACK_MODEL_H_

#include <functional>
#include <memory>
#include <string>

#include "model/model.h"
#include "sprat/engine.h"

namespace sprat {

// Answers as `device` does until that fails with kDevice: a lost device stays lost, so the batch
// that met it and all later ones go to the standby, which is opened then. Every other error of
// either is the caller's. The accessors are the device's own, also afterwards: the standby computes
// the same function with other arithmetic, which is why each of its batches is reported.
class FallbackModel final : public Model {
 public:
  using OpenModel = std::function<Result<std::unique_ptr<Model>>()>;

  // open_standby: opens a model of the same shape; called once at most, from Embed.
  // report: see EngineOptions::on_fallback.
  FallbackModel(std::unique_ptr<Model> device, OpenModel open_standby,
                std::function<void(const Fallback&)> report)
      : device_(std::move(device)),
        open_standby_(std::move(open_standby)),
        report_(std::move(report)) {}

  // Errors: as Model; kDevice, naming both causes, if there is no standby either.
  Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                     MatrixView<float> out) override;

  size_t dimensions() const override { return device_->dimensions(); }
  size_t vocabulary_rows() const override { return device_->vocabulary_rows(); }
  size_t max_sequence() const override { return device_->max_sequence(); }
  std::string arithmetic() const override { return device_->arithmetic(); }
  size_t weight_bytes() const override { return device_->weight_bytes(); }

 private:
  Result<void> OpenStandby();

  std::unique_ptr<Model> device_;
  OpenModel open_standby_;
  std::function<void(const Fallback&)> report_;
  std::string loss_;  // the device's error; empty while it works
  std::unique_ptr<Model> standby_;
};

}  // namespace sprat

#endif  // SPRAT_ENGINE_FALLBACK_MODEL_H_
