#include "python/engine/trainer.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "format/tokenizer/find_tokenizer.h"
#include "python/engine/raise.h"
#include "train/checkpoint.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;

// Errors of the lower layers as exceptions of deltasane.errors. Translators that are registered would
// be asked in the order of imports, and deltasane._ops has another one for the same errors.
template <class Body>
auto translated(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    static_assert(int(Fault::usage) == 0 && int(Fault::overflow) == 4);
    raise(int(error.fault()), error.what());
    throw nb::python_error();
  }
}

// One thread uses it at a time; another is refused.
class Trainer {
 public:
  Trainer(const std::string& toml, const std::string& name, const std::vector<std::string>& set)
      : config_(train::read_config(toml, name, set)),
        tokenizer_(open_vocabulary(config_.corpus.tokenizer)),
        threads_(int(config_.run.threads)),
        run_(config_, *tokenizer_, {threads_}),
        process_(getpid()) {}

  // Runs `body` with the run, without Python's lock.
  template <class Body>
  auto alone(const Body& body) {
    return translated([&] {
      if (process_ != getpid())
        fail(Fault::usage, "trainer: expected the process that opened it, found a fork of it; open it in each process");
      if (busy_.exchange(true))
        fail(Fault::usage, "trainer: expected one thread at a time, found another");
      struct Release {
        std::atomic<bool>& busy;
        ~Release() { busy = false; }
      } release{busy_};
      const nb::gil_scoped_release released;
      return body(run_);
    });
  }

  // Before a checkpoint is written there: those that it finds are its own, or there are none.
  void expect_own(const fs::path& folder) const {
    if (!own_.contains(fs::weakly_canonical(folder)))
      train::expect_no_checkpoints(folder, "resume=True");
  }
  void own(const fs::path& folder) { own_.insert(fs::weakly_canonical(folder)); }

 private:
  std::set<fs::path> own_;  // folders that it resumed from or saved to
  train::TrainConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ThreadPool threads_;
  train::TrainingRun run_;
  pid_t process_;
  std::atomic<bool> busy_{false};
};

Trainer* open_trainer(const std::string& toml, const std::string& name,
                      const std::vector<std::string>& set) {
  return translated([&] {
    const nb::gil_scoped_release released;
    return new Trainer(toml, name, set);
  });
}

nb::tuple step(Trainer& trainer) {
  const train::StepReport made = trainer.alone([](train::TrainingRun& run) { return run.step(); });
  return nb::make_tuple(made.step, made.loss, made.gradient_length, made.rate, made.tokens);
}

nb::tuple evaluate(Trainer& trainer) {
  const train::EvaluationReport found =
      trainer.alone([](train::TrainingRun& run) { return run.evaluate(); });
  return nb::make_tuple(found.step, found.loss);
}

std::string save(Trainer& trainer, const std::string& folder) {
  return trainer.alone([&](train::TrainingRun& run) {
    trainer.expect_own(folder);
    const fs::path place = train::save_checkpoint(folder, run, run.config().run.keep);
    trainer.own(folder);
    return place.string();
  });
}

// Instead of resume: the run begins in a folder without checkpoints.
void begin(Trainer& trainer) {
  trainer.alone([&](train::TrainingRun& run) { trainer.expect_own(run.config().run.folder); });
}

// The checkpoint, and what was passed over because it is damaged.
nb::tuple resume(Trainer& trainer, const std::string& folder) {
  std::vector<std::string> passed_over;
  const std::string from = trainer.alone([&](train::TrainingRun& run) {
    const fs::path place = train::resume_newest(folder, run, passed_over);
    trainer.own(folder);
    return place.string();
  });
  return nb::make_tuple(from, passed_over);
}

// [(name, shape, values)], copied.
nb::list parameters(Trainer& trainer) {
  std::vector<Tensor<float>> read;
  std::vector<std::string> names;
  trainer.alone([&](train::TrainingRun& run) {
    names = run.parameters().names();
    for (const std::string& name : names) read.push_back(run.parameters().read(name));
  });
  nb::list all;
  for (size_t i = 0; i < names.size(); ++i) {
    auto* const kept = new Tensor<float>(std::move(read[i]));
    const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<Tensor<float>*>(data); });
    std::vector<size_t> shape;
    for (int d = 0; d < kept->shape().rank(); ++d) shape.push_back(size_t(kept->shape()[d]));
    all.append(nb::make_tuple(names[i], nb::ndarray<nb::numpy, float>(kept->data(), shape.size(),
                                                                      shape.data(), owner)));
  }
  return all;
}

}  // namespace

void bind_trainer(nb::module_& m) {
  nb::class_<Trainer>(m, "Trainer")
      .def_static("open", &open_trainer, nb::arg("toml"), nb::arg("name"), nb::arg("set"))
      .def("step", &step)
      .def("evaluate", &evaluate)
      .def("save", &save, nb::arg("folder"))
      .def("begin", &begin)
      .def("resume", &resume, nb::arg("folder"))
      .def("parameters", &parameters)
      .def_prop_ro("steps_done",
                   [](Trainer& t) {
                     return t.alone([](train::TrainingRun& run) { return run.progress().step; });
                   })
      .def_prop_ro("folder",
                   [](Trainer& t) {
                     return t.alone([](train::TrainingRun& run) { return run.config().run.folder; });
                   })
      .def_prop_ro("finished", [](Trainer& t) {
        return t.alone([](train::TrainingRun& run) { return run.finished(); });
      });
}

}  // namespace deltasane::python
