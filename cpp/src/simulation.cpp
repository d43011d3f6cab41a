// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include "trcore/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "batch_means.hpp"
#include "trcore/batching.hpp"
#include "trcore/counter_draw.hpp"
#include "trcore/thresholds.hpp"

namespace trcore {
namespace {

constexpr std::int64_t kMostRequests = 1 << 20;
constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kStepsPerToken = 64;
constexpr std::int64_t kWarmUp = 8;  // 1/8 of the tokens
// Completions that are nearer than this, relative to the shortest step, are at the same time: sums
// of times that are equal on paper differ by rounding.
constexpr double kSimultaneous = 1e-9;

struct Request {
    CounterDraw draw;
    std::uint64_t step = 0;
    std::size_t run = 0;    // steps since it arrived where it is
    double arrived = 0;     // time
    double committed = 0;   // tokens
};

struct Model {
    std::vector<std::uint32_t> waiting;  // in order of arrival
    std::vector<std::uint32_t> running;
    double left = 0;                     // of its batch
    struct {
        double busy = 0;
        double waited = 0;
        std::int64_t batches = 0;
        std::int64_t requests = 0;
    } seen;                              // since the measurement began
};

class Simulation {
public:
    Simulation(const RoutingModel& model, std::int64_t requests,
               std::span<const std::int64_t> thresholds, const SimulationOptions& options)
        : model_(model), thresholds_(thresholds), options_(options), models_(model.models()),
          tolerance_(kSimultaneous * model.least_seconds(static_cast<std::size_t>(requests))),
          last_(model.models() - 1) {
        for (std::int64_t r = 0; r < requests; ++r) {
            requests_.push_back({CounterDraw(options.seed, static_cast<std::uint64_t>(r))});
            models_[0].waiting.push_back(static_cast<std::uint32_t>(r));
        }
        for (std::size_t run = 0; run < model.runs(); ++run) {
            for (std::size_t from = 0; from < model.models(); ++from) {
                double sum = 0;
                for (const double p : model.routing(run, from)) limits_.push_back(sum += p);
            }
        }
        if (!options.extend.empty()) known_.resize(requests_.size() * model.models());
    }

    Simulated run() {
        const double warm = static_cast<double>(options_.tokens) / kWarmUp;
        const std::int64_t most = options_.tokens * kStepsPerToken;
        while (committed_ < warm && steps_ < most / kWarmUp) advance();
        for (Model& model : models_) model.seen = {};
        const double began = now_;
        const std::int64_t before = steps_;
        BatchMeans means(now_, committed_, static_cast<double>(options_.tokens));
        while (!means.full() && steps_ - before < most) {
            advance();
            means.record(now_, committed_);
        }
        Simulated result;
        result.seconds = now_ - began;
        result.tokens = means.tokens();
        result.steps = steps_ - before;
        result.throughput = result.tokens / result.seconds;
        result.half_width = means.half_width();
        for (const Model& model : models_) {
            const auto count = static_cast<double>(model.seen.requests);
            result.busy.push_back(model.seen.busy / result.seconds);
            result.batch.push_back(count == 0 ? 0 : count / static_cast<double>(model.seen.batches));
            result.waiting.push_back(count == 0 ? 0 : model.seen.waited / count);
        }
        return result;
    }

private:
    // Starts what may start, then goes to the next completion.
    void advance() {
        start_batches();
        double lasts = std::numeric_limits<double>::infinity();
        for (const Model& model : models_) {
            if (!model.running.empty()) lasts = std::min(lasts, model.left);
        }
        now_ += lasts;
        // All complete before any starts.
        for (std::size_t i = 0; i < models_.size(); ++i) {
            Model& model = models_[i];
            if (model.running.empty()) continue;
            model.seen.busy += lasts;
            model.left -= lasts;
            if (model.left <= tolerance_) complete(i);
        }
    }

