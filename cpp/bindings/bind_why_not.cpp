// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "array_span.hpp"
#include "trcore/assign.hpp"
#include "trcore/why_not.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

// Keeps the GIL, which is the view's lock.
py::array_t<std::uint8_t> bound_why_not(
    const InstanceView& view, const py::object& prompt_tokens, const py::object& max_tokens,
    const py::object& needs, const py::object& models, const py::object& instances,
    const py::object& usd, const py::object& seconds, const py::object& max_usd,
    const py::object& max_seconds) {
    const auto i = static_cast<py::ssize_t>(view.size());
    using Mask = const std::uint8_t;
    const AssignBatch batch{
        .weights = {},
        .prompt_tokens =
            span_of<const std::int32_t>("prompt_tokens", prompt_tokens, 1, "int32, [R]"),
        .max_tokens = span_of<const std::int32_t>("max_tokens", max_tokens, 1, "int32, [R]"),
        .quality = {},
        .length = {},
        .needs = span_of<const std::uint32_t>("needs", needs, 1, "uint32, [R]"),
        .models = span_of<Mask, bool>("models", models, 2, "bool, [R, M]"),
        .instances = span_of<Mask, bool>("instances", instances, 2, "bool, [R, I]", i),
        .max_usd = span_of<const double>("max_usd", max_usd, 1, "float64, [R]"),
        .max_seconds = span_of<const double>("max_seconds", max_seconds, 1, "float64, [R]"),
    };
    const AssignPrices prices{
        .usd = span_of<const double>("usd", usd, 2, "float64, [R, I]", i),
        .seconds = span_of<const double>("seconds", seconds, 2, "float64, [R, I]", i),
    };
    const py::ssize_t m = models.is_none() ? 0 : py::cast<py::array>(models).shape(1);
    const auto r = static_cast<py::ssize_t>(batch.requests());
    py::array_t<std::uint8_t> found({r, i});
    why_not(view, batch, prices, static_cast<std::size_t>(m),
            {found.mutable_data(), static_cast<std::size_t>(found.size())});
    return found;
}

}  // namespace

void bind_why_not(py::module_& module) {
    py::native_enum<WhyNot>(module, "WhyNot", "enum.IntFlag")
        .value("DRAINING", WhyNot::draining)
        .value("UNHEALTHY", WhyNot::unhealthy)
        .value("NO_ROOM", WhyNot::no_room)
        .value("LACKS_CAPABILITY", WhyNot::lacks_capability)
        .value("MODEL_NOT_ALLOWED", WhyNot::model_not_allowed)
        .value("EXCLUDED", WhyNot::excluded)
        .value("ABOVE_MAX_USD", WhyNot::above_max_usd)
        .value("ABOVE_MAX_SECONDS", WhyNot::above_max_seconds)
        .finalize();
    const py::object none = py::none();
    module.def("why_not", &bound_why_not, py::arg("view"), py::arg("prompt_tokens"),
               py::arg("max_tokens"), py::kw_only(), py::arg("needs") = none,
               py::arg("models") = none, py::arg("instances") = none, py::arg("usd") = none,
               py::arg("seconds") = none, py::arg("max_usd") = none,
               py::arg("max_seconds") = none);
}

}  // namespace trcore::python
