# Every target with a comment behind "##" shows in `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
# Without the paths of this machine: in the programs, and in what one compile leaves for the next, wherever the clone is.
export GOFLAGS := $(GOFLAGS) -trimpath
BIN     := bin
TOOLS   := $(BIN)/tools
TOOL_NAMES := gotestsum golangci-lint buf controller-gen protoc-gen-go protoc-gen-go-grpc
TOOL_GO := $(GO) build -modfile=go.tools.mod
# The race detector needs a C compiler; without one the tests run without it, and say so.
RACE    := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo -race)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X gpustack.ai/model-deployment-scaler/internal/process.version=$(VERSION)
DAEMONS := sampler decider webhook
BINARIES := $(DAEMONS) kubectl-mds
TIMEOUT ?= 20m

##@ Use

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build $(BIN)/demo ## Scale a simulated model deployment on a real API server: about 3 minutes after the build. KEEP=1 stays up.
	@exec $(BIN)/demo $(if $(KEEP),--keep)

.PHONY: test
test: ## Run everything: checks, unit tests with -race, devcluster's tests and the e2e suite on a real API server.
	@[ -n "$(RACE)" ] || echo "note: no C compiler found, so the tests run without the race detector"
	@$(MAKE) --no-print-directory -j2 build $(addprefix $(TOOLS)/,$(TOOL_NAMES))
	@hack/verify-generated.sh
	@# The end-to-end tests mostly wait: linting and devcluster's tests run beside them.
	@$(MAKE) --no-print-directory -j3 test-module test-devcluster lint
	@echo "The ten slowest tests:"
	@cat $(BIN)/devcluster.json $(BIN)/test.json | $(TOOLS)/gotestsum tool slowest --threshold 1s --num 10
	@echo "All of it:"
	@$(TOOLS)/gotestsum --format none --raw-command -- cat $(BIN)/devcluster.json $(BIN)/test.json

# What takes longest goes first; most of it waits, so there may be one more at a time than cores. Vetting is the linter's, and nobody debugs these binaries.
.PHONY: test-module
test-module: build $(TOOLS)/gotestsum
	@CGO_ENABLED=$(if $(RACE),1,0) $(TOOLS)/gotestsum --format pkgname --jsonfile $(BIN)/test.json -- $(RACE) -vet=off -ldflags=-w \
		-p $$(($$(nproc) + 1)) -timeout $(TIMEOUT) ./test/e2e ./internal/decide ./test/manifests ./internal/decider ./dev/fleet ./test/ownership ./internal/kube ./internal/webhook ./...

# With the flags of the build, so that Kubernetes is compiled once; ./... would vet more than ours.
.PHONY: test-devcluster
test-devcluster: build $(TOOLS)/gotestsum
	@cd devcluster && DEVCLUSTER=$(abspath $(BIN)/devcluster) CGO_ENABLED=0 ../$(TOOLS)/gotestsum --format pkgname --jsonfile ../$(BIN)/devcluster.json -- -timeout $(TIMEOUT) ./e2e ./internal/cluster

##@ Build

.PHONY: build
build: $(addprefix $(BIN)/,$(BINARIES)) $(BIN)/devcluster ## Build the binaries and the development control plane into bin/.

GO_FILES := $(shell find api internal cmd dev manifests/crds -name '*.go' -not -name '*_test.go' 2>/dev/null) manifests/crds/worker.gpustack.ai_modeldeploymentscalers.yaml

$(addprefix $(BIN)/,$(BINARIES)): $(BIN)/%: $(GO_FILES) go.mod go.sum
	CGO_ENABLED=0 $(GO) build -ldflags "$(LDFLAGS)" -o $@ ./cmd/$*

$(BIN)/demo: $(GO_FILES) go.mod go.sum
	CGO_ENABLED=0 $(GO) build -o $@ ./dev/demo

DEVCLUSTER_FILES := $(shell find devcluster -name '*.go' -not -name '*_test.go' 2>/dev/null)

$(BIN)/devcluster: $(DEVCLUSTER_FILES) devcluster/go.mod devcluster/go.sum
	@[ -e $@ ] || echo "Building devcluster (etcd, kube-apiserver, kube-controller-manager, kubectl): 7 to 10 minutes on two cores the first time, seconds afterwards."
	CGO_ENABLED=0 $(GO) build -C devcluster -ldflags "-s -w" -o ../$@ .

##@ Develop

.PHONY: generate
generate: $(TOOLS)/controller-gen $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Make the generated files anew: deepcopy, CRD, protobuf, the list of flags.
	$(TOOLS)/controller-gen object paths=./api/worker/v1/...
	$(GO) run ./hack/crd
	$(TOOLS)/buf generate
	@$(MAKE) --no-print-directory $(addprefix $(BIN)/,$(DAEMONS))
	hack/flags.sh $(DAEMONS)