    void complete(std::size_t from) {
        Model& model = models_[from];
        const std::size_t count = models_.size();
        const std::span<const double> tokens = model_.tokens(from);
        for (const std::uint32_t r : model.running) {
            Request& request = requests_[r];
            const std::size_t run = std::min(request.run, model_.runs() - 1);
            const double* limits = &limits_[(run * count + from) * count];
            const double u = request.draw(request.step++);
            std::size_t to = 0;
            while (to + 1 < count && u >= limits[to]) ++to;
            request.run = to == from ? request.run + 1 : 0;
            request.arrived = now_;
            request.committed += tokens[to];
            committed_ += tokens[to];
            models_[to].waiting.push_back(r);
        }
        steps_ += static_cast<std::int64_t>(model.running.size());
        model.running.clear();
    }

    void start_batches() {
        if (!options_.exclusive) {
            for (std::size_t i = 0; i < models_.size(); ++i) {
                if (models_[i].running.empty() && ready(i)) start(i);
            }
            return;
        }
        std::size_t chosen = models_.size();
        for (std::size_t turn = 1; turn <= models_.size(); ++turn) {
            const std::size_t i = (last_ + turn) % models_.size();
            if (!ready(i)) continue;
            if (chosen == models_.size() ||
                (options_.turns == Turns::oldest && oldest(i) < oldest(chosen))) {
                chosen = i;
            }
        }
        last_ = chosen;
        start(chosen);
    }

    [[nodiscard]] bool ready(std::size_t model) const {
        return may_start(static_cast<std::int64_t>(models_[model].waiting.size()),
                         thresholds_[model]);
    }
    [[nodiscard]] double oldest(std::size_t model) const {
        return requests_[models_[model].waiting.front()].arrived;
    }

    void start(std::size_t i) {
        Model& model = models_[i];
        std::swap(model.waiting, model.running);
        const std::size_t batch = model.running.size();
        model.left = model_.seconds(i, batch);
        for (const std::uint32_t r : model.running) {
            const Request& request = requests_[r];
            model.seen.waited += now_ - request.arrived;
            if (options_.extend.empty()) continue;
            double& known = known_[r * models_.size() + i];
            model.left += options_.extend[i] * std::max(0.0, request.committed - known - 1);
            known = request.committed;
        }
        ++model.seen.batches;
        model.seen.requests += static_cast<std::int64_t>(batch);
    }

    const RoutingModel& model_;
    std::span<const std::int64_t> thresholds_;
    const SimulationOptions& options_;
    std::vector<Request> requests_;
    std::vector<Model> models_;
    std::vector<double> limits_;  // cumulated rows of P
    std::vector<double> known_;   // [N, M] tokens of a request that a model has read; with extend
    double tolerance_;
    double now_ = 0;
    double committed_ = 0;
    std::int64_t steps_ = 0;
    std::size_t last_;  // the model that ran last; at first the last of them, so model 0 begins
};

void check(const RoutingModel& model, std::int64_t requests, const SimulationOptions& options) {
    if (requests > kMostRequests) {
        throw std::invalid_argument("N: must be at most " + std::to_string(kMostRequests) +
                                    ", not " + std::to_string(requests));
    }
    if (options.tokens < 1 || options.tokens > kMostTokens) {
        throw std::invalid_argument("tokens: must be 1 to 10**12, not " +
                                    std::to_string(options.tokens));
    }
    if (!options.extend.empty() && options.extend.size() != model.models()) {
        throw std::invalid_argument("extend: must hold one number of seconds for each model");
    }
    for (const double seconds : options.extend) {
        if (!(seconds >= 0) || !std::isfinite(seconds)) {
            throw std::invalid_argument("extend: must be finite and 0 or more, not " +
                                        std::to_string(seconds));
        }
    }
}

}  // namespace

Simulated simulate(const RoutingModel& model, std::int64_t requests,
                   std::span<const std::int64_t> thresholds, const SimulationOptions& options) {
    check_thresholds(model.models(), requests, thresholds);
    check(model, requests, options);
    return Simulation(model, requests, thresholds, options).run();
}

}  // namespace trcore
