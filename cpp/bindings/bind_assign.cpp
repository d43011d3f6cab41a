// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "array_span.hpp"
#include "trcore/assign.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

// Pairs of request and instance from which on other threads may run meanwhile. Below, all is done
// in some microseconds, and to get the GIL back from a busy thread takes longer than that.
constexpr std::size_t kPairsWithoutGil = 4096;

template <class Choice>
Choice choice(const char* name, const std::string& given,
              std::initializer_list<std::pair<const char*, Choice>> known) {
    std::string names;
    for (const auto& [word, value] : known) {
        if (given == word) return value;
        names += (names.empty() ? "'" : ", '") + std::string(word) + "'";
    }
    throw py::value_error(std::string(name) + ": must be one of " + names + ", not '" + given +
                          "'");
}

AssignRules rules(std::vector<double> quality, std::vector<double> length, const std::string& norm,
                  const std::string& order, const std::string& otherwise) {
    AssignRules made;
    made.prior_quality = std::move(quality);
    made.prior_length = std::move(length);
    made.quality_norm = choice<QualityNorm>(
        "quality_norm", norm, {{"none", QualityNorm::none}, {"minmax", QualityNorm::minmax}});
    made.order = choice<Order>("order", order, {{"lpt", Order::lpt}, {"arrival", Order::arrival}});
    made.on_no_candidate = choice<OnNoCandidate>("on_no_candidate", otherwise,
        {{"fail", OnNoCandidate::fail}, {"cheapest", OnNoCandidate::cheapest},
         {"fastest", OnNoCandidate::fastest}});
    made.check();
    return made;
}

// Quality, cost and latency, for all requests or for each.
class Weights {
public:
    explicit Weights(const py::object& given) {
        if (py::isinstance<py::array>(given)) {
            const auto columns = py::reinterpret_borrow<py::array>(given).ndim();
            span_ = span_of<const double>("weights", given, columns == 2 ? 2 : 1, kWhat, 3);
            return;
        }
        try {
            three_ = given.cast<std::array<double, 3>>();  // a tenth of what numpy takes for it
        } catch (const py::cast_error&) {
            throw py::value_error(std::string("weights: must be an array of ") + kWhat);
        }
        span_ = three_;
    }
    Weights(const Weights&) = delete;  // the span may point into this
    Weights& operator=(const Weights&) = delete;

    [[nodiscard]] std::span<const double> span() const noexcept { return span_; }

private:
    static constexpr const char* kWhat = "float64, [3] or [R, 3], or three numbers";
    std::array<double, 3> three_{};
    std::span<const double> span_;
};

// A batch's arguments, as they are.
AssignBatch batch_of(const InstanceView& view, const AssignRules& rules, const Weights& weights,
                     const py::object& prompt_tokens, const py::object& max_tokens,
                     const py::object& quality, const py::object& length, const py::object& needs,
                     const py::object& models, const py::object& instances,
                     const py::object& max_usd, const py::object& max_seconds) {
    const auto m = static_cast<py::ssize_t>(rules.models());
    const auto i = static_cast<py::ssize_t>(view.size());
    using Mask = const std::uint8_t;
    return {
        .weights = weights.span(),
        .prompt_tokens =
            span_of<const std::int32_t>("prompt_tokens", prompt_tokens, 1, "int32, [R]"),
        .max_tokens = span_of<const std::int32_t>("max_tokens", max_tokens, 1, "int32, [R]"),
        .quality = span_of<const float>("quality", quality, 2, "float32, [R, M]", m),
        .length = span_of<const float>("length", length, 2, "float32, [R, M]", m),
        .needs = span_of<const std::uint32_t>("needs", needs, 1, "uint32, [R]"),
        .models = span_of<Mask, bool>("models", models, 2, "bool, [R, M]", m),
        .instances = span_of<Mask, bool>("instances", instances, 2, "bool, [R, I]", i),
        .max_usd = span_of<const double>("max_usd", max_usd, 1, "float64, [R]"),
        .max_seconds = span_of<const double>("max_seconds", max_seconds, 1, "float64, [R]"),
    };
}