.PHONY: lint
lint: $(TOOLS)/golangci-lint $(TOOLS)/buf ## Lint Go and protobuf.
	@# Without cgo, as the binaries are built: what they compiled serves the linter too.
	CGO_ENABLED=0 $(TOOLS)/golangci-lint run --allow-parallel-runners ./...
	$(TOOLS)/buf lint
	$(TOOLS)/buf breaking --against api/proto/baseline.binpb

.PHONY: verify
verify: lint ## Lint, and prove that generated code is current (the import rule is a test).
	@hack/verify-generated.sh

.PHONY: bench
bench: ## Run the benchmarks once, printing figures.
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...

.PHONY: bench-decide
bench-decide: ## Measure the planner: a pass (100 us, 50 allocations), 5,000 scalers (1 s, 40 KB each), ten coupled roles (99 % under 5 ms).
	$(GO) test -run '^$$' -bench 'Plan|Projection' -benchmem ./internal/decide

.PHONY: bench-forecast
bench-forecast: ## Forecast traffic 300 s ahead: fixed and adaptive noise, last value, window. TRACES=dir of recorded traffic.
	$(GO) test -run '^$$' -bench '^BenchmarkForecast$$' -benchtime 1x ./internal/decide $(if $(TRACES),-traces $(abspath $(TRACES)))

PASSES ?= 1000000

.PHONY: soak
soak: ## Plan a million random passes and hold each against the planner's promises, and a million projections against brute force.
	$(GO) test -run '^TestProjectionFindsWhatBruteForceFinds$$' -v -timeout 2h ./internal/decide -rapid.checks $(PASSES)
	$(GO) test -run '^TestRandomRunsKeepEveryPromise$$' -v -timeout 2h ./internal/decide -passes $(PASSES)

.PHONY: bench-scrape
bench-scrape: ## Measure decoding against expfmt (at least 20 times faster) and a bare pass over the lines (at most 3 times slower).
	$(GO) test -run '^TestSteadyDecoding' -bench '^BenchmarkRatios' -benchtime 50x ./internal/scrape

.PHONY: bench-sampler
bench-sampler: $(BIN)/sampler ## Measure one sampler that scrapes 10,000 Pods every 15 seconds: at most half a core and 100 MB. Takes 95 seconds.
	CGO_ENABLED=0 $(GO) build -o $(BIN)/samplerload ./dev/samplerload
	@exec $(BIN)/samplerload

.PHONY: bench-webhook
bench-webhook: $(BIN)/webhook $(BIN)/devcluster ## Measure the webhook on one core at 500 requests a second: 99 % under 5 ms, besides a read of the API server. Takes a minute.
	CGO_ENABLED=0 $(GO) build -o $(BIN)/webhookload ./dev/webhookload
	@exec $(BIN)/webhookload

SCALERS ?= 5000

.PHONY: bench-fleet
bench-fleet: $(BIN)/decider $(BIN)/devcluster ## Measure one decider that plans 5,000 scalers on one core, 200 of which burst at the end: about 15 minutes.
	CGO_ENABLED=0 $(GO) build -o $(BIN)/fleetload ./dev/fleetload
	@exec $(BIN)/fleetload --scalers $(SCALERS)

.PHONY: chaos
chaos: build ## Break the running system in 26 ways while models scale, and check every version. FAULTS=a,b COUNTS=a=3,b=10.
	CGO_ENABLED=0 $(GO) build -o $(BIN)/chaos ./dev/chaos
	CGO_ENABLED=0 $(GO) build -tags chaos -o $(BIN)/decider-stepped ./cmd/decider
	@exec $(BIN)/chaos $(if $(FAULTS),--faults $(FAULTS)) $(if $(COUNTS),--counts $(COUNTS))

FUZZTIME ?= 60s

.PHONY: fuzz
fuzz: ## Fuzz whatever reads bytes from outside, each target for FUZZTIME.
	@grep -ro '^func Fuzz[A-Za-z]*' --include='*_test.go' internal | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "fuzzing $$name in $$dir"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$dir" || exit 1; done

.PHONY: manifests
manifests: $(BIN)/devcluster ## Render the manifests into bin/manifests, one file an overlay.
	@mkdir -p $(BIN)/manifests
	@for o in manifests/overlays/*/; do n=$$(basename $$o); $(BIN)/devcluster kubectl kustomize $$o > $(BIN)/manifests/$$n.yaml && echo "wrote $(BIN)/manifests/$$n.yaml"; done

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BIN)

# Tools are pinned in go.tools.mod and built once.
$(addprefix $(TOOLS)/,$(TOOL_NAMES)): go.tools.mod go.tools.sum
	@echo "Building $(notdir $@)."
	@CGO_ENABLED=0 $(TOOL_GO) -o $@ $$(awk '/^tool \(/{t=1;next} /^\)/{t=0} t{print $$1}' go.tools.mod | grep '/$(notdir $@)$$')
