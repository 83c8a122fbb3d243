// The texts of a call to a static model, on several threads.
#ifndef SPRAT_ENGINE_STATIC_TEXTS_H_
#define SPRAT_ENGINE_STATIC_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "engine/text_ids.h"
#include "static_model/static_model.h"

namespace sprat {

// What one thread works with; reused.
struct StaticPart {
  std::vector<uint32_t> ids;  // of one text
  std::string prompted;       // prompt + text
  StaticModel::Scratch scratch;
  size_t text = 0;  // the last one it took
  Result<void> done;
};

// Writes the vector of texts[i] to out.Row(i), its numbers to out.tokens[i] and out.truncated[i];
// all of them exist. A text's vector depends on no other text, so a thread takes each from its
// bytes to the checked vector before the next, and takes new ones as long as there are any: no
// thread waits for another before the end, and memory does not grow with the texts.
//   pool: the threads that share the work; nullptr: the caller alone.
//   parts: lengthened to one a thread.
// The bits do not depend on the threads. Errors: those of TextIds::Append, StaticModel::EmbedOne
// and CheckVectors for the first text that has one, naming it by its index.
Result<void> EmbedStaticTexts(const TextIds& text_ids, const StaticModel& model,
                              std::span<const std::string_view> texts, const TextForm& text_form,
                              const OutputForm& output_form, ThreadPool* pool,
                              std::vector<StaticPart>& parts, Embeddings& out);

}  // namespace sprat

#endif  // SPRAT_ENGINE_STATIC_TEXTS_H_
