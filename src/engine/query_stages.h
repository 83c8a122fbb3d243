// Where the time of a single query goes.
#ifndef SPRAT_ENGINE_QUERY_STAGES_H_
#define SPRAT_ENGINE_QUERY_STAGES_H_

#include <cstddef>
#include <mutex>
#include <string_view>
#include <vector>

#include "engine/loaded_model.h"
#include "engine/text_ids.h"
#include "sprat/engine.h"

namespace sprat {

// A query as a caller asks for it.
struct Query {
  std::string_view text;
  TextForm form;
  OutputForm output;
  size_t columns = 0;
};

// Runs the query `calls` times and takes each apart: on the CPU into tokenizing and the forward
// pass, on a GPU into what it says of its own stages and clocks. `device` is locked while the model
// computes.
// Errors: those of TextIds::Append and of the model.
Result<std::vector<QueryStages>> TakeApart(const LoadedModel& loaded, const TextIds& text_ids,
                                           std::mutex& device, const Query& query, size_t calls);

}  // namespace sprat

#endif  // SPRAT_ENGINE_QUERY_STAGES_H_
