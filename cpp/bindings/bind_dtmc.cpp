// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "routing_arguments.hpp"
#include "trcore/dtmc.hpp"
#include "trcore/thresholds.hpp"

namespace trcore::python {
namespace {

ChainOptions options(std::optional<double> quantum, std::int64_t max_states, bool exclusive) {
    if (quantum && !(*quantum > 0)) {
        throw py::value_error("quantum: must be above 0 seconds, not " + std::to_string(*quantum));
    }
    if (max_states < 1) {
        throw py::value_error("max_states: must be 1 or more, not " + std::to_string(max_states));
    }
    return {quantum.value_or(0), static_cast<std::size_t>(max_states), exclusive};
}

ChainSolution solve_chain(const py::object& p, const py::object& c, const py::object& l,
                          std::int64_t requests, const std::vector<std::int64_t>& thresholds,
                          std::optional<double> quantum, std::int64_t max_states, bool exclusive) {
    const RoutingModel model = routing_model(p, c, l);
    const ChainOptions chosen = options(quantum, max_states, exclusive);
    // Safe: all it reads was copied from Python's objects.
    const py::gil_scoped_release unlocked;
    return solve(model, requests, thresholds, chosen);
}

BestThresholds find_best(const py::object& p, const py::object& c, const py::object& l,
                         std::int64_t requests, std::optional<double> quantum,
                         std::int64_t max_states, bool exclusive) {
    const RoutingModel model = routing_model(p, c, l);
    const ChainOptions chosen = options(quantum, max_states, exclusive);
    const py::gil_scoped_release unlocked;  // safe, as above
    return best_thresholds(model, requests, chosen);
}

std::string repr(const ChainSolution& solution) {
    return "<trcore.ChainSolution " + std::to_string(solution.throughput) + " tokens/s, " +
           std::to_string(solution.states) + " states>";
}

}  // namespace

void bind_dtmc(py::module_& module) {
    py::register_exception<StateSpaceTooLarge>(module, "StateSpaceTooLargeError", PyExc_ValueError);
    py::register_exception<ReducibleChain>(module, "ReducibleChainError", PyExc_ValueError);
    py::class_<ChainSolution>(module, "ChainSolution")
        .def_readonly("throughput", &ChainSolution::throughput)
        .def_readonly("quantum", &ChainSolution::quantum)
        .def_readonly("states", &ChainSolution::states)
        .def_readonly("transitions", &ChainSolution::transitions)
        .def_readonly("sweeps", &ChainSolution::sweeps)
        .def_property_readonly("busy", [](const ChainSolution& s) { return py::tuple(py::cast(s.busy)); })
        .def_property_readonly("batch", [](const ChainSolution& s) { return py::tuple(py::cast(s.batch)); })
        .def_property_readonly("waiting", [](const ChainSolution& s) {
            return py::tuple(py::cast(s.waiting)); })
        .def("__repr__", &repr);
    py::class_<BestThresholds>(module, "BestThresholds")
        .def_property_readonly("thresholds", [](const BestThresholds& b) {
            return py::tuple(py::cast(b.thresholds)); })
        .def_readonly("throughput", &BestThresholds::throughput)
        .def_readonly("quantum", &BestThresholds::quantum)
        .def_readonly("largest_chain", &BestThresholds::largest_chain)
        .def_property_readonly("candidates", [](const BestThresholds& b) {
            return py::make_tuple(rows(b.candidates, b.thresholds.size()), column(b.throughputs)); })
        .def("__repr__", [](const BestThresholds& b) {
            return "<trcore.BestThresholds " + show_thresholds(b.thresholds) + ", " +
                   std::to_string(b.throughput) + " tokens/s>"; });
    module.def("solve", &solve_chain, py::arg("P"), py::arg("C"), py::arg("L"), py::arg("N"),
               py::arg("B"), py::kw_only(), py::arg("quantum") = py::none(),
               py::arg("max_states") = 200'000, py::arg("exclusive") = false);
    module.def("best_thresholds", &find_best, py::arg("P"), py::arg("C"), py::arg("L"),
               py::arg("N"), py::kw_only(), py::arg("quantum") = py::none(),
               py::arg("max_states") = 200'000, py::arg("exclusive") = false);
}

}  // namespace trcore::python
