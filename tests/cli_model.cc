// Writes a tiny model directory: cli_model DIRECTORY. For tests of the command line.
#include <cstdio>

#include "model/model_writer_for_test.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  sprat::TinyModel model;
  model.max_sequence = 64;
  model.prompts = {{"query", "query: "}, {"passage", "passage: "}};
  model.Write(argv[1]);
  return 0;
}
