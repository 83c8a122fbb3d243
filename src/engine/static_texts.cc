#include "engine/static_texts.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/float_mode.h"
#include "engine/vector_check.h"

namespace sprat {
namespace {

// How many texts a thread takes at once: microseconds of work, so that all end together.
constexpr size_t kTextsAtOnce{32};

}  // namespace

Result<void> EmbedStaticTexts(const TextIds& text_ids, const StaticModel& model,
                              std::span<const std::string_view> texts, const TextForm& text_form,
                              const OutputForm& output_form, ThreadPool* pool,
                              std::vector<StaticPart>& parts, Embeddings& out) {
  const size_t threads = pool == nullptr ? 1 : pool->size();
  if (parts.size() < threads) parts.resize(threads);

  const auto embed = [&](size_t i, StaticPart& part) -> Result<void> {
    part.ids.clear();
    Result<TokenizedLength> length = text_ids.Append(texts[i], text_form, part.prompted, part.ids);
    if (!length.ok()) return std::move(length.error()).In("text " + std::to_string(i));
    out.tokens[i] = static_cast<uint32_t>(length.value().tokens);
    out.truncated[i] = length.value().truncated ? 1 : 0;
    const std::span<float> row(out.values.data() + i * out.dimensions, out.dimensions);
    Result<void> embedded = model.EmbedOne(part.ids, output_form, part.scratch, row);
    if (!embedded.ok()) return std::move(embedded.error()).In("text " + std::to_string(i));
    return CheckVectors(out, i, 1);
  };

  std::atomic<size_t> next = 0;  // the first text that nobody has taken
  // After an error nothing new is taken; what was taken before it is finished, so that the first
  // error is found.
  const auto embed_share = [&](StaticPart& part) {
    part.done = {};
    for (size_t first; (first = next.fetch_add(kTextsAtOnce)) < texts.size();) {
      const size_t last = std::min(first + kTextsAtOnce, texts.size());
      for (part.text = first; part.text < last; ++part.text) {
        part.done = embed(part.text, part);
        if (part.done.ok()) continue;
        next = texts.size();
        return;
      }
    }
  };
  if (threads == 1) {
    const ScopedFlushToZero flush;  // as the pool's threads
    embed_share(parts[0]);
  } else {
    pool->Run([&](size_t rank, Team&) { embed_share(parts[rank]); });
  }

  StaticPart* failed = nullptr;
  for (StaticPart& part : std::span(parts).first(threads)) {
    const bool first = failed == nullptr || part.text < failed->text;
    if (!part.done.ok() && first) failed = &part;
  }
  return failed == nullptr ? Result<void>() : std::move(failed->done);
}

}  // namespace sprat
