// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "routing_arguments.hpp"
#include "trcore/simulation.hpp"
#include "trcore/threshold_search.hpp"
#include "trcore/thresholds.hpp"

namespace trcore::python {
namespace {

std::uint64_t seed_from(const py::object& seed) {
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(seed.ptr()));
    if (!index) throw py::error_already_set();  // TypeError
    const std::uint64_t value = PyLong_AsUnsignedLongLong(index.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw py::value_error("seed: must be 0 to 2**64 - 1");
    }
    return value;
}

SimulationOptions options(std::size_t models, std::int64_t tokens, const py::object& seed,
                          bool exclusive, const std::string& turns, const py::object& extend) {
    SimulationOptions chosen;
    chosen.tokens = tokens;
    chosen.seed = seed_from(seed);
    chosen.exclusive = exclusive;
    if (turns != "oldest" && turns != "next") {
        throw py::value_error("turns: must be 'oldest' or 'next', not '" + turns + "'");
    }
    chosen.turns = turns == "oldest" ? Turns::oldest : Turns::next;
    const Floats seconds = floats("extend", extend);
    if (seconds.ndim() == 0) {
        if (*seconds.data() != 0) chosen.extend.assign(models, *seconds.data());
    } else if (seconds.ndim() == 1 && static_cast<std::size_t>(seconds.size()) == models) {
        chosen.extend = flat(seconds);
    } else {
        throw py::value_error("extend: must be one number of seconds, or one for each model");
    }
    return chosen;
}

Simulated run(const py::object& p, const py::object& c, const py::object& l, std::int64_t requests,
              const std::vector<std::int64_t>& thresholds, std::int64_t tokens, const py::object& seed,
              bool exclusive, const std::string& turns, const py::object& extend) {
    const RoutingModel model = routing_model(p, c, l);
    const SimulationOptions chosen =
        options(model.models(), tokens, seed, exclusive, turns, extend);
    // Safe: all it reads was copied from Python's objects.
    const py::gil_scoped_release unlocked;
    return simulate(model, requests, thresholds, chosen);
}

SearchedThresholds search(const py::object& p, const py::object& c, const py::object& l,
                          std::int64_t requests, std::int64_t tokens, const py::object& seed,
                          bool exclusive, const std::string& turns, const py::object& extend,
                          const std::optional<std::vector<std::int64_t>>& start,
                          std::int64_t max_evaluations) {
    const RoutingModel model = routing_model(p, c, l);
    SearchOptions chosen;
    chosen.simulation = options(model.models(), tokens, seed, exclusive, turns, extend);
    if (start) {
        if (start->empty()) throw py::value_error("start: must hold one threshold for each model");
        chosen.start = *start;
    }
    chosen.max_evaluations = max_evaluations;
    const py::gil_scoped_release unlocked;  // safe, as above
    return search_thresholds(model, requests, chosen);
}

}  // namespace

void bind_simulation(py::module_& module) {
    py::class_<Simulated>(module, "Simulated")
        .def_readonly("throughput", &Simulated::throughput)
        .def_readonly("half_width", &Simulated::half_width)
        .def_readonly("seconds", &Simulated::seconds)
        .def_readonly("tokens", &Simulated::tokens)
        .def_readonly("steps", &Simulated::steps)
        .def_property_readonly("busy", [](const Simulated& s) { return py::tuple(py::cast(s.busy)); })
        .def_property_readonly("batch", [](const Simulated& s) { return py::tuple(py::cast(s.batch)); })
        .def_property_readonly("waiting", [](const Simulated& s) {
            return py::tuple(py::cast(s.waiting)); })
        .def("__repr__", [](const Simulated& s) {
            return "<trcore.Simulated " + std::to_string(s.throughput) + " +- " +
                   std::to_string(s.half_width) + " tokens/s>"; });
    py::class_<SearchedThresholds>(module, "SearchedThresholds")
        .def_property_readonly("thresholds", [](const SearchedThresholds& s) {
            return py::tuple(py::cast(s.thresholds)); })
        .def_readonly("throughput", &SearchedThresholds::throughput)
        .def_readonly("half_width", &SearchedThresholds::half_width)
        .def_property_readonly("candidates", [](const SearchedThresholds& s) {
            return py::make_tuple(rows(s.candidates, s.thresholds.size()), column(s.throughputs)); })
        .def("__repr__", [](const SearchedThresholds& s) {
            return "<trcore.SearchedThresholds " + show_thresholds(s.thresholds) + ", " +
                   std::to_string(s.throughput) + " tokens/s>"; });
    module.def("simulate", &run, py::arg("P"), py::arg("C"), py::arg("L"), py::arg("N"),
               py::arg("B"), py::kw_only(), py::arg("tokens") = 100'000, py::arg("seed") = 0,
               py::arg("exclusive") = false, py::arg("turns") = "oldest",
               py::arg("extend") = 0.0);
    module.def("search_thresholds", &search, py::arg("P"), py::arg("C"), py::arg("L"),
               py::arg("N"), py::kw_only(), py::arg("tokens") = 20'000, py::arg("seed") = 0,
               py::arg("exclusive") = false, py::arg("turns") = "oldest",
               py::arg("extend") = 0.0, py::arg("start") = py::none(),
               py::arg("max_evaluations") = 256);
}

}  // namespace trcore::python
