#include "ngram/packed_projection.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "ngram/number_formats.h"

namespace sprat {
namespace {

constexpr size_t kPanel{Projection::kPanel};

// Rows of x that stay in the second-level cache while all panels pass: 64 x 3072 bf16 are 384 KB.
constexpr size_t kTokensABlock{64};

// H rounded up to even: the kernels take pairs of k.
size_t DepthOf(const NgramConfig& config) { return (size_t{config.hidden} + 1) / 2 * 2; }

// Writes W_i[h], `width` values, to columns k = i * width + j of row h of the stack.
//   panel: of row h; depth / 2 x kPanel x 2.
void PackRow(const float* values, size_t width, size_t i, size_t h, uint16_t* panel) {
  for (size_t j = 0; j < width; ++j) {
    const size_t k = i * width + j;
    panel[(k / 2 * kPanel + h % kPanel) * 2 + k % 2] = FloatToBf16(values[j]);
  }
}

}  // namespace

uint64_t PackedProjection::SizeBytes(const NgramConfig& config) {
  const uint64_t panels = (config.hidden + kPanel - 1) / kPanel;
  return panels * kPanel * DepthOf(config) * sizeof(uint16_t);
}

Result<PackedProjection> PackedProjection::Pack(const NgramConfig& config,
                                                const NgramTensors& tensors, ThreadPool& threads) {
  PackedProjection packed;
  packed.hidden_ = config.hidden;
  packed.depth_ = DepthOf(config);
  packed.panels_ = (packed.hidden_ + kPanel - 1) / kPanel;
  Result<Buffer<uint16_t>> weights =
      Buffer<uint16_t>::Allocate(SizeBytes(config) / sizeof(uint16_t));
  if (!weights.ok()) return std::move(weights.error()).In("packing the projections");
  packed.weights_ = std::move(weights).value();
  const size_t width = config.width();
  std::vector<float> rows(packed.hidden_ * width);
  for (size_t i = 0; i < config.tables(); ++i) {
    Result<void> copied = CopyAsF32(*tensors.projections[i], rows);
    if (!copied.ok()) return std::move(copied.error()).In(tensors.projection_names[i]);
    threads.Run([&](size_t rank, Team& team) {
      const Share share = ShareOf(packed.hidden_, rank, team.size());
      for (size_t h = share.begin; h < share.end; ++h) {
        uint16_t* panel = packed.weights_.begin() + h / kPanel * packed.depth_ * kPanel;
        PackRow(rows.data() + h * width, width, i, h, panel);
      }
    });
    tensors.file->Release(*tensors.projections[i]);
  }
  return packed;
}

void PackedProjection::Apply(const Task& task, const NgramKernels& kernels, Share panels) const {
  for (size_t first = 0; first < task.tokens; first += kTokensABlock) {
    for (size_t panel = panels.begin; panel < panels.end; ++panel) {
      const size_t column = panel * kPanel;
      kernels.project({.x = task.x + first * depth_,
                       .w = weights_.begin() + panel * depth_ * kPanel,
                       .depth = depth_,
                       .y = task.y + first * hidden_ + column,
                       .y_stride = hidden_,
                       .tokens = std::min(kTokensABlock, task.tokens - first),
                       .columns = std::min(kPanel, hidden_ - column),
                       .word_scale = task.word_scale,
                       .sum_scale = task.sum_scale});
    }
  }
}

}  // namespace sprat