Assigned assign(InstanceView& view, const AssignRules& rules, const py::object& weights,
                const py::object& prompt_tokens, const py::object& max_tokens,
                const py::object& quality, const py::object& length, const py::object& chosen,
                const py::object& tokens, const py::object& needs, const py::object& models,
                const py::object& instances, const py::object& max_usd,
                const py::object& max_seconds, const py::object& terms, const py::object& scores,
                bool commit) {
    const Weights weighted(weights);
    const AssignBatch batch = batch_of(view, rules, weighted, prompt_tokens, max_tokens, quality,
                                       length, needs, models, instances, max_usd, max_seconds);
    const auto i = static_cast<py::ssize_t>(view.size());
    const AssignOutputs outputs{
        .chosen = span_of<std::int32_t>("chosen", chosen, 1, "int32, [R]"),
        .tokens = span_of<std::int32_t>("tokens", tokens, 1, "int32, [R]"),
        .terms = span_of<double>("terms", terms, 2, "float64, [R, 6]", AssignOutputs::kTerms),
        .scores = span_of<double>("scores", scores, 2, "float64, [R, I]", i),
    };
    thread_local Assigner assigner;  // for its memory
    assigner.begin(view, rules, batch, outputs);
    Assigned counted;
    {
        // Safe: it reads its snapshot and the batch's arrays, which the call's arguments keep
        // alive, and no object of Python's.
        std::optional<py::gil_scoped_release> unlocked;
        if (batch.requests() * view.size() >= kPairsWithoutGil) unlocked.emplace();
        counted = assigner.run();
    }
    if (commit) assigner.commit(view);
    return counted;
}

// A function of its own: each further argument of assign() would cost every call a tenth of a
// microsecond.
py::array_t<double> prices(const InstanceView& view, const AssignRules& rules,
                           const py::object& weights, const py::object& prompt_tokens,
                           const py::object& max_tokens, const py::object& quality,
                           const py::object& length, const py::object& needs,
                           const py::object& models, const py::object& instances,
                           const py::object& max_usd, const py::object& max_seconds) {
    const Weights weighted(weights);
    const AssignBatch batch = batch_of(view, rules, weighted, prompt_tokens, max_tokens, quality,
                                       length, needs, models, instances, max_usd, max_seconds);
    const std::size_t requests = batch.requests(), pairs = requests * view.size();
    py::array_t<double> found({std::size_t{2}, requests, view.size()});
    std::vector<std::int32_t> chosen(requests), tokens(requests);
    Assigner assigner;
    assigner.begin(view, rules, batch,
                   {.chosen = chosen, .tokens = tokens, .terms = {}, .scores = {},
                    .usd = {found.mutable_data(), pairs},
                    .seconds = {found.mutable_data() + pairs, pairs}});
    assigner.run();
    return found;
}

}  // namespace

void bind_assign(py::module_& module) {
    py::class_<AssignRules>(module, "AssignRules")
        .def(py::init(&rules), py::arg("prior_quality"), py::arg("prior_length"), py::kw_only(),
             py::arg("quality_norm") = "none", py::arg("order") = "lpt",
             py::arg("on_no_candidate") = "fail")
        .def_property_readonly("models", &AssignRules::models);
    py::class_<Assigned>(module, "Assigned")
        .def_readonly("unassigned", &Assigned::unassigned)
        .def_readonly("relaxed", &Assigned::relaxed)
        .def_readonly("quality_priors", &Assigned::quality_priors)
        .def_readonly("length_priors", &Assigned::length_priors)
        .def_readonly("tpot_priors", &Assigned::tpot_priors)
        .def("__repr__", [](const Assigned& a) {
            return "<trcore.Assigned, " + std::to_string(a.unassigned) + " unassigned, " +
                   std::to_string(a.relaxed) + " relaxed>"; });
    const py::object none = py::none();
    module.def("assign", &assign, py::arg("view"), py::arg("rules"), py::arg("weights"),
               py::arg("prompt_tokens"), py::arg("max_tokens"), py::arg("quality"),
               py::arg("length"), py::arg("chosen"), py::arg("tokens"), py::kw_only(),
               py::arg("needs") = none, py::arg("models") = none, py::arg("instances") = none,
               py::arg("max_usd") = none, py::arg("max_seconds") = none, py::arg("terms") = none,
               py::arg("scores") = none, py::arg("commit") = true);
    module.def("prices", &prices, py::arg("view"), py::arg("rules"), py::arg("weights"),
               py::arg("prompt_tokens"), py::arg("max_tokens"), py::arg("quality"),
               py::arg("length"), py::kw_only(), py::arg("needs") = none,
               py::arg("models") = none, py::arg("instances") = none, py::arg("max_usd") = none,
               py::arg("max_seconds") = none);
}

}  // namespace trcore::python
