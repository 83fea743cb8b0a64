// Losses and gradients of several models of a kind, judged together tensor by tensor against the
// definition: over one model, the yardstick may be lucky. For tests.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "base/cat.h"
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
  // As operators, on average over the models: what is not close, or nothing.
  std::string too_far_on_average() const {
    std::string all;
    if (!losses_.judged().close) all = cat("losses: ", losses_.judged().explanation(), '\n');
    for (const auto& [name, gradient] : gradients_)
      if (const double share = gradient.mean_share(); !(share <= 1))
        all += cat(name, " is off by ", share, " times what is allowed\n");
    return all;
  }
  // As models.
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
