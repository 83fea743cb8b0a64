// Losses and gradients of several models of a kind, judged together tensor by tensor against the
// definition: over one model, the yardstick may be lucky. For tests.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "tensor/pooled_closeness.h"
#include "train/gradient_reference.h"

namespace deltasane::train::test {

class PooledGradients {
 public:
  void add(const Parameters& model, const Batch& batch, const LossSettings& settings, double loss,
           std::span<const float> gradient) {
    std::vector<float> plain(gradient.size());
    std::vector<double> exact(model.all().begin(), model.all().end()), truth(plain.size());
    const auto plain_loss = reference::training_loss<float>(model.layout(), model.sane(),
                                                            model.all(), batch, settings, plain);
    const auto true_loss = reference::training_loss<double>(model.layout(), model.sane(), exact,
                                                            batch, settings, truth);
    const float found_loss = float(loss);
    losses_.add({&found_loss, 1}, {&plain_loss.cross_entropy, 1}, {&true_loss.cross_entropy, 1});
    for (const ParameterSlot& slot : model.layout().slots()) {
      const auto part = [&](const auto& all) {
        return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
      };
      gradients_[slot.name].add(part(gradient), part(plain), part(truth));
    }
  }
  void expect_close() const {
    EXPECT_TRUE(losses_.judged().close) << losses_.judged().explanation();
    for (const auto& [name, gradient] : gradients_)
      EXPECT_TRUE(gradient.judged(Judged::as_model).close)
          << name << " is " << gradient.judged(Judged::as_model).explanation();
  }

 private:
  PooledCloseness losses_;
  std::map<std::string, PooledCloseness> gradients_;
};

}  // namespace deltasane::train::test
