// The extension deltasane._engine: the public C++ API as Python sees it. It is private to
// python/deltasane/, which makes numpy arrays of what it returns.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <deltasane/deltasane.h>
#include <atomic>

#include "python/engine/head_statistics.h"
#include "python/engine/raise.h"
#include "python/engine/thoughts.h"
#include "python/engine/trainer.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;
using Floats = nb::ndarray<nb::numpy, float>;

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    static_assert(int(Fault::usage) == 0 && int(Fault::overflow) == 4);
    raise(int(error.fault()), error.what());
  }
}

// An array that owns its numbers.
template <class Number>
nb::ndarray<nb::numpy, Number> array_of(std::vector<Number> numbers, const std::vector<size_t>& shape) {
  auto* const kept = new std::vector<Number>(std::move(numbers));
  const nb::capsule owner(kept, [](void* data) noexcept {
    delete static_cast<std::vector<Number>*>(data);
  });
  return {kept->data(), shape.size(), shape.data(), owner};
}

// A state that one thread uses at a time; another is refused.
struct OwnedState {
  explicit OwnedState(State of) : state(std::move(of)) {}
  State state;
  std::atomic<bool> busy{false};
};

class Use {
 public:
  explicit Use(OwnedState& owned) : owned_(owned) {
    if (owned.busy.exchange(true))
      throw Error(Fault::argument, "state: expected one thread at a time, found another; copy it");
  }
  ~Use() { owned_.busy = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  State& state() const { return owned_.state; }

 private:
  OwnedState& owned_;
};

// A model's threads do not survive a fork.
struct OwnedModel {
  explicit OwnedModel(Model of) : model(std::move(of)), process(getpid()) {}
  const Model& here() const {
    if (process != getpid())
      throw Error(Fault::usage, "model: expected the process that opened it, found a fork of it; open the model "
                                "in each process");
    return model;
  }
  Model model;
  pid_t process;
};

nb::tuple generated(const Generated& made) {
  static constexpr const char* reasons[] = {"max_tokens", "end_of_document", "stop_text", "cancelled"};
  return nb::make_tuple(made.text, made.prompt_tokens, made.tokens, reasons[int(made.ended)]);
}

nb::list parts_of(OwnedState& owned) {
  const Use use(owned);
  nb::list all;
  for (StatePart& part : use.state().parts()) {
    const std::vector<size_t> shape(part.shape.begin(), part.shape.end());
    all.append(nb::make_tuple(part.name, part.kind, part.layer,
                              array_of(std::move(part.values), shape)));
  }
  return all;
}

std::string_view prompt_of(const nb::bytes& text) {
  return {static_cast<const char*>(text.data()), text.size()};
}
const Tokens& prompt_of(const Tokens& tokens) { return tokens; }

// messages: (role, text) each. Returns tokens, stop texts, and the beginning of the answer.
nb::tuple chat(const Tokenizer& tokenizer,
               const std::vector<std::pair<std::string, std::string>>& messages,
               const std::string& mode, const std::string& chat_template) {
  std::vector<Message> all;
  for (const auto& [role, text] : messages) all.push_back({role, text});
  const ChatPrompt prompt = tokenizer.chat(all, mode, chat_template);
  return nb::make_tuple(prompt.tokens, prompt.stop, prompt.beginning);
}

void bind_tokenizer(nb::module_& m) {
  nb::class_<Tokenizer>(m, "Tokenizer")
      .def_static("open", &Tokenizer::open, nb::arg("vocabulary"))
      .def("encode",
           [](const Tokenizer& t, const nb::bytes& text) {
             return t.encode(prompt_of(text));
           })
      .def("decode",
           [](const Tokenizer& t, const Tokens& tokens) {
             const std::string text = t.decode(tokens);
             return nb::bytes(text.data(), text.size());
           })
      .def("chat", &chat, nb::arg("messages"), nb::arg("mode"), nb::arg("chat_template"))
      .def_prop_ro("vocabulary", &Tokenizer::vocabulary)
      .def_prop_ro("end_of_document", &Tokenizer::end_of_document);
}

void bind_settings(nb::module_& m) {
  nb::class_<SamplingSettings>(m, "SamplingSettings")
      .def(nb::init<>())
      .def_rw("max_tokens", &SamplingSettings::max_tokens)
      .def_rw("stop", &SamplingSettings::stop)
      .def_rw("temperature", &SamplingSettings::temperature)
      .def_rw("top_p", &SamplingSettings::top_p)
      .def_rw("top_k", &SamplingSettings::top_k)
      .def_rw("presence_penalty", &SamplingSettings::presence_penalty)
      .def_rw("frequency_penalty", &SamplingSettings::frequency_penalty)
      .def_rw("penalty_decay", &SamplingSettings::penalty_decay)
      .def_rw("seed", &SamplingSettings::seed);
  nb::class_<ModelDescription>(m, "ModelDescription")
      .def_ro("name", &ModelDescription::name)
      .def_ro("architecture", &ModelDescription::architecture)
      .def_ro("layers", &ModelDescription::layers)
      .def_ro("channels", &ModelDescription::channels)
      .def_ro("vocabulary", &ModelDescription::vocabulary)
      .def_ro("parameters", &ModelDescription::parameters)
      .def_ro("state_bytes", &ModelDescription::state_bytes)
      .def_ro("weights", &ModelDescription::weights)
      .def_ro("device", &ModelDescription::device)
      .def_ro("sane", &ModelDescription::sane);
}

void bind_states(nb::module_& m) {
  nb::class_<OwnedState>(m, "State")
      .def("copy",
           [](OwnedState& owned) {
             const Use use(owned);
             return new OwnedState(use.state().clone());
           })
      .def_prop_ro("position", [](OwnedState& owned) { return owned.state.position(); })
      .def_prop_ro("pending", [](OwnedState& owned) { return owned.state.pending(); })
      .def("parts", &parts_of)
      .def("save", [](OwnedState& owned, const std::string& path) {
        const Use use(owned);
        const nb::gil_scoped_release released;
        use.state().save(path);
      });
}

OwnedModel* open_model(const std::string& path, const std::string& device,
                       const std::string& weights, int threads, std::optional<double> sane_alpha,
                       bool without_sane, const std::string& tokenizer) {
  const nb::gil_scoped_release released;
  return new OwnedModel(
      Model::open(path, {device, weights, threads, sane_alpha, without_sane, tokenizer}));
}

Floats forward(const OwnedModel& owned, const Tokens& tokens, OwnedState& state, bool all) {
  std::vector<float> logits;
  {
    const Use use(state);
    const nb::gil_scoped_release released;
    logits = all ? owned.here().forward_all(tokens, use.state())
                 : owned.here().forward(tokens, use.state());
  }
  const auto vocabulary = size_t(owned.model.description().vocabulary);
  const size_t rows = logits.size() / vocabulary;
  return array_of(std::move(logits), all ? std::vector{rows, vocabulary} : std::vector{vocabulary});
}

nb::ndarray<nb::numpy, double> score(const OwnedModel& owned, const Tokens& tokens,
                                     OwnedState& state) {
  std::vector<double> losses;
  {
    const Use use(state);
    const nb::gil_scoped_release released;
    losses = owned.here().score(tokens, use.state());
  }
  const size_t count = losses.size();
  return array_of(std::move(losses), {count});
}

// on_text: called with each piece; False ends the text.
template <class Prompt>
nb::tuple generate(const OwnedModel& owned, const Prompt& prompt, OwnedState& state,
                   const SamplingSettings& settings, const nb::callable& on_text) {
  Generated made;
  const auto given = prompt_of(prompt);
  {
    const Use use(state);
    const nb::gil_scoped_release released;
    made = owned.here().generate(
        given, use.state(), settings,
        [&](std::string_view piece) {
          const nb::gil_scoped_acquire acquired;
          return nb::cast<bool>(on_text(nb::str(piece.data(), piece.size())));
        });
  }
  return generated(made);
}

nb::list generate_texts(const OwnedModel& owned, const std::vector<std::string>& prompts,
                        int samples, const SamplingSettings& settings) {
  std::vector<Generated> made;
  {
    const nb::gil_scoped_release released;
    made = owned.here().generate(prompts, samples, settings);
  }
  nb::list all;
  for (const Generated& one : made) all.append(generated(one));
  return all;
}

void bind_models(nb::module_& m) {
  nb::class_<OwnedModel>(m, "Model")
      .def_static("open", &open_model, nb::arg("path"), nb::arg("device"), nb::arg("weights"),
                  nb::arg("threads"), nb::arg("sane_alpha").none(), nb::arg("without_sane"),
                  nb::arg("tokenizer"))
      .def_prop_ro("description", [](const OwnedModel& own) { return own.model.description(); })
      .def("tokenizer", [](const OwnedModel& own) { return own.here().tokenizer(); })
      .def("fresh_state", [](const OwnedModel& own) { return new OwnedState(own.here().fresh_state()); })
      .def("load_state",
           [](const OwnedModel& own, const std::string& path) {
             return new OwnedState(own.here().load_state(path));
           })
      .def("forward", &forward, nb::arg("tokens"), nb::arg("state"), nb::arg("all"))
      .def("score", &score, nb::arg("tokens"), nb::arg("state"))
      .def("generate", &generate<nb::bytes>, nb::arg("prompt"), nb::arg("state"),
           nb::arg("settings"), nb::arg("on_text"))
      .def("generate", &generate<Tokens>, nb::arg("prompt"), nb::arg("state"), nb::arg("settings"),
           nb::arg("on_text"))
      .def("generate_texts", &generate_texts, nb::arg("prompts"), nb::arg("samples"),
           nb::arg("settings"));
}

}  // namespace
}  // namespace deltasane::python

NB_MODULE(_engine, m) {
  using namespace deltasane;
  using namespace deltasane::python;
  if (nb::type<OwnedModel>().is_valid())
    throw nb::import_error("deltasane: expected one copy of the package in a process, found another that was imported "
                           "before, under another name");
  m.doc() = "The engine of deltasane.Model.";
  nb::register_exception_translator(translate);
  m.def("version", &deltasane::version);
  m.def(
      "head_statistics",
      [](const nb::ndarray<const float, nb::c_contig, nb::device::cpu>& entries, double tau) {
        return head_statistics({entries.data(), entries.size()}, tau);
      },
      nb::arg("entries"), nb::arg("tau"));
  bind_tokenizer(m);
  bind_settings(m);
  bind_states(m);
  bind_models(m);
  bind_thoughts(m);
  bind_trainer(m);
}
